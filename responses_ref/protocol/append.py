"""The append prototype: a response that pauses at a tool call, and goes on when its outputs come.

It came before ``previous_response_id``: a whole rollout was one response.  The
rest of the core hardly knows it.  A pause is one more state of a turn; what
follows it is prepared, run and numbered like everything else, and accounted for
once, at the end.  Clients of that time ignore ``error`` events and would wait
for ever, so on such a connection a create or an append that is refused is a
response that fails at once (RWS-APP-013, RWS-APP-019).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from . import lifetime
from .actions import CancelModel, Prepare, SetDeadline
from .emitter import Emitter
from .errors import Problem, problem
from .lanes import Outcome, Turn
from .resource import Create, Response, echo, generating

if TYPE_CHECKING:
    from .connection import Connection


def pause(connection: Connection, turn: Turn) -> None:
    """The model has called tools: say ``response.done`` and wait for their outputs (RWS-APP-002)."""
    turn.outcome = Outcome("in_progress")
    node = connection.node(turn)
    turn.step("pause")
    turn.live.event("response.done", response=node.response)
    connection.flush(turn)
    turn.parent, turn.kept = node, len(turn.live.response.output)
    turn.kept_tokens, turn.rests = turn.live.finished_tokens, True
    connection.cache.learn(node)
    connection.do(SetDeadline(f"heartbeat {turn.number}", None))


def receive(connection: Connection, message: Mapping[str, Any], size: int) -> None:
    """One ``response.append``: wake the paused response, or go on after the last one."""
    turn = connection.lanes.lane(None).active
    if turn is None or turn.state == "storing":
        _go_on(connection, turn or connection.last, message, size)
    elif turn.state == "paused":
        _wake(connection, turn, message)
    else:
        _end_active(connection, turn, problem("append_while_running"))  # RWS-APP-012


def _wake(connection: Connection, turn: Turn, message: Mapping[str, Any]) -> None:
    value = message.get("input")
    if not isinstance(value, list):
        return fail(connection, turn, problem("invalid_type", param="input", expected="an array"))
    turn.create, turn.steered = attrs.evolve(turn.asked, input=tuple(value)), ()
    turn.step("append")
    connection.do(Prepare(turn))


def pauses_again(connection: Connection, turn: Turn) -> bool:
    """After an append: true when calls are still open, so that the response waits on (RWS-APP-015)."""
    assert turn.prepared is not None
    if not turn.prepared.open_calls:
        return False
    turn.live.lifecycle("in_progress")
    pause(connection, turn)
    return True


def _go_on(connection: Connection, last: Turn | None, message: Mapping[str, Any], size: int) -> None:
    """After the end of a response, an append is the next user message, with its settings (RWS-APP-008)."""
    if connection.state != "open":
        return lifetime.refuse_new(connection, None)
    if last is None:
        return _refuse(connection, message, size, problem("append_without_response"))
    if full := connection.full(None, size):
        return _refuse(connection, message, size, full)
    follows = {} if last.asked.conversation else {"previous_response_id": last.live.response.id}
    connection.enqueue(None, {**generating(last.raw), **follows, "input": message.get("input")}, size)


def _refuse(connection: Connection, message: Mapping[str, Any], size: int, why: Problem) -> None:
    nothing = connection.enqueue(None, message, size)
    connection.lanes.waiting.remove(nothing)
    failed_at_once(connection, nothing, why)


def _end_active(connection: Connection, turn: Turn, why: Problem) -> None:
    """An append that breaks a rule ends the active response, begun or not."""
    if turn.created:
        fail(connection, turn, why)
    else:
        connection.do(CancelModel(turn))
        connection.refuse_turn(turn, why)


def fail(connection: Connection, turn: Turn, why: Problem) -> None:
    """End a created response failed, whatever it does at the moment."""
    connection.do(CancelModel(turn))
    connection.finish(turn, Outcome("failed", None, why.code, why.message))


def failed_at_once(connection: Connection, turn: Turn, why: Problem) -> None:
    """The two events of a response that is refused (RWS-APP-013, RWS-APP-019)."""
    model = turn.raw.get("model")
    create = turn.create or Create(model if isinstance(model, str) else "unknown")
    create = attrs.evolve(create, store=False)  # there is nothing of it to be kept
    ids = connection.ids.of_turn(turn.number)
    response = Response(ids.new("resp"), ids.timestamp(turn.number), echo(create))
    turn.emitter = Emitter(response, ids, turn.lane.name, False)
    turn.live.lifecycle("created")
    error = {"code": why.code, "message": why.message}
    turn.live.lifecycle("failed", attrs.evolve(response, status="failed", error=error))
    connection.remember(turn)
    connection.flush(turn)


def supersede(connection: Connection) -> None:
    """A create while a response is paused ends that response (RWS-APP-014)."""
    turn = connection.lanes.lane(None).active
    if turn is not None and turn.state == "paused":
        connection.finish(turn, Outcome("incomplete", "superseded"))
