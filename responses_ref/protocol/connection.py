"""The whole protocol of one connection, without a socket, a clock or a random number.

Theory of operation.  Each public method is something that happened; it returns
the list of actions to be done, in order.  A create becomes a :class:`Turn`:

    receive -> [wait] -> load the parent -> prepare -> run -> store -> end
                              |               |
                              +-- refused ----+   an error event, and no response

What can be judged from one message alone is judged when it arrives; all else
when its turn comes (RWS-CRE-020).  Every method ends in :meth:`_settle`, the
one place that starts waiting turns and closes a connection that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import attrs

from . import append, codec, lifetime, steering
from .actions import Action, Bill, CancelModel, LoadParent, Prepare, Send, SetDeadline, StartModel, Store
from .batch import BatchPart, Failed, Finished
from .cache import Cache, Node, Prepared
from .emitter import ENCRYPTED, Emitter, Ids
from .errors import MAX_QUOTED, Problem, Refused, problem
from .events import Event
from .items import Item
from .lanes import NAME, SERVER_ERROR, Lanes, Outcome, Steer, Turn
from .resource import Create, Response, echo, generating, share
from .settings import Settings

MAX_REMEMBERED = 1024  # ids of ended responses, so that a late steer gets the right refusal


def _input(method: Callable[..., None]) -> Callable[..., list[Action]]:
    """An input of the core: keyword ``now`` in seconds; returns what is to be done."""

    @wraps(method)
    def happened(self: Connection, *args: Any, now: float) -> list[Action]:
        if self.state != "closed":
            self.now = now
            method(self, *args)
            self._settle()
        actions, self.actions = self.actions, []
        return actions

    return happened


@attrs.define(eq=False)
class Connection:
    """One WebSocket connection, or one HTTP request."""

    settings: Settings
    ids: Ids
    speaks_append: bool = False  # the append prototype
    cache: Cache = attrs.Factory(Cache)
    state: str = "open"
    now: float = 0.0
    touched: float = 0.0
    told_limit: bool = False
    turns: int = 0
    actions: list[Action] = attrs.Factory(list)
    ended: dict[str, tuple[str | None, str | None]] = attrs.Factory(dict)  # status and lane
    last: Turn | None = None  # the newest turn of the default lane that has ended
    lanes: Lanes = attrs.field()

    @lanes.default
    def _lanes(self) -> Lanes:
        several = self.settings.max_in_flight if self.settings.offers("lanes") else 1  # RWS-CRE-034
        return Lanes(several, self.settings.max_lanes)

    # --- Messages. ---

    @_input
    def open(self) -> None:
        """The connection is up."""
        self.touched = self.now
        self.do(SetDeadline("lifetime", self.now + self.settings.lifetime))  # RWS-LIM-001
        if self.settings.idle < self.settings.lifetime:  # else the limit comes first, and is told
            self.do(SetDeadline("idle", self.now + self.settings.idle))

    @_input
    def receive(self, text: str) -> None:
        """One text message."""
        self.touched = self.now
        try:
            message = codec.decode(text)
            size = len(text) if text.isascii() else len(text.encode(errors="replace"))
            self._handler(message.get("type"))(self, message, size)
        except Refused as refused:
            self.refuse(refused.problem, refused.stream_id)

    @_input
    def receive_binary(self, data: bytes) -> None:
        """One binary message: events are text (RWS-FRM-010)."""
        self.touched = self.now
        self.refuse(problem("invalid_event"))

    def _handler(self, kind: Any) -> Callable[[Connection, dict[str, Any], int], None]:
        entry = HANDLERS.get(kind) if isinstance(kind, str) else None
        if entry is None or not entry[0](self):  # RWS-CRE-018
            name = f"'{kind[:MAX_QUOTED]}'" if isinstance(kind, str) else "(no string)"
            raise Refused(problem("unknown_event_type", name=name))
        handler: Callable[[Connection, dict[str, Any], int], None] = entry[1]
        return handler

    def _create(self, message: Mapping[str, Any], size: int) -> None:
        lane = self._lane_of(message)
        if self.state != "open":
            return lifetime.refuse_new(self, lane)
        if full := self.full(lane, size):
            return self.refuse(full, lane)  # drops no parent: RWS-LIM-016
        if self.speaks_append and lane is None:
            append.supersede(self)
        self.enqueue(lane, message, size)  # RWS-CRE-033

    def full(self, lane: str | None, size: int) -> Problem | None:
        """Why one more create of this size cannot wait, if it would have to (RWS-LIM-005, RWS-LIM-015)."""
        limits, lanes = self.settings, self.lanes
        few = len(lanes.waiting) < limits.max_queued
        if (few and lanes.waiting_bytes + size <= limits.max_queued_bytes) or not lanes.must_wait(lane):
            return None
        return problem("too_many_queued_responses", limit=limits.max_queued)

    def _lane_of(self, message: Mapping[str, Any]) -> str | None:
        if not self.settings.offers("lanes") or "stream_id" not in message:
            return None
        name = message["stream_id"]
        if not isinstance(name, str) or not NAME.match(name):  # RWS-LAN-002
            raise Refused(problem("invalid_stream_id"))
        if not self.lanes.has_room_for(name):  # RWS-LAN-013
            raise Refused(problem("websocket_stream_limit_reached", limit=self.settings.max_lanes), name)
        return name

    def enqueue(
        self, name: str | None, raw: Mapping[str, Any], size: int, carried: Sequence[Steer] = ()
    ) -> Turn:
        """Let a create wait, in silence (RWS-CRE-035); one with steers goes before its lane's others."""
        self.turns += 1
        turn = Turn(self.turns, self.lanes.lane(name), raw, size)
        turn.carried, turn.successor = list(carried), bool(carried)
        self.lanes.waiting.insert(0 if carried else len(self.lanes.waiting), turn)
        return turn

    @_input
    def post(self, message: Mapping[str, Any], size: int) -> None:
        """The body of an HTTP request: a create without lane and warm-up (RWS-HTTP-003)."""
        self.enqueue(None, generating(message), size)

    # --- A turn, step by step. ---

    def _settle(self) -> None:
        while turn := self.lanes.next_ready():
            self._start(turn)
        lifetime.close_if_done(self)

    def _start(self, turn: Turn) -> None:
        """Judge the fields, then the model, then the parent; the pipeline judges the rest (RWS-CRE-038)."""
        try:
            turn.create = codec.create(turn.raw)
            self._allowed(turn.create)
        except Refused as refused:
            return self.refuse_turn(turn, refused.problem)
        steering.take_pending(turn)
        create = turn.create
        raw_items = (item for item in create.input if isinstance(item, dict))
        named = (item.get("id") for item in raw_items if item.get("type") == "item_reference")
        unknown = (i for i in named if isinstance(i, str) and self.cache.item(i) is None)
        foreign = tuple(dict.fromkeys(unknown))  # in the order of the input
        turn.parent = self.cache.get(create.previous_response_id or "")
        key = None if turn.parent else create.parent_id
        if key is None and not foreign:
            self._bind(turn)
        else:
            self.do(LoadParent(turn, key, foreign))  # RWS-HTTP-009, RWS-HTTP-011, RWS-HTTP-012

    def _allowed(self, create: Create) -> None:
        if not self.settings.serves(create.model):  # RWS-CRE-030
            raise Refused(problem("model_not_found", model=create.model))
        if create.warm_up and not self.settings.offers("warm"):  # RWS-WRM-010
            raise Refused(problem("unsupported_parameter", param="generate", why="cannot be false here"))

    @_input
    def parent_loaded(self, turn: Turn, node: Node | None, items: Mapping[str, Item] | None = None) -> None:
        """The store's answer to ``LoadParent``: the parent, and those referenced items that it knows."""
        if turn.state != "loading":
            return
        turn.parent, turn.found = turn.parent or node, items or {}
        wanted = turn.asked.previous_response_id
        if wanted is not None and (turn.parent is None or turn.parent.response.id != wanted):
            return self.refuse_turn(turn, problem("previous_response_not_found", id=wanted))  # RWS-ERR-013
        self._bind(turn)

    def _bind(self, turn: Turn) -> None:
        turn.step("load")  # the parent is held from here on: RWS-LAN-020
        self.do(Prepare(turn))

    def item(self, turn: Turn, item_id: str) -> Item | None:
        """The item that a reference in this turn's input stands for."""
        return turn.found.get(item_id) or self.cache.item(item_id)

    @_input
    def refused(self, turn: Turn, why: Problem) -> None:
        """The pipeline's answer to ``Prepare``: the request breaks a rule."""
        if turn.state == "preparing":
            self.refuse_turn(turn, why)
        elif turn.state == "preparing again":
            append.fail(self, turn, why)

    @_input
    def prepared(self, turn: Turn, result: Prepared) -> None:
        """The pipeline's answer to ``Prepare``: the response starts."""
        if turn.state not in ("preparing", "preparing again"):
            return
        turn.prepared, turn.rests = result, False
        if turn.emitter is None:
            self._begin_response(turn, result)
        else:
            turn.input_tokens += result.input_tokens - result.cached_tokens
        turn.step("run")
        if turn.kept and append.pauses_again(self, turn):
            return
        if turn.asked.warm_up:  # RWS-WRM-001, RWS-WRM-002
            return self.finish(turn, Outcome())
        turn.live.lifecycle("in_progress")  # RWS-ORD-002
        self.flush(turn)
        self.do(StartModel(turn, result.plan))
        self.do(SetDeadline(f"heartbeat {turn.number}", self.now + self.settings.heartbeat))

    def _begin_response(self, turn: Turn, result: Prepared) -> None:
        turn.input_tokens, turn.cached_tokens = result.input_tokens, result.cached_tokens
        create, lane = turn.asked, turn.lane.name
        asked = echo(create)
        if turn.parent is not None:
            share(asked, turn.parent.response.echo)
        ids = self.ids.of_turn(turn.number)
        response = Response(ids.new("resp"), ids.timestamp(turn.number), asked)
        turn.emitter = Emitter(response, ids, lane, ENCRYPTED in create.include)
        steering.committed(turn)
        turn.live.lifecycle("created")  # RWS-ORD-001
        self.flush(turn)

    @_input
    def model(self, turn: Turn, batch: Sequence[BatchPart]) -> None:
        """What the model has produced by now."""
        if turn.state != "running":
            return
        last = batch[-1] if batch and isinstance(batch[-1], (Failed, Finished)) else None
        body = batch[:-1] if last else batch
        boundary = steering.boundary(turn, body, last is not None)
        turn.live.feed(body[:boundary])
        self.flush(turn)
        if boundary is not None:
            self.do(CancelModel(turn))
            self.finish(turn, Outcome("incomplete", "steered"))  # RWS-STR-012
        elif last:
            self._finished(turn, last)

    def _finished(self, turn: Turn, last: Failed | Finished) -> None:
        if isinstance(last, Failed):
            return self.finish(turn, Outcome("failed", None, last.code, last.message, last.announced))
        pauses = self.speaks_append and turn.lane.name is None  # an append names no lane
        if pauses and last.reason is None and turn.open_calls:
            return append.pause(self, turn)
        self.finish(turn, Outcome("incomplete" if last.reason else "completed", last.reason))

    def finish(self, turn: Turn, outcome: Outcome) -> None:
        """The outcome is known: keep what is to be kept, then say it (RWS-RES-028)."""
        turn.step("finish")
        turn.outcome = outcome
        if turn.asked.store or turn.asked.conversation:
            turn.node = self.node(turn)
            self.do(Store(turn, turn.node))
        else:
            self.end(turn)

    @_input
    def stored(self, turn: Turn) -> None:
        """The node is kept."""
        if turn.state == "storing":
            self.end(turn)

    @_input
    def store_failed(self, turn: Turn) -> None:
        """The node could not be kept: the client must not believe that it was."""
        if turn.state == "storing":
            turn.outcome = SERVER_ERROR
            self.end(turn)

    def end(self, turn: Turn) -> None:
        """Say how the response ends, remember it, account for it, and free its lane."""
        turn.step("end")
        kept, outcome, emitter = turn.node, turn.outcome, turn.live
        # What was stored is what is said, unless the outcome has changed since.
        node = kept if kept and kept.response.status == outcome.status else self.node(turn)
        if outcome.announced:  # RWS-ORD-021
            error = {"type": "server_error", "code": outcome.code, "message": outcome.message, "param": None}
            emitter.event("error", status=500, error=error)  # RWS-ERR-022, RWS-ERR-023
        emitter.lifecycle(outcome.status, node.response)
        self.flush(turn)
        self.cache.ended(turn.lane.name, node)
        self.remember(turn)
        self.touched = self.now
        if self.speaks_append and turn.lane.name is None:  # else nobody needs its request and plan
            self.last = turn
        self.do(SetDeadline(f"heartbeat {turn.number}", None))
        self.do(Bill(node.response))
        self.lanes.release(turn)
        steering.after(self, turn, node)

    def remember(self, turn: Turn) -> None:
        """Keep the id of a response that has ended, for a steer that comes too late."""
        self.ended[turn.live.response.id] = turn.live.response.status, turn.lane.name
        if len(self.ended) > MAX_REMEMBERED:
            del self.ended[next(iter(self.ended))]

    def node(self, turn: Turn) -> Node:
        """What the turn leaves behind as it stands; after a pause, what has come since."""
        response, create, prepared = turn.final(self.ids.timestamp(turn.number)), turn.asked, turn.prepared
        if turn.rests and turn.parent is not None:
            return attrs.evolve(turn.parent, response=response)
        assert prepared is not None
        return Node(
            response,
            turn.parent,
            prepared.items,
            response.output[turn.kept :],
            turn.live.finished_tokens - turn.kept_tokens,
            {**prepared.open_calls, **turn.open_calls},
            prepared.chain,
            create.store,
            create.conversation,
        )

    # --- Refusals, deadlines, the end. ---

    def refuse(self, why: Problem, lane: str | None = None) -> None:
        """Tell the peer why a request is refused; the connection stays as it is (RWS-ERR-001)."""
        self.told_limit |= why.code == "websocket_connection_limit_reached"
        error: dict[str, Any] = {"type": why.type, "code": why.code, "message": why.message}  # RWS-ERR-004
        error["param"] = why.param  # RWS-ERR-006
        if why.headers:
            error["headers"] = dict(why.headers)  # RWS-ERR-012
        self.do(Send(Event("error", {"status": why.status, "error": error}, None, lane)))

    def refuse_turn(self, turn: Turn, why: Problem, on_lane: bool = True) -> None:
        """Refuse a create whose turn had come, and drop the parent it named (RWS-CAC-004)."""
        if self.speaks_append and turn.state != "waiting" and not turn.successor:
            append.failed_at_once(self, turn, why)
        elif not turn.successor:  # nobody sent it: its steers are answered, below
            self.refuse(why, turn.lane.name if on_lane else None)
        parent = turn.raw.get("previous_response_id")
        self.cache.refused(turn.lane.name, parent if isinstance(parent, str) else None)
        if turn.state != "waiting":
            self.lanes.release(turn)
        turn.step("refuse")
        steering.refused(self, turn)

    @_input
    def deadline(self, name: str) -> None:
        """A deadline that was set has come."""
        lifetime.reached(self, name)

    @_input
    def drain(self) -> None:
        """The server is going down: let what has begun end."""
        lifetime.drain(self)

    @_input
    def peer_closed(self, code: int) -> None:
        """The peer has gone, with whatever Close ``code``: stop all work, and account for what was begun."""
        lifetime.peer_closed(self)

    def flush(self, turn: Turn) -> None:
        """Send what the turn's emitter has made."""
        events = turn.live.take()
        self.actions += map(Send, events)
        if events:
            turn.sent_at = self.now

    def do(self, action: Action) -> None:
        """Have one more thing done."""
        self.actions.append(action)


# Client events: whether this connection knows the type, and who handles (connection, message, bytes of it).
HANDLERS: dict[str, tuple[Callable[[Connection], bool], Any]] = {
    "response.create": (lambda connection: True, Connection._create),
    # RWS-CRE-036
    "response.steer": (lambda connection: connection.settings.offers("steer"), steering.receive),
    "response.append": (lambda connection: connection.speaks_append, append.receive),  # RWS-CRE-019
    # It wants no answer: RWS-CDX-001
    "response.processed": (lambda connection: connection.settings.offers("codex"), lambda *_: None),
}
