"""``diff``: the same cases against two servers, and where they answer differently.

Ids are replaced by their order of appearance, and times by a word, before the comparison.
"""

from __future__ import annotations

import difflib
import json
import re
import secrets
from typing import Any, Final

import attrs

from conformance.offer import needs_of
from conformance.runner import run_case
from conformance.specdoc import PROFILES, Spec
from conformance.target import Target
from conformance.trace import Record
from conformance.transcript import Case, Either, Node, Repeat
from conformance.verbs import Step
from conformance.web import from_json, sse_data

_IDS: Final = frozenset(
    ("id", "item_id", "response_id", "previous_response_id", "call_id", "encrypted_content")
)
ATTEMPTS: Final = 3
# Ids inside of texts, such as the message of an error.
_WORD: Final = re.compile(r"[\w-]+")
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
        left = said((await run_case(fresh(case), first)).records)
        right = said((await run_case(fresh(case), second)).records)
        if left == right:
            return None
    return Difference(case.id, tuple(difflib.unified_diff(left, right, "A", "B", lineterm="", n=2)))


def fresh(case: Case) -> Case:
    """The same case in conversations of its own: one server that is both sides remembers the others."""
    given = {name for step in case.walk() if isinstance(step, Step) for name in _conversations(step.value)}
    if not given:
        return case
    mark = f"_{secrets.token_hex(4)}"
    return attrs.evolve(case, steps=tuple(_renamed(node, given, mark) for node in case.steps))


def _conversations(value: Any) -> set[str]:
    """What a message names as its conversation, as it is written in the case."""
    named = value.get("conversation") if isinstance(value, dict) else None
    named = named.get("id") if isinstance(named, dict) else named
    return {named} if isinstance(named, str) and not named.startswith(("<", "$")) else set()


def _renamed(node: Node, given: set[str], mark: str) -> Node:
    if isinstance(node, Repeat):
        return attrs.evolve(node, body=tuple(_renamed(one, given, mark) for one in node.body))
    if isinstance(node, Either):
        branches = (tuple(_renamed(one, given, mark) for one in branch) for branch in node.branches)
        return attrs.evolve(node, branches=tuple(branches))
    return attrs.evolve(node, value=_marked(node.value, given, mark))


def _marked(value: Any, given: set[str], mark: str) -> Any:
    if isinstance(value, dict):
        return {name: _marked(inner, given, mark) for name, inner in value.items()}
    if isinstance(value, list):
        return [_marked(inner, given, mark) for inner in value]
    return value + mark if isinstance(value, str) and value in given else value


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
    if key in _IDS and isinstance(value, str | int):
        return names.setdefault(str(value), f"id{len(names) + 1}")
    if isinstance(value, str):
        return _WORD.sub(lambda found: names.get(found[0], found[0]), value)
    return "time" if key in _TIMES and value is not None else value
