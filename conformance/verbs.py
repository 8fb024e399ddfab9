"""The verbs of the transcript language: one line -> one `Step` (INTERPRETING.md sections 3.3 to 3.5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import attrs

from conformance import match
from conformance.places import CLAUSE_ID, Malformed


@attrs.frozen
class Step:
    """One verb. Which of the fields mean something depends on the verb (see ``_READERS``)."""

    verb: str
    conn: str
    line: int
    text: str  # the line as it was written, for reports
    value: Any = None
    extra: Any = None
    words: tuple[str, ...] = ()
    number: float = 0
    within: float | None = None
    tags: tuple[str, ...] = ()


_TAGS: Final = re.compile(rf"\s\[({CLAUSE_ID}(?:\s+{CLAUSE_ID})*)\]$")


def cut_tags(text: str) -> tuple[str, tuple[str, ...]]:
    found = _TAGS.search(text)
    return (text[: found.start()].rstrip(), tuple(found[1].split())) if found else (text, ())


def seconds(line: int, text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise Malformed(line, f"{text!r} is no number of seconds")
    return float(text)


_PREFIX: Final = re.compile(r"@([a-z][a-z0-9]*)\s+(.*)")
_WITHIN: Final = re.compile(r"\s+within (\S+)$")
_WAITS: Final = frozenset(
    ("expect", "until", "count", "never", "pong", "ended", "opened", "answered", "sse", "sse_until")
)


def read_step(number: int, text: str) -> Step:
    """One line that is a verb; raises `Malformed`."""
    bare, tags = cut_tags(text)
    prefix = _PREFIX.fullmatch(bare)
    conn, bare = (prefix[1], prefix[2]) if prefix else ("a", bare)
    found, (verb, reader) = _recognise(number, bare)
    rest, within = found[found.lastindex or 0].strip(), None
    late = _WITHIN.search(" " + rest) if verb in _WAITS else None
    if late:
        rest, within = (" " + rest)[: late.start()].strip(), seconds(number, late[1])
    step = Step(verb, conn, number, text, within=within, tags=tags)
    try:
        step = reader(step, found, rest)
        _check_step(step)
    except (match.PatternError, ValueError) as exc:
        raise Malformed(number, str(exc)) from None
    return step


def _recognise(number: int, bare: str) -> tuple[re.Match[str], tuple[str, Reader]]:
    for opening, entry in _READERS:
        found = re.fullmatch(opening, bare, re.DOTALL)
        if found:
            return found, entry
    raise Malformed(number, f"no verb: {bare}")


def _json(text: str) -> tuple[Any, str]:
    """The JSON value at the beginning (or ``-`` for none), and what stands behind it."""
    text = text.strip()
    if text == "-" or text.startswith("- "):
        return None, text[1:].strip()
    if not text:
        return None, ""
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except ValueError as exc:
        raise ValueError(f"not JSON: {exc}: {match.show(text, 60)}") from None
    return value, text[end:].strip()


def _one(text: str) -> Any:
    if not text or text == "-":
        raise ValueError("a JSON value is missing")
    value, rest = _json(text)
    if rest:
        raise ValueError(f"unexpected after the JSON value: {rest}")
    return value


def _two(text: str) -> tuple[Any, Any]:
    first, rest = _json(text)
    second, rest = _json(rest)
    if rest:
        raise ValueError(f"unexpected at the end: {rest}")
    return first, second


Reader = Callable[[Step, "re.Match[str]", str], Step]


def _value(step: Step, _found: re.Match[str], rest: str) -> Step:
    return attrs.evolve(step, value=_one(rest))


def _fields(step: Step, _found: re.Match[str], rest: str) -> Step:
    value = _one(rest) if rest else {}
    if not isinstance(value, dict):
        raise ValueError("an object is needed")
    return attrs.evolve(step, value=value)


def _string(step: Step, _found: re.Match[str], rest: str) -> Step:
    value = {"$hex": rest[4:]} if rest.startswith("hex:") else _one(rest or '""')
    if isinstance(value, dict) and "$hex" in value:
        bytes.fromhex(value["$hex"])
    return attrs.evolve(step, value=value)


def _http(step: Step, found: re.Match[str], rest: str) -> Step:
    body, options = _two(rest)
    return attrs.evolve(step, words=(found[1], found[2]), value=body, extra=options or {})


def _answer(step: Step, found: re.Match[str], rest: str) -> Step:
    statuses = tuple(found[1].split("|"))
    for status in statuses:
        if not re.fullmatch(r"[1-5](\d\d|xx)|any", status):
            raise ValueError(f"{status!r} is no status")
    body, headers = _two(rest)
    return attrs.evolve(step, words=statuses, value=body, extra=headers)


def _ended(step: Step, _found: re.Match[str], rest: str) -> Step:
    codes = tuple(rest.split("|"))
    for code in codes:
        if not re.fullmatch(r"\d{4}|none|any|eof", code):
            raise ValueError(f"{code!r} is no close code, nor none, any or eof")
    return attrs.evolve(step, words=codes)


def _eof(step: Step, _found: re.Match[str], _rest: str) -> Step:
    return attrs.evolve(step, words=("eof",))


def _count(step: Step, found: re.Match[str], rest: str) -> Step:
    return attrs.evolve(step, number=int(found[1]), value=_one(rest))


def _wait(step: Step, _found: re.Match[str], rest: str) -> Step:
    return attrs.evolve(step, number=seconds(step.line, rest))


def _close(step: Step, _found: re.Match[str], rest: str) -> Step:
    if rest and not rest.isdecimal():
        raise ValueError(f"{rest!r} is no close code")
    return attrs.evolve(step, value={"op": "close", **({"code": int(rest)} if rest else {})})


def _nothing(step: Step, _found: re.Match[str], rest: str) -> Step:
    if rest:
        raise ValueError(f"unexpected: {rest}")
    return step


# opening (tried in this order; the last group is the rest) -> (verb, reader)
_READERS: Final[tuple[tuple[str, tuple[str, Reader]], ...]] = (
    (r">open\b(.*)", ("open", _fields)),
    (r">http (\S+) (\S+)(.*)", ("http", _http)),
    (r">text (.*)", ("text", _string)),
    (r">frame (.*)", ("frame", _fields)),
    (r">close\b(.*)", ("frame", _close)),
    (r">raw (.*)", ("raw", _string)),
    (r">drop(.*)", ("drop", _nothing)),
    (r">stop(.*)", ("stop", _nothing)),
    (r"> (.*)", ("send", _value)),
    (r"<open (\S+)(.*)", ("opened", _answer)),
    (r"<http (\S+)(.*)", ("answered", _answer)),
    (r"<sse\.\.\. until (.*)", ("sse_until", _value)),
    (r"<sse (.*)", ("sse", _value)),
    (r"<\.\.\. until (.*)", ("until", _value)),
    (r"<\.\.\. (\d+) (.*)", ("count", _count)),
    (r"<! (.*)", ("never", _value)),
    (r"<pong\b(.*)", ("pong", _string)),
    (r"< (.*)", ("expect", _value)),
    (r"& (.*)", ("also", _value)),
    (r"~ (.*)", ("wait", _wait)),
    (r"= open(.*)", ("alive", _nothing)),
    (r"= close (.*)", ("ended", _ended)),
    (r"= eof(.*)", ("ended", _eof)),
)

SENDS: Final = frozenset({"open", "http", "text", "frame", "raw", "send"})
_FRAME_FIELDS: Final = frozenset(
    ("op", "fin", "rsv", "mask", "text", "hex", "fill", "code", "reason", "length")
)
_FRAME_OPS: Final = frozenset(("text", "binary", "cont", "ping", "pong", "close"))


def _check_step(step: Step) -> None:
    if step.verb == "also" and not step.tags:
        raise ValueError("`&` needs a tag: without one it judges nothing")
    if step.verb not in SENDS:
        match.check(step.value)
        match.check(step.extra)
        return
    if step.tags:
        raise ValueError("a line that sends cannot be tagged: it judges nothing")
    if step.verb == "frame":
        unknown = step.value.keys() - _FRAME_FIELDS
        if unknown:
            raise ValueError(f"no field of a frame: {', '.join(sorted(unknown))}")
        if step.value.get("op") not in _FRAME_OPS and not isinstance(step.value.get("op"), int):
            raise ValueError(f"`op` is one of {', '.join(sorted(_FRAME_OPS))} or a number")
