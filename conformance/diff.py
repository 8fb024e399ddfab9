"""``diff``: the same cases against two servers, and where they answer differently.

Ids and times are replaced by their order of appearance before the comparison.
"""

from __future__ import annotations

import difflib
import json
from typing import Any, Final

import attrs

from conformance.offer import needs_of
from conformance.runner import run_case
from conformance.specdoc import PROFILES, Spec
from conformance.target import Target
from conformance.trace import Record
from conformance.transcript import Case
from conformance.web import from_json, sse_data

_IDS: Final = frozenset(
    ("id", "item_id", "response_id", "previous_response_id", "call_id", "encrypted_content")
)
ATTEMPTS: Final = 3
# What is shorter is a client's own name for something, and stands in other words too.
SHORTEST_ID: Final = 8
_TIMES: Final = frozenset(("created_at", "completed_at", "expires_at"))
_PADDING: Final = frozenset(("obfuscation",))


@attrs.frozen
class Difference:
    """A case in which two servers differ; ``lines`` as of ``diff -u``."""

    case: str
    lines: tuple[str, ...]


def cases_for(spec: Spec) -> list[Case]:
    """The cases that any server can be given: those in the default configuration."""
    return [case for case in spec.cases.values() if not needs_of(case, frozenset(PROFILES)).config]


async def compare(case: Case, first: Target, second: Target) -> Difference | None:
    """Play a case against both; None if they behave alike.

    How far a server gets before the case closes is chance: two servers differ only if they do so each time.
    """
    for _ in range(ATTEMPTS):
        left = said((await run_case(case, first)).records)
        right = said((await run_case(case, second)).records)
        if left == right:
            return None
    return Difference(case.id, tuple(difflib.unified_diff(left, right, "A", "B", lineterm="", n=2)))


def said(records: list[Record]) -> list[str]:
    """What a server said, lane by lane, normalised; a line per record.

    How much still comes once one side has closed is chance, and left out.
    """
    lanes: dict[tuple[str, str], list[Record]] = {}
    closing: set[str] = set()
    for record in records:
        conn, kind = record["conn"], record["kind"]
        if record["dir"] == "s2c" and (kind == "close" or conn not in closing):
            lanes.setdefault((conn, _lane(record)), []).append(record)
        if kind == "close":
            closing.add(conn)
    names: dict[str, str] = {}
    return [f"{conn} {_line(one, names)}" for (conn, _), found in sorted(lanes.items()) for one in found]


def _lane(record: Record) -> str:
    found = from_json(str(record.get("text", "")))
    return str(found.get("stream_id", "")) if isinstance(found, dict) else ""


def _line(record: Record, names: dict[str, str]) -> str:
    kind = record["kind"]
    if kind == "text":
        return _said(record["text"], names)
    if kind == "http":
        status = str(record.get("head", "")).partition("\r")[0]
        return f"http {status or _said(str(record.get('body', '')), names)}"
    return f"close {record.get('code')}" if kind == "close" else str(kind)


def _said(text: str, names: dict[str, str]) -> str:
    """A message, a body, or the events of a stream, normalised where it is JSON."""
    if "data:" in text:
        blocks = (sse_data(block) for block in text.split("\n\n"))
        return " ".join(_said(data, names) for data in blocks if data)
    try:
        return json.dumps(_normal(json.loads(text), names), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text[:200]


def _normal(value: Any, names: dict[str, str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _normal(inner, names, name) for name, inner in value.items() if name not in _PADDING}
    if isinstance(value, list):
        return [_normal(inner, names, key) for inner in value]
    if isinstance(value, str):
        if key in _IDS and len(value) >= SHORTEST_ID:
            names.setdefault(value, f"id{len(names) + 1}")
        for name, label in names.items():
            value = value.replace(name, label)
        return value
    return "time" if key in _TIMES and value is not None else value
