"""The append prototype: a response that pauses at a tool call, and goes on when its outputs come.

It came before ``previous_response_id``: a whole rollout was one response.  The
rest of the core does not know it: a pause is one more state of a turn, and what
follows a pause is prepared, run and numbered like everything else.  Clients of
that time ignore ``error`` events, so on such a connection a wrong append ends
the response with ``response.failed`` (RWS-APP-010).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from .actions import CancelModel, Prepare, SetDeadline
from .errors import Problem, problem
from .lanes import Outcome, Turn

if TYPE_CHECKING:
    from .connection import Connection


def pause(connection: Connection, turn: Turn) -> None:
    """The model has called tools: say ``response.done`` and wait for their outputs (RWS-APP-002)."""
    node = connection.node(turn)
    turn.step("pause")
    snapshot = attrs.evolve(turn.live.response, usage=node.response.usage)
    turn.live.event("response.done", response=snapshot)
    connection.flush(turn)
    turn.parent, turn.kept = node, len(turn.live.response.output)
    connection.do(SetDeadline(f"heartbeat {turn.number}", None))


def receive(connection: Connection, message: Mapping[str, Any], size: int) -> None:
    """One ``response.append``: wake the paused response, or go on from the last one."""
    turn = connection.lanes.lane(None).active
    if turn is not None and turn.state == "paused":
        turn.create = attrs.evolve(turn.asked, input=_items(message))
        turn.step("append")
        connection.do(Prepare(turn))
    elif turn is not None and turn.created:
        fail(connection, turn, "append_while_running", "The response is not waiting for an append.")
    else:
        _go_on(connection, message, size)


def _items(message: Mapping[str, Any]) -> tuple[Any, ...]:
    value = message.get("input")
    return tuple(value) if isinstance(value, list) else (value,)


def _go_on(connection: Connection, message: Mapping[str, Any], size: int) -> None:
    """After the end of a response, an append is the next user message, with its settings (RWS-APP-006)."""
    last = connection.last
    raw = {"model": "", **(last.raw if last else {}), "input": message.get("input")}
    raw["previous_response_id"] = last.live.response.id if last and last.created else None
    connection.enqueue(None, raw, size)


def refused(connection: Connection, turn: Turn, why: Problem) -> None:
    """The appended input breaks a rule."""
    fail(connection, turn, why.code, why.message)


def fail(connection: Connection, turn: Turn, code: str, message: str) -> None:
    """End the response failed, whatever it does at the moment."""
    connection.do(CancelModel(turn))
    connection.finish(turn, Outcome("failed", None, code, message))


def supersede(connection: Connection) -> None:
    """A create while a response is paused ends that response (RWS-APP-008)."""
    turn = connection.lanes.lane(None).active
    if turn is not None and turn.state == "paused":
        connection.finish(turn, Outcome("incomplete", "superseded"))


def nothing_to_continue() -> Problem:
    return problem("invalid_value", param="type", why="there is no response to append to")
