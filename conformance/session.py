"""The state of a case that is being played: its connections, its names, what was observed."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from conformance import match
from conformance.inbox import Found
from conformance.match import Mismatch
from conformance.target import Target
from conformance.trace import Record, Recorder
from conformance.transcript import Case
from conformance.web import BadAnswer, Exchange, Head
from conformance.wire import Wire, connect

CLOSE_SECONDS: Final = 1.0


@attrs.frozen
class Observation:
    """One judgement: a clause held or did not. ``record`` is the index of the record that shows it."""

    clause: str
    ok: bool
    detail: str = ""
    line: int = 0
    record: int = -1
    kind: str = "behaviour"


@attrs.define
class Patience:
    """How long waits may last. Each wait in vain halves it, each message that came as hoped lets it grow.

    So a server that says nothing, or always the wrong thing, is judged within a minute, and one that is
    late once is not treated worse for the rest of the run.
    """

    whole: float = 5.0
    least: float = 0.25
    now: float = 5.0
    in_vain: float = 0.0  # seconds waited for nothing since the server last spoke
    total_in_vain: float = 0.0
    close: float = CLOSE_SECONDS  # how long to wait for the answer to our Close at the end of a case

    def late(self, seconds: float) -> None:
        self.in_vain += seconds
        self.total_in_vain += seconds
        least = self.least if self.total_in_vain < 30 else self.least / 5
        self.now = max(least, self.now / 2)

    def heard(self) -> None:
        self.now, self.in_vain = min(self.whole, self.now * 1.5), 0.0


@attrs.define
class Outcome:
    """What became of a case. ``broken`` says why it did not get to its end."""

    case: Case
    observations: list[Observation] = attrs.Factory(list)
    records: list[Record] = attrs.Factory(list)
    broken: str | None = None
    broken_line: int = 0
    harness_error: str | None = None
    late: bool = False
    seconds: float = 0.0


class Broken(Exception):
    """The case cannot go on."""


Problem = Mismatch | str | None


class Session:
    """The state of a case that is being played."""

    nursery: trio.Nursery

    def __init__(
        self, case: Case, target: Target, recorder: Recorder, patience: Patience, outcome: Outcome
    ) -> None:
        self.case, self.target, self.recorder = case, target, recorder
        self.patience, self.outcome = patience, outcome
        self.wires: dict[str, Wire] = {}
        self.webs: dict[str, Exchange] = {}
        self.subjects: dict[str, Found] = {}  # what `&` looks at
        self.line = 0
        end = target.endpoint
        self.names: match.Names = {
            "host": end.host,
            "path": end.path,
            "root": end.root,
            "key": end.key or "",
            "authorization": f"Authorization: Bearer {end.key}\r\n" if end.key else "",
            "model": end.model,
        }

    # --- connections --------------------------------------------------------------------------------

    def seconds(self, within: float | None) -> float:
        """How long a wait lasts: the deadline of the case, less as patience wanes; or what the line says."""
        share = self.patience.now / self.patience.whole
        return within if within is not None else self.case.deadline * share

    def ran_out(self, seconds: float) -> None:
        """A wait of that length was in vain."""
        self.outcome.late = True
        self.patience.late(seconds)

    async def fresh_wire(self, name: str) -> Wire:
        if name in self.wires or name in self.webs:
            raise Broken(f"the connection {name} is already there")
        wire = self.wires[name] = await connect(name, self.target, self.recorder)
        return wire

    async def open_wire(self, name: str) -> Wire:
        """The WebSocket connection of that name, after its handshake."""
        wire = self.wires.get(name)
        if wire is None:
            wire = await self.fresh_wire(name)
            await wire.ask({})
        if wire.state == "asked":
            try:
                head = await self.handshake(wire, self.patience.now)
            except BadAnswer as exc:
                raise Broken(f"the handshake failed: {exc}") from None
            if head.status != 101:
                raise Broken(f"the handshake was answered with {head.status}")
            if fault := wire.fault_of_handshake(head):
                raise Broken(fault)
        if wire.state == "refused":
            raise Broken("this connection was refused")
        return wire

    async def handshake(self, wire: Wire, seconds: float) -> Head:
        """The answer to the handshake; starts the reader after a 101."""
        fresh = wire.state != "open"
        with trio.move_on_after(seconds) as scope:
            head = await wire.answer()
        if scope.cancelled_caught:
            self.ran_out(seconds)
            raise BadAnswer(f"no answer to the handshake within {seconds:g} s")
        if fresh and wire.state == "open":
            self.nursery.start_soon(wire.read)
        return head

    async def finish(self) -> None:
        """Close what is open; what the server still sends is recorded."""
        if self.outcome.broken:
            await self._settle()
        seconds = self.patience.close
        async with trio.open_nursery() as nursery:
            for wire in self.wires.values():
                nursery.start_soon(wire.finish, seconds)
        if any(wire.deaf for wire in self.wires.values()):
            self.patience.close = max(0.05, self.patience.close / 2)
        for web in self.webs.values():
            await trio.aclose_forcefully(web.stream)

    async def _settle(self) -> None:
        """Let turns that have begun come to their end: the trace of a broken case is judged all the same."""
        for wire in self.wires.values():
            done = lambda wire=wire: not wire.turns or wire.ended is not None  # noqa: E731
            if wire.state == "open" and not await wire.until(done, self.patience.close):
                self.patience.close = max(0.05, self.patience.close / 2)
