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

_IDS: Final = frozenset(
    ("id", "item_id", "response_id", "previous_response_id", "call_id", "encrypted_content")
)
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
    """Play a case against both; None if they behave alike."""
    left = said((await run_case(case, first)).records)
    right = said((await run_case(case, second)).records)
    if left == right:
        return None
    return Difference(case.id, tuple(difflib.unified_diff(left, right, "A", "B", lineterm="", n=2)))


def said(records: list[Record]) -> list[str]:
    """What a server said, connection by connection, normalised; a line per record.

    How much still comes once one side has closed is chance, and left out.
    """
    names: dict[str, str] = {}
    by_conn: dict[str, list[str]] = {}
    closing: set[str] = set()
    for record in records:
        conn, kind = record["conn"], record["kind"]
        lines = by_conn.setdefault(conn, [])
        if record["dir"] == "s2c" and (kind == "close" or conn not in closing):
            lines.append(f"{conn} {_line(record, names)}")
        if kind == "close":
            closing.add(conn)
    return [line for lines in by_conn.values() for line in lines]


def _line(record: Record, names: dict[str, str]) -> str:
    kind = record["kind"]
    if kind == "text":
        try:
            return json.dumps(_normal(json.loads(record["text"]), names), sort_keys=True, ensure_ascii=False)
        except (ValueError, RecursionError):
            return f"text {record['text'][:200]}"
    if kind == "http":
        return f"http {str(record.get('head', '')).partition(chr(13))[0] or _body(record, names)}"
    if kind == "close":
        return f"close {record.get('code')}"
    return str(kind)


def _body(record: Record, names: dict[str, str]) -> str:
    body = str(record.get("body", ""))
    try:
        return json.dumps(_normal(json.loads(body), names), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body[:200]


def _normal(value: Any, names: dict[str, str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _normal(inner, names, name) for name, inner in value.items() if name not in _PADDING}
    if isinstance(value, list):
        return [_normal(inner, names, key) for inner in value]
    if isinstance(value, str):
        if key in _IDS:
            names.setdefault(value, f"id{len(names) + 1}")
        for name, label in names.items():
            value = value.replace(name, label) if name else value
        return value
    return "time" if key in _TIMES and value is not None else value
