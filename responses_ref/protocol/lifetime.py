"""How a connection ends: the lifetime, idleness, a server going down, a peer that leaves.

At the limit what waits is refused at once, what runs may go on for the grace
time, and the Close comes after the last of it (RWS-LIM-006 and on).  A draining
server is gentler: what had been accepted before still runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .actions import Bill, CancelModel, Close, SetDeadline
from .errors import Problem, problem
from .lanes import SERVER_ERROR, Outcome, Turn
from .states import CONNECTION

if TYPE_CHECKING:
    from .connection import Connection

GOING_AWAY = 1001  # clients that reconnect by themselves do so on this code (RWS-CLS-005, RWS-CLS-007)
REASONS = {"limited": "connection limit", "draining": "going away"}


def reached(connection: Connection, name: str) -> None:
    """A named deadline has come."""
    kind, _, number = name.partition(" ")
    if kind == "heartbeat":
        _heartbeat(connection, connection.lanes.running.get(int(number)))
    else:
        {"lifetime": _limit, "idle": _idle, "grace": _grace_is_over}[kind](connection)


def close_if_done(connection: Connection) -> None:
    """Close a connection whose time is over as soon as nothing runs on it."""
    if connection.state in REASONS and not connection.lanes.busy:
        if connection.state == "limited" and not connection.told_limit:  # RWS-LIM-002, RWS-LIM-009
            connection.refuse(_why(connection))
        _close(connection, REASONS[connection.state])


def refuse_new(connection: Connection, lane: str | None) -> None:
    """A create came too late. The limit is the connection's, not a lane's (RWS-LIM-003)."""
    connection.refuse(_why(connection), lane if connection.state == "draining" else None)


def _why(connection: Connection) -> Problem:
    if connection.state == "draining":
        return problem("server_shutting_down")  # RWS-CLS-010
    return problem("websocket_connection_limit_reached", limit=connection.settings.lifetime_in_words)


def drain(connection: Connection) -> None:
    """The server is going down (RWS-CLS-008, RWS-CLS-009)."""
    before, connection.state = connection.state, CONNECTION[connection.state, "drain"]
    if before == "open":
        connection.do(SetDeadline("grace", connection.now + connection.settings.grace))


def _limit(connection: Connection) -> None:
    connection.state = CONNECTION[connection.state, "limit"]
    if connection.state == "limited":
        _refuse_waiting(connection)  # RWS-LIM-006
        connection.do(SetDeadline("grace", connection.now + connection.settings.grace))


def _refuse_waiting(connection: Connection) -> None:
    while connection.lanes.waiting:
        _refuse(connection, connection.lanes.waiting.pop(0))


def _refuse(connection: Connection, turn: Turn) -> None:
    connection.refuse_turn(turn, _why(connection), on_lane=connection.state == "draining")


def _grace_is_over(connection: Connection) -> None:
    _refuse_waiting(connection)
    for turn in list(connection.lanes.running.values()):
        connection.do(CancelModel(turn))
        if not turn.created:
            _refuse(connection, turn)
            continue
        if turn.state != "storing":  # the store is not waited for either: RWS-LIM-007
            turn.step("finish")
        turn.outcome = SERVER_ERROR
        connection.end(turn)


def _idle(connection: Connection) -> None:
    since = connection.now if connection.lanes.busy else connection.touched  # RWS-LIM-014
    due = since + connection.settings.idle
    if due > connection.now:
        connection.do(SetDeadline("idle", due))
    else:
        _close(connection, "idle")  # RWS-LIM-013


def _heartbeat(connection: Connection, turn: Turn | None) -> None:
    """A turn that is silent for long says that it still runs (RWS-LIM-010)."""
    if turn is None or turn.state != "running":
        return
    silence = connection.settings.heartbeat
    if turn.sent_at + silence <= connection.now:
        turn.live.lifecycle("in_progress")
        connection.flush(turn)
    connection.do(SetDeadline(f"heartbeat {turn.number}", turn.sent_at + silence))


def _close(connection: Connection, reason: str) -> None:
    connection.state = CONNECTION[connection.state, "close"]
    connection.do(Close(GOING_AWAY, reason))


def peer_closed(connection: Connection) -> None:
    """Nobody is there to be told anything: stop all work (RWS-CLS-013), and account for what was begun."""
    connection.state = CONNECTION[connection.state, "close"]
    connection.lanes.waiting.clear()
    for turn in list(connection.lanes.running.values()):
        connection.do(CancelModel(turn))
        if turn.created:
            turn.outcome = Outcome("cancelled")
            connection.do(Bill(turn.final(connection.ids.timestamp(turn.number))))
        connection.lanes.release(turn)
