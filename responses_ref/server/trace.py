"""What went over one connection, one JSON object a line, for any judge to read.

A file per connection on which anything was said: a first line with what the server
claims, then every message, control frame, plain request and answer, in the order in
which the server saw or queued them.  Keys never reach the file.  A file that cannot be
written any more ends there, and its connection goes on.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import attrs
import trio

from responses_ref.server.limits import ConfigError

log = logging.getLogger("responses_ref")
TRACE_VERSION = 1
REDACTED = "[redacted]"
SECRETS = re.compile(  # header fields, a subprotocol, query parameters
    r"(?im)(^[\w-]*(?:authorization|cookie|api-?key|token|secret)[\w-]*: |insecure-api-key\.)[^\r\n]*"
    r"|([?&][^=&\s]*(?:key|token|secret|auth)[^=&\s]*=)[^&\s]*"
)
NOTHING = re.compile("(?!)")
KINDS = {1: "text", 2: "binary", 8: "close", 9: "ping", 10: "pong"}


def frames(data: bytes) -> Iterable[tuple[int, bytes]]:
    """The (opcode, payload) of joined frames of our own making: whole and unmasked."""
    at = 0
    while at < len(data):
        opcode, size = data[at] & 0x0F, data[at + 1]
        extra = {126: 2, 127: 8}.get(size, 0)
        at += 2 + extra
        if extra:
            size = int.from_bytes(data[at - extra : at], "big")
        yield opcode, data[at : at + size]
        at += size


@attrs.define(eq=False)
class Trace:
    """The lines of one connection; times count from its start."""

    number: int
    _file: TextIO
    _secrets: re.Pattern[str] = NOTHING
    _start: float = attrs.field(factory=trio.current_time)
    empty: bool = attrs.field(default=True, init=False)  # until something was said
    _closer: str = attrs.field(default="", init=False)  # who said Close first
    _ended: bool = attrs.field(default=False, init=False)
    _broken: bool = attrs.field(default=False, init=False)

    def line(self, direction: str, kind: str, **fields: Any) -> None:
        """Write one line; only deltas may wait in the buffer."""
        self.empty = self.empty and kind == "eof"
        t = round(trio.current_time() - self._start, 6)
        entry = {"t": t, "conn": self.number, "dir": direction, "kind": kind, **fields}
        text = json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
        self.write(text, flush=kind != "text" or ".delta" not in fields["text"])

    def write(self, text: str = "", flush: bool = True) -> None:
        """Write to the file, and hand what is buffered to the operating system."""
        try:
            if not self._broken:
                self._file.write(text)
                if flush:
                    self._file.flush()
        except OSError as error:
            self._broken = True
            log.error("the trace of connection %d ends here: %s", self.number, error.strerror)

    def note(self, name: str, **fields: Any) -> None:
        """What no peer sees: work done, time spent, a bill."""
        self.line("s2c", "note", **{name: fields})

    def sent(self, data: bytes) -> None:
        """Joined server frames."""
        for opcode, payload in frames(data):
            self.frame("s2c", opcode, payload)

    def frame(self, direction: str, opcode: int, payload: bytes) -> None:
        """A whole message, or a control frame."""
        kind = KINDS[opcode]
        if kind == "text":
            self.line(direction, kind, text=self._secrets.sub(REDACTED, payload.decode()))
        elif kind == "close":
            self.close(direction, int.from_bytes(payload[:2], "big") or 1005, payload[2:].decode())
        else:
            self.line(direction, kind, base64=base64.b64encode(payload).decode())

    def close(self, direction: str, code: int, reason: str) -> None:
        """A Close frame; ``by`` says who sent the first."""
        self._closer = self._closer or ("client" if direction == "c2s" else "server")
        self.line(direction, "close", code=code, reason=reason, by=self._closer)

    def http(self, direction: str, head: bytes | None, body: bytes = b"") -> None:
        """A plain request or answer, without its keys; or with no head, one event of a streamed answer."""
        said = self._secrets.sub(REDACTED, body.decode(errors="replace"))
        if head is None:
            return self.line(direction, "http", body=said)
        text = self._secrets.sub(REDACTED, SECRETS.sub(r"\1\2" + REDACTED, head.decode("latin-1")))
        self.line(direction, "http", head=text, body=said)

    def eof(self, reset: bool = False, direction: str = "c2s") -> None:
        """The end of TCP, as far as this connection has seen it first."""
        if not self._ended:
            self._ended = True
            self.line(direction, "eof", reset=reset)

    def end(self) -> None:
        """Close the file."""
        self.eof(direction="s2c")
        with suppress(OSError):
            self._file.close()


@attrs.define(eq=False)
class TraceDir:
    """A directory of traces; ``meta`` holds ``profiles`` and ``limits``."""

    path: Path
    meta: Mapping[str, Any] = attrs.field(factory=dict)
    secrets: tuple[str, ...] = ()
    _open: dict[int, Trace] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        probe = self.path / ".probe"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConfigError(f"cannot write traces to {self.path}: {error.strerror}") from None

    def open(self, number: int) -> Trace | None:
        """Begin the trace of connection ``number``; None if there can be no file for it."""
        try:
            file = self._path(number).open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            log.error("no trace of connection %d: %s", number, error.strerror)
            return None
        secrets = re.compile("|".join(map(re.escape, self.secrets))) if self.secrets else NOTHING
        trace = self._open[number] = Trace(number, file, secrets)
        meta = {"kind": "meta", "trace_version": TRACE_VERSION, "conn": number, **self.meta}
        file.write(json.dumps(meta) + "\n")
        return trace

    def end(self, number: int) -> None:
        """Finish a connection's trace; one of a peer that only knocked is no use to anybody."""
        if (trace := self._open.pop(number, None)) is not None:
            trace.end()
            if trace.empty:
                with suppress(OSError):
                    self._path(number).unlink()

    def _path(self, number: int) -> Path:
        return self.path / f"{number:06}.jsonl"

    async def run(self) -> None:
        """Flush all traces each second, for ever."""
        while True:
            await trio.sleep(1)
            for trace in self._open.values():
                trace.write()
