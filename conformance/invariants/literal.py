"""Short traces written by hand, for the good and the bad example of each invariant.

One line, one record; `@b` before it names another connection than `a`. Blank lines and `#` lines are skipped.

    > {"type":"response.create"}      a message of the client      < {...}      a message of the server
    >text not json                    its exact text               <text [DONE]
    <binary 00ff    <ping 00    >pong 00    <close 1000 reason    >close    <eof    <eof reset
    <http {"head":"…","body":"…"}     any record: its fields as JSON
    ~ 5                               five seconds pass

Fields that an example does not need may be left out; ``t`` goes up by 0.01 a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from conformance.trace import Record, b64

_LINE: Final = re.compile(r"(?:@(\w+) )?([<>])(\w*)\s*(.*)")
_DIRS: Final = {"<": "s2c", ">": "c2s"}


def records(text: str) -> list[Record]:
    """The trace that ``text`` stands for; raises ValueError."""
    out, now = [], 0.0
    for line in text.strip().split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("~"):
            now += float(line[1:])
            continue
        found = _LINE.fullmatch(line)
        if not found:
            raise ValueError(f"cannot read: {line}")
        now = round(now + 0.01, 6)
        head: Record = {"t": now, "conn": found[1] or "a", "dir": _DIRS[found[2]]}
        out.append({**head, **_fields(found[2], found[3], found[4])})
    return out


def _fields(mark: str, kind: str, rest: str) -> dict[str, Any]:
    if kind == "":
        json.loads(rest)
        return {"kind": "text", "text": rest}
    if kind == "text":
        return {"kind": "text", "text": rest}
    if kind in ("binary", "ping", "pong"):
        return {"kind": kind, "base64": b64(bytes.fromhex(rest))}
    if kind == "close":
        code, _, reason = rest.partition(" ")
        by = "server" if mark == "<" else "client"
        return {"kind": "close", "code": int(code) if code else None, "reason": reason, "by": by}
    if kind == "eof":
        return {"kind": "eof", "reset": rest == "reset"}
    return {"kind": kind, **json.loads(rest)}


def lines(text: str) -> Iterator[tuple[int, Record]]:
    return enumerate(records(text), 1)
