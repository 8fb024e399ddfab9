"""A port while it runs: one process, told what happens to it and what time it is, and listened to."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import trio

from conformance.corestream import CoreStream
from conformance.target import Unreachable

# Until the first answer; `go run` and the like have to compile first.
START_SECONDS: Final = 30.0
# Below the runner's own patience: so the report says what the port did not do, not just that nothing came.
ANSWER_SECONDS: Final = 4.0
END_SECONDS: Final = 1.0
SHOWN: Final = 200

Json = dict[str, Any]


class Fallen(Exception):
    """The port cannot be talked to any more; the text goes on after "the core"."""


class Port:
    """One process of a port. A single task talks to it, so that no answer is torn; all others only ask."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.fallen: str | None = None
        self.hung = False
        self._answering = trio.Lock()
        self._streams: dict[str, CoreStream] = {}
        self._numbers = count(1)
        self._began = math.nan
        self._now = 0.0
        self._deadline = math.inf
        self._say, self._said = trio.open_memory_channel[tuple[float, Json]](math.inf)
        self._waiting: tuple[float, Json] | None = None
        self._rest = bytearray()
        self._complaints = b""
        self._silent = trio.Event()

    def connect(self) -> CoreStream:
        """A new connection; raises `Unreachable`."""
        if self.fallen:
            raise Unreachable(f"the core {self.fallen}")
        name = f"c{next(self._numbers)}"
        stream = self._streams[name] = CoreStream(name, self._hear)
        return stream

    def _hear(self, what: str, **fields: Any) -> None:
        self._say.send_nowait((trio.current_time() - self._began, {"do": what, **fields}))

    async def settled(self) -> None:
        """Wait until no answer is being waited for."""
        async with self._answering:
            return

    async def run(self, task_status: trio.TaskStatus[Port]) -> None:
        """Task: tell it what happens, and the time, until it falls. Started when it has answered once."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen)
            try:
                await self._advance(0.0, START_SECONDS)
                self._began = trio.current_time()
                task_status.started(self)
                while True:
                    await self._next()
            except Fallen as exc:
                self.fallen = str(exc)
            if math.isnan(self._began):
                task_status.started(self)
            for stream in self._streams.values():
                stream.end(f"the core {self.fallen}")
            nursery.cancel_scope.cancel()

    async def _next(self) -> None:
        """Tell it what happens next. A message has come when it was sent, however busy the port was then."""
        if self._waiting is None:
            try:
                self._waiting = self._said.receive_nowait()
            except trio.WouldBlock:
                with trio.move_on_at(self._began + self._deadline):
                    self._waiting = await self._said.receive()
        if self._waiting is None or self._waiting[0] >= self._deadline:
            await self._advance(self._deadline)
            return
        (at, line), self._waiting = self._waiting, None
        if line["conn"] not in self._streams:
            return  # the port has closed that connection
        await self._advance(at)
        await self._ask(line)
        if line["do"] == "peer_closed":
            self._streams.pop(line["conn"], None)

    async def _advance(self, to: float, seconds: float | None = None) -> None:
        self._now = max(self._now, to)
        await self._ask({"do": "advance", "to": self._now}, seconds)
        if not self._deadline > self._now:
            raise Fallen(f"names the deadline {self._deadline} after it has been told that it is {self._now}")

    # --- a line and its answer ----------------------------------------------------------------------

    async def _ask(self, line: Json, seconds: float | None = None) -> None:
        seconds = seconds or ANSWER_SECONDS
        async with self._answering:
            with trio.move_on_after(seconds):
                await self._write(line)
                while not self._take(await self._read()):
                    pass
                return
        self.hung = True
        asked = json.dumps(line)[:SHOWN]
        raise Fallen(f"did not end its answer with a `deadline` within {seconds:g} s, asked {asked}")

    async def _write(self, line: Json) -> None:
        assert self.process.stdin is not None
        try:
            await self.process.stdin.send_all(json.dumps(line).encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Fallen(await self._how_it_ended()) from None

    async def _read(self) -> bytes:
        assert self.process.stdout is not None
        while (end := self._rest.find(b"\n")) < 0:
            data = await self.process.stdout.receive_some(65536)
            if not data:
                raise Fallen(await self._how_it_ended())
            self._rest += data
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    async def _how_it_ended(self) -> str:
        with trio.move_on_after(END_SECONDS):
            await self.process.wait()
            await self._silent.wait()
        code = self.process.returncode
        how = "closed its output" if code is None else f"ended with exit code {code}"
        last = self._complaints.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"{how}: {last[:SHOWN]}" if last else how

    async def _listen(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.receive_some(65536):
            self._complaints = (self._complaints + bytes(data))[-4000:]
        self._silent.set()

    def _take(self, line: bytes) -> bool:
        """Do what one line of an answer says; True if it was the last one."""
        try:
            answer = json.loads(line)
            return _ANSWERS[answer["out"]](self, answer)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            shown = line.decode("utf-8", "replace")[:SHOWN]
            raise Fallen(f"wrote a line that is no answer: {shown}") from None

    def _stream(self, answer: Json) -> CoreStream:
        if answer["conn"] not in self._streams:
            raise Fallen(f"speaks on the connection {answer['conn']!r}, which is not open")
        return self._streams[answer["conn"]]

    def _take_send(self, answer: Json) -> bool:
        answer["text"].encode()
        self._stream(answer).send(answer["text"])
        return False

    def _take_close(self, answer: Json) -> bool:
        code, reason = answer["code"], answer.get("reason") or ""
        if type(code) is not int or not 1000 <= code <= 4999:
            raise ValueError
        self._stream(answer).close(code, reason.encode()[:120].decode("utf-8", "ignore"))
        del self._streams[answer["conn"]]
        return False

    def _take_deadline(self, answer: Json) -> bool:
        self._deadline = math.inf if answer["at"] is None else float(answer["at"])
        return True

    def _take_error(self, answer: Json) -> bool:
        raise Fallen(f"refuses a line: {str(answer['message'])[:SHOWN]}")


_ANSWERS: Final[dict[str, Callable[[Port, Json], bool]]] = {
    "send": Port._take_send,
    "close": Port._take_close,
    "deadline": Port._take_deadline,
    "error": Port._take_error,
}
