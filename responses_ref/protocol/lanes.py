"""Turns, lanes and queues: what a create becomes, and which one may run now.

A connection is a set of lanes; the one without a name is the default lane.
Creates wait in one line, in the order they came.  A turn may start when its
lane is idle and one of the connection's slots is free, so a lane is FIFO
(RWS-CRE-032, RWS-LAN-005), lanes run side by side (RWS-LAN-006), and nobody is
overtaken by a later create of its own lane but the successor of a steered
response, which goes first (RWS-STR-027).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from .cache import Node, Prepared
from .emitter import Emitter
from .errors import CATALOGUE
from .items import Call, CustomToolCall, FunctionCall, Item
from .resource import Create, Response, Usage
from .states import STEER, TURN

NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}\Z")  # RWS-LAN-001


@attrs.define(eq=False)
class Steer:
    """One accepted ``response.steer``: its id, its input as it came, and the bytes of the message."""

    id: str
    input: Any
    size: int
    state: str = "accepted"

    def step(self, what: str) -> None:
        self.state = STEER[self.state, what]


@attrs.frozen
class Outcome:
    """How a response ends: its status, and what goes with that status."""

    status: Literal["in_progress", "completed", "incomplete", "failed", "cancelled"] = "completed"
    reason: str | None = None
    code: str = ""
    message: str = ""
    announced: bool = False


SERVER_ERROR = Outcome("failed", None, "server_error", CATALOGUE["server_error"].message)


@attrs.define(eq=False)
class Turn:
    """What the server does for one create, from its arrival to its terminal event."""

    number: int
    lane: Lane
    raw: Mapping[str, Any]  # the message as it came
    size: int  # its bytes
    state: str = "waiting"
    create: Create | None = None  # from the start on: ``asked``
    parent: Node | None = None
    found: Mapping[str, Item] = attrs.Factory(dict)  # referenced items that the store knew
    prepared: Prepared | None = None
    emitter: Emitter | None = None  # from response.created on: ``live``
    outcome: Outcome = Outcome()
    node: Node | None = None  # as it went to the store
    sent_at: float = 0.0  # when its last event went out
    steers: list[Steer] = attrs.Factory(list)  # accepted for this response
    carried: list[Steer] = attrs.Factory(list)  # whose input stands before this turn's own
    steered: Sequence[Any] = ()  # that input, as items
    input_tokens: int = 0  # as usage counts them, over all pauses
    cached_tokens: int = 0
    kept: int = 0  # output items that an earlier pause has put into ``parent`` already
    kept_tokens: int = 0  # and their tokens
    rests: bool = False  # nothing has come since the pause that ``parent`` stands for
    successor: bool = False  # made by the server, for a steered response

    def step(self, what: str) -> None:
        """Take one step of the turn's table."""
        self.state = TURN[self.state, what]

    @property
    def created(self) -> bool:
        """Whether it has begun: from then on it fails, it is not refused (RWS-ERR-007, RWS-ERR-008)."""
        return self.emitter is not None and self.emitter.state != "idle"

    @property
    def open_calls(self) -> dict[str, Call]:
        """The calls of this turn's output that nobody has answered yet."""
        output = self.live.response.output[self.kept :]
        return {item.call_id: item for item in output if isinstance(item, FunctionCall | CustomToolCall)}

    def final(self, now: int) -> Response:
        """The response as its outcome leaves it (RWS-RES-002, RWS-RES-008, RWS-RES-009)."""
        outcome, emitter = self.outcome, self.live
        usage = Usage(self.input_tokens, self.cached_tokens, emitter.output_tokens, emitter.reasoning_tokens)
        return attrs.evolve(
            emitter.response,
            status=outcome.status,
            completed_at=now if outcome.status == "completed" else None,
            error={"code": outcome.code, "message": outcome.message} if outcome.code else None,
            incomplete_details={"reason": outcome.reason} if outcome.reason else None,
            usage=usage,
        )

    @property
    def live(self) -> Emitter:
        assert self.emitter is not None
        return self.emitter

    @property
    def asked(self) -> Create:
        assert self.create is not None
        return self.create


@attrs.define(eq=False)
class Lane:
    """One conversation. ``pending``: steers that wait for a create which names that response."""

    name: str | None
    active: Turn | None = None
    pending: dict[str, list[Steer]] = attrs.Factory(dict)


@attrs.define
class Lanes:
    """All lanes of a connection and the creates that wait."""

    max_in_flight: int
    max_lanes: int
    named: dict[str | None, Lane] = attrs.Factory(lambda: {None: Lane(None)})
    waiting: list[Turn] = attrs.Factory(list)
    running: dict[int, Turn] = attrs.Factory(dict)

    def has_room_for(self, name: str | None) -> bool:
        """Whether this lane exists or may still be opened; the default lane is not counted (RWS-LAN-015)."""
        return name in self.named or len(self.named) - 1 < self.max_lanes

    def lane(self, name: str | None) -> Lane:
        """The lane of this name, opened if need be."""
        return self.named.setdefault(name, Lane(name))

    @property
    def waiting_bytes(self) -> int:
        return sum(turn.size for turn in self.waiting)

    def must_wait(self, name: str | None) -> bool:
        """Whether a create that comes now cannot start at once."""
        lane = self.named.get(name)
        return len(self.running) >= self.max_in_flight or (lane is not None and lane.active is not None)

    def next_ready(self) -> Turn | None:
        """Take the first waiting turn that may start, and give it its lane and a slot."""
        if len(self.running) >= self.max_in_flight:  # RWS-LAN-009
            return None
        for turn in self.waiting:
            if turn.lane.active is None:
                self.waiting.remove(turn)
                turn.lane.active = turn
                self.running[turn.number] = turn
                turn.step("start")
                return turn
        return None

    def release(self, turn: Turn) -> None:
        """The turn has ended: its lane and its slot are free."""
        turn.lane.active = None
        del self.running[turn.number]

    @property
    def busy(self) -> bool:
        return bool(self.running or self.waiting)
