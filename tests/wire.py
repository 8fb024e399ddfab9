"""A client of the raw wire: writes any bytes, right or wrong, and parses what a server sends back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import attrs
import trio

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # the one of RFC 6455, 1.3
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
MASK = b"\x37\xfa\x21\x3d"


def frame(
    payload: bytes | str = b"",
    opcode: int = TEXT,
    *,
    fin: bool = True,
    rsv: int = 0,
    mask: bytes | None = MASK,
) -> bytes:
    """One client frame; every part of it can be made wrong."""
    data = payload.encode() if isinstance(payload, str) else payload
    head = bytes([fin << 7 | rsv << 4 | opcode])
    masked, size = 0x80 if mask else 0, len(data)
    if size < 126:
        head += bytes([masked | size])
    elif size < 65_536:
        head += bytes([masked | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([masked | 127]) + size.to_bytes(8, "big")
    if mask is None:
        return head + data
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return head + mask + (int.from_bytes(data, "big") ^ key).to_bytes(size, "big")


def close(code: int | None = 1000, reason: bytes = b"") -> bytes:
    """A Close frame, with any code or none."""
    return frame(b"" if code is None else code.to_bytes(2, "big") + reason, CLOSE)


def request(
    method: str = "GET",
    target: str = "/v1/responses",
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
) -> bytes:
    """A plain request; a body brings its Content-Length."""
    fields = {"host": "localhost", **({"content-length": str(len(body))} if body else {}), **dict(headers)}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def upgrade(target: str = "/v1/responses", method: str = "GET", **headers: str | None) -> bytes:
    """A request for an upgrade; underscores stand for hyphens, and None takes a header away."""
    fields: dict[str, str | None] = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": KEY,
    }
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    return request(method, target, [(name, value) for name, value in fields.items() if value is not None])


@attrs.frozen
class Frame:
    """A frame of the server's."""

    opcode: int
    payload: bytes
    fin: bool = True

    @property
    def code(self) -> int:
        """Of a Close frame: its code, 1005 without one."""
        assert self.opcode == CLOSE, self
        return int.from_bytes(self.payload[:2], "big") or 1005


@attrs.frozen
class Answer:
    """An HTTP answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of an error in its JSON shape: its code."""
        error = self.json()["error"]
        assert set(error) == {"type", "code", "message", "param"}, error
        return str(error["code"])


@attrs.define
class Client:
    """One end of a stream; reads exactly, whatever comes in what pieces. EOF is None, a reset too."""

    stream: trio.abc.Stream
    buffer: bytearray = attrs.Factory(bytearray)
    reset: bool = False

    async def send(self, *data: bytes) -> None:
        await self.stream.send_all(b"".join(data))

    async def _more(self) -> bool:
        try:
            data = await self.stream.receive_some(65_536)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.reset, data = True, b""
        self.buffer += data
        return bool(data)

    async def _exactly(self, size: int) -> bytes | None:
        while len(self.buffer) < size:
            if not await self._more():
                return None
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    async def _line(self) -> bytes | None:
        while (end := self.buffer.find(b"\r\n")) < 0:
            if not await self._more():
                return None
        line = await self._exactly(end + 2)
        return None if line is None else line[:-2]

    async def answer(self, head_only: bool = False) -> Answer | None:
        """The next HTTP answer with its body, or None at the end."""
        if (line := await self._line()) is None:
            return None
        headers: dict[str, str] = {}
        while field := await self._line():
            name, _, value = field.decode("latin-1").partition(":")
            headers[name.lower()] = ", ".join(filter(None, [headers.get(name.lower()), value.strip()]))
        status, body = int(line.split()[1]), b""
        if not head_only and "content-length" in headers:
            body = await self._exactly(int(headers["content-length"])) or b""
        elif not head_only and headers.get("transfer-encoding") == "chunked":
            chunks = []
            while chunk := await self.chunk():
                chunks.append(chunk)
            body = b"".join(chunks)
        return Answer(status, headers, body)

    async def chunk(self) -> bytes | None:
        """The next chunk of a body: empty is the last one, None a body that was cut."""
        line = await self._line()
        data = None if line is None else await self._exactly(int(line, 16))
        return None if data is None or await self._line() is None else data

    async def open(self, target: str = "/v1/responses", **headers: str | None) -> Client:
        """Shake hands."""
        await self.send(upgrade(target, "GET", **headers))
        answer = await self.answer()
        assert answer is not None
        assert answer.status == 101, answer
        assert answer.headers["sec-websocket-accept"] == ACCEPT
        return self

    async def frame(self) -> Frame | None:
        """The next frame, checked for being whole and unmasked; None at the end."""
        head = await self._exactly(2)
        if head is None:
            return None
        assert not head[0] & 0x70, "reserved bit"
        assert not head[1] & 0x80, "masked"
        size = head[1]
        if size > 125:
            extended = await self._exactly(2 if size == 126 else 8)
            assert extended is not None
            size = int.from_bytes(extended, "big")
        payload = await self._exactly(size)
        return None if payload is None else Frame(head[0] & 0x0F, payload, bool(head[0] & 0x80))

    async def text(self) -> str:
        """The next frame, which must be text."""
        got = await self.frame()
        assert got is not None, "the connection ended"
        assert got.opcode == TEXT, got
        return got.payload.decode()

    async def ended(self) -> bool:
        """Whether nothing more comes but the end of the stream."""
        while await self._more():
            pass
        return not self.buffer
