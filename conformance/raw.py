"""WebSocket frames (RFC 6455) written out by hand, so that they can also be wrong.

The suite has its own frames, and does not take those of a library, for three reasons: a library refuses to
send what a case wants to send; it hides pings, pongs, masks and fragments, which are judged here; and the
reference server reads with a library, whose faults would hide in both ends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import attrs

OPS: Final = {"cont": 0, "text": 1, "binary": 2, "close": 8, "ping": 9, "pong": 10}
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK: Final = bytes.fromhex("37fa213d")
# Far above what any case sends or expects; a server that announces more is not read on.
MAX_PAYLOAD: Final = 256 * 1024 * 1024


def mask(data: bytes, key: bytes = MASK) -> bytes:
    """``data`` xor the repeated key; doing it twice gives it back."""
    if not data:
        return data
    long_key = (key * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(long_key, "big")).to_bytes(len(data), "big")


def frame(
    op: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    masked: bool = True,
    length: int | None = None,
) -> bytes:
    """One frame as bytes. ``length`` announces another size than the payload has."""
    size = len(payload) if length is None else length
    first = (0x80 if fin else 0) | (rsv & 7) << 4 | op & 15
    flag = 0x80 if masked else 0
    if size < 126:
        head = struct.pack("!BB", first, flag | size)
    elif size < 65536:
        head = struct.pack("!BBH", first, flag | 126, size)
    else:
        head = struct.pack("!BBQ", first, flag | 127, size)
    return head + MASK + mask(payload) if masked else head + payload


def close_payload(code: int | None, reason: str = "") -> bytes:
    return b"" if code is None else struct.pack("!H", code) + reason.encode()


def parse_close(payload: bytes) -> tuple[int | None, str]:
    """Code (None if the frame is empty) and reason of a Close frame."""
    if len(payload) < 2:
        return None, ""
    return int(struct.unpack("!H", payload[:2])[0]), payload[2:].decode("utf-8", "replace")


def may_be_sent(code: int) -> bool:
    """Whether a Close frame may carry this code (RFC 6455 section 7.4)."""
    return 3000 <= code <= 4999 or (1000 <= code <= 1014 and code not in (1004, 1005, 1006))


def build(fields: dict[str, Any]) -> bytes:
    """The frame that a ``>frame`` line describes (INTERPRETING.md section 3.4)."""
    op = fields["op"]
    if "hex" in fields:
        payload = bytes.fromhex(fields["hex"])
    elif "fill" in fields:
        text, count = fields["fill"]
        payload = text.encode() * count
    else:
        payload = str(fields.get("text", "")).encode()
    if op == "close" and "code" in fields:
        payload = close_payload(fields["code"], fields.get("reason", ""))
    return frame(
        OPS[op] if isinstance(op, str) else op,
        payload,
        fin=fields.get("fin", True),
        rsv=fields.get("rsv", 0),
        masked=fields.get("mask", True),
        length=fields.get("length"),
    )


@attrs.frozen
class Frame:
    fin: bool
    rsv: int
    op: int
    masked: bool
    payload: bytes


class TooLong(Exception):
    """A frame announces more than anybody would read."""


class FrameReader:
    """Bytes in any portions -> whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while (found := self._next()) is not None:
            yield found

    @property
    def rest(self) -> int:
        """How many bytes of an unfinished frame are there."""
        return len(self._buffer)

    def _next(self) -> Frame | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1] & 127, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            start = 2 + width
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[2:start], "big")
        if size > MAX_PAYLOAD:
            raise TooLong(f"a frame of {size} bytes")
        masked = bool(buffer[1] & 128)
        end = start + (4 if masked else 0) + size
        if len(buffer) < end:
            return None
        payload = bytes(buffer[end - size : end])
        if masked:
            payload = mask(payload, bytes(buffer[start : start + 4]))
        found = Frame(bool(buffer[0] & 128), buffer[0] >> 4 & 7, buffer[0] & 15, masked, payload)
        del buffer[:end]
        return found
