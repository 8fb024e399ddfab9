"""Server frames (RFC 6455, 5.2): whole, unmasked, and a batch of them in one piece.

wsproto's serialiser costs many times as much (ARCHITECTURE.md has the figures).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

TEXT = 1


def _head(size: int, opcode: int) -> bytes:
    if size < 126:
        return bytes((0x80 | opcode, size))
    if size < 65_536:
        return bytes((0x80 | opcode, 126)) + size.to_bytes(2, "big")
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big")


@lru_cache(4_096)
def _text_head(size: int) -> bytes:
    """A text frame's first bytes: most sizes come again, and making these is half of the work."""
    return _head(size, TEXT)


def frame(payload: bytes, opcode: int = TEXT) -> bytes:
    """One frame."""
    return _head(len(payload), opcode) + payload


def frames(payloads: Iterable[bytes]) -> bytes:
    """Text frames, joined."""
    return b"".join([_text_head(len(payload)) + payload for payload in payloads])
