"""``run --core CMD``: judges a port of the protocol's core that has no socket (INTERPRETING.md section 6).

The port is a program that reads JSON lines and answers with JSON lines. Each connection of a case is one
``conn`` there; the WebSocket around it is the suite's own. The port's time is the runner's: it is told to
advance when the deadline that it has named is due, and before everything else that happens to it.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from typing import Final

import attrs
import trio

from conformance.coreport import END_SECONDS, Port
from conformance.offer import Config, Features, Unavailable, needs_of
from conformance.specdoc import Spec
from conformance.target import Endpoint, Unreachable, UsageError
from conformance.transcript import Case
from conformance.verbs import Step
from conformance.verdict import Ledger

NO_SOCKET: Final = "a core has no socket"
# A port that falls is started anew for the next case, so many times; then the run gives up.
MAX_HUNG: Final = 5
MAX_FALLEN: Final = 50

# Verbs that ask something of a socket.
_SOCKET_VERBS: Final = frozenset(("open", "raw", "frame", "http", "stop"))
# What only the server around a core keeps or breaks: these areas, less what is said of the text of a message.
_SOCKET_AREAS: Final = ("RWS-HS-", "RWS-HTTP-", "RWS-FRM-")
_OF_TEXTS: Final = frozenset(("RWS-FRM-001", "RWS-FRM-003", "RWS-FRM-004", "RWS-FRM-005"))


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
        process = await trio.lowlevel.open_process(
            self.command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
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
