"""``run --core CMD``: judges a port of the protocol's core that has no socket (INTERPRETING.md section 6).

The port is a program that reads JSON lines and answers with JSON lines. Each connection of a case is one
``conn`` there; the WebSocket around it is the suite's own. The port's time is the runner's: it is told to
advance when the deadline that it has named is due, and before everything else that happens to it.
"""

from __future__ import annotations

import json
import math
import shlex
import subprocess
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

import attrs
import trio

from conformance.corestream import CoreStream
from conformance.offer import Config, Features, Unavailable, needs_of
from conformance.specdoc import Spec
from conformance.target import Endpoint, Unreachable, UsageError
from conformance.transcript import Case
from conformance.verbs import Step
from conformance.verdict import Ledger

NO_SOCKET: Final = "a core has no socket"
# Until the first answer; `go run` and the like have to compile first.
START_SECONDS: Final = 30.0
# Below the runner's own patience: so the report says what the port did not do, not just that nothing came.
ANSWER_SECONDS: Final = 4.0
END_SECONDS: Final = 1.0
# A port that falls is started anew for the next case, so many times; then the run gives up.
MAX_HUNG: Final = 5
MAX_FALLEN: Final = 50
SHOWN: Final = 200

# Verbs that ask something of a socket.
_SOCKET_VERBS: Final = frozenset(("open", "raw", "frame", "http", "stop"))
# What only the server around a core keeps or breaks: these areas, less what is said of the text of a message.
_SOCKET_AREAS: Final = ("RWS-HS-", "RWS-HTTP-", "RWS-FRM-")
_OF_TEXTS: Final = frozenset(("RWS-FRM-001", "RWS-FRM-003", "RWS-FRM-004", "RWS-FRM-005"))

Json = dict[str, Any]


def command_of(text: str) -> tuple[str, ...]:
    """The words of ``--core``; raises `UsageError`."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as exc:
        raise UsageError(f"--core {text}: {str(exc).lower()}") from None
    if not words:
        raise UsageError("--core needs a command")
    return words


def needs_socket(case: Case, selected: frozenset[str]) -> bool:
    """Whether a case cannot be played with a core: it is about bytes, HTTP, or another configuration."""
    needs = needs_of(case, selected)
    verbs = {step.verb for step in case.walk() if isinstance(step, Step)}
    return bool(needs.config) or "HTTP" in needs.profiles or not verbs.isdisjoint(_SOCKET_VERBS)


def beyond(spec: Spec, ledger: Ledger, selected: frozenset[str]) -> Mapping[str, str]:
    """The clauses that no core can be judged by, each with the reason: those of the handshake, of frames and
    of HTTP, and those that nothing has judged and all of whose cases need a socket."""
    able = {name for case in spec.cases.values() if not needs_socket(case, selected) for name in case.covers}
    covered = {name for case in spec.cases.values() for name in case.covers}
    unable = {name for name in covered - able if not ledger.of(name).cases}
    unable |= {name for name in spec.clauses if name.startswith(_SOCKET_AREAS)} - _OF_TEXTS
    return dict.fromkeys(unable, NO_SOCKET)


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
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
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


@attrs.frozen
class CoreTarget:
    """A port that runs, as a server that one can connect to."""

    port: Port
    endpoint: Endpoint

    async def connect(self) -> trio.abc.Stream:
        return self.port.connect()

    async def stop(self) -> None:
        raise UsageError(NO_SOCKET)


@attrs.define
class Core:
    """An offer of one configuration: the command, started anew when it has fallen."""

    command: tuple[str, ...]
    features: Features
    nursery: trio.Nursery
    own_servers: bool = False
    _port: Port | None = None
    _hung: int = 0
    _fallen: int = 0

    @property
    def name(self) -> str:
        return f"the core {shlex.join(self.command)}"

    async def target(self, config: Config) -> CoreTarget:
        """The port; raises `Unavailable`, or `Unreachable` when there is no more hope."""
        if config:
            raise Unavailable(NO_SOCKET)
        if self._port is not None:
            await self._port.settled()
        if self._port is None or self._port.fallen:
            self._port = await self._start(self._port)
        return CoreTarget(self._port, Endpoint("core", model=self.features.model or "scripted"))

    async def _start(self, last: Port | None) -> Port:
        if last is not None:
            self._fallen, self._hung = self._fallen + 1, self._hung + last.hung
            if self._fallen >= MAX_FALLEN or self._hung >= MAX_HUNG:
                raise Unreachable(f"given up after {self._fallen} starts: the core {last.fallen}")
        try:
            port: Port = await self.nursery.start(self._keep)
        except OSError as exc:
            raise Unreachable(f"the core does not start: {(exc.strerror or str(exc)).lower()}") from None
        if port.fallen:
            raise Unreachable(f"the core {port.fallen}")
        return port

    async def _keep(self, task_status: trio.TaskStatus[Port]) -> None:
        """Task: a process for as long as it answers, and the run lasts."""
        pipe = subprocess.PIPE
        process = await trio.lowlevel.open_process(self.command, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            await Port(process).run(task_status)
        finally:
            await _end(process)


async def _end(process: trio.Process) -> None:
    """The end of its input is what tells it to go."""
    with trio.CancelScope(shield=True):
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                await trio.aclose_forcefully(stream)
        with trio.move_on_after(END_SECONDS):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
