"""Traces: one JSON object per line (INTERPRETING.md section 4). Reading, recording, redaction.

A record is a plain ``dict`` with at least ``t``, ``conn``, ``dir`` and ``kind``; the judge reads a hundred
thousand of them, so they are not turned into objects.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import attrs

TRACE_VERSION: Final = 1
Record = dict[str, Any]

KINDS: Final = frozenset(("meta", "text", "binary", "ping", "pong", "close", "eof", "http", "note"))
_DIRS: Final = {
    "c2s": "c2s", "client": "c2s", "out": "c2s", "sent": "c2s", ">": "c2s",
    "s2c": "s2c", "server": "s2c", "in": "s2c", "received": "s2c", "<": "s2c",
}  # fmt: skip


@attrs.frozen
class Unreadable:
    """A line of a trace file that is no record."""

    why: str


def read(lines: Iterable[str]) -> Iterator[tuple[int, Record | Unreadable]]:
    """Numbered records of a trace, also of one that another program wrote; blank lines are passed over."""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        yield number, _line(text)


def _line(text: str) -> Record | Unreadable:
    try:
        record = json.loads(text)
        return normal(record) if isinstance(record, dict) else Unreadable("not a JSON object")
    except ValueError as exc:
        return Unreadable(f"not JSON: {exc}")
    except RecursionError:
        return Unreadable("nested too deeply")


def normal(record: Record) -> Record | Unreadable:
    """The record with every field of its kind; other spellings of ``dir`` and a bare ``frame`` are taken."""
    kind = record.get("kind")
    if kind == "meta":
        return record
    if kind is None and "frame" in record:
        frame = record.pop("frame")
        record["kind"] = kind = "text"
        record["text"] = frame if isinstance(frame, str) else json.dumps(frame)
    if not isinstance(kind, str):
        return Unreadable("no `kind`")
    direction = record.get("dir")
    direction = _DIRS.get(direction) if isinstance(direction, str) else None
    if direction is None and kind not in ("eof", "note"):
        return Unreadable("`dir` is neither c2s nor s2c")
    record["dir"] = direction or "s2c"
    if not isinstance(record.setdefault("conn", ""), str | int | float):
        return Unreadable("`conn` is neither a string nor a number")
    record["conn"] = str(record["conn"])
    if not _is_time(record.setdefault("t", 0.0)):
        return Unreadable("`t` is no number")
    if kind == "text" and not isinstance(record.get("text"), str):
        return Unreadable("a `text` record without a `text`")
    if kind == "http" and not all(isinstance(record.get(name, ""), str) for name in ("head", "body")):
        return Unreadable("`head` or `body` is no text")
    return record


def _is_time(value: Any) -> bool:
    """Whether it is a number that a float can hold."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


@attrs.define
class Recorder:
    """Collects the records of one case; ``now`` gives seconds since its beginning."""

    now: Callable[[], float]
    records: list[Record] = attrs.Factory(list)

    def add(self, conn: str, direction: str, kind: str, **fields: Any) -> int:
        """Append a record; gives its index."""
        record = {"t": round(self.now(), 6), "conn": conn, "dir": direction, "kind": kind, **fields}
        self.records.append(record)
        return len(self.records) - 1


def meta(**fields: Any) -> Record:
    return {"kind": "meta", "trace_version": TRACE_VERSION, **fields}


def dump(records: Iterable[Record]) -> Iterator[str]:
    """The lines of a trace file, without line ends."""
    for record in records:
        yield json.dumps(record, ensure_ascii=False)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


_SECRET_HEADER: Final = re.compile(
    r"^((?:proxy-)?authorization|x-api-key|api-key|cookie|set-cookie)(:[ \t]*)(.*?)(\r?)$",
    re.IGNORECASE | re.MULTILINE,
)
_SECRET_QUERY: Final = re.compile(
    r"([?&](?:api[-_]?key|key|token|access_token|sig|code)=)[^&\s#]+", re.IGNORECASE
)
_SECRET_PROTOCOL: Final = re.compile(r"(openai-insecure-api-key\.)[^\s,]+")


def redact(head: str) -> str:
    """A request or status line with its headers, without what opens doors."""
    head = _SECRET_HEADER.sub(r"\1\2[redacted]\4", head)
    head = _SECRET_QUERY.sub(r"\1[redacted]", head)
    return _SECRET_PROTOCOL.sub(r"\1[redacted]", head)
