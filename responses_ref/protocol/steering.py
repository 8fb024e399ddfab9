"""Mid-turn steering: input that is accepted while a response runs.

A submission is accepted into the target's own queue and takes effect later, by
one of three ways, whichever comes first (the STEER table has its states):

* The target stops at a safe boundary, after its current item, and ends
  ``incomplete`` with reason ``steered``.  A boundary is safe while the response
  has made no call: a call that nobody could answer would break the context.
* The target ends by itself.  Then, as after a steered end, the server creates
  the successor, which inherits the settings and carries the queued input.
* The target ends with calls.  The client owes their outputs, so each submission
  is ``pending`` until the create that names the target; its input comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .actions import CancelModel, Send
from .batch import BatchPart, ItemDone
from .cache import Node
from .errors import INVALID, MAX_QUOTED
from .events import Event
from .items import OUTPUT_OF, CustomToolCall, FunctionCall
from .lanes import Outcome, Steer, Turn
from .settings import Settings

if TYPE_CHECKING:
    from .connection import Connection

FIELDS = {"type", "previous_response_id", "input"}
MESSAGE_FIELDS = {"type", "role", "content"}
PARTS = {"input_text", "input_image", "input_file"}
NEVER: tuple[str | None, str | None] = (None, None)  # status and lane of a response that never was
MESSAGES = {
    "response_not_found": "Response '{id}' is not available on this connection.",
    "invalid_input": "The event takes type, previous_response_id and input: a string, or user messages.",
    "steering_not_supported": "A response with a conversation or automatic compaction cannot be steered.",
    "too_many_pending_steers": "Too much input is waiting for this response already.",
    "response_already_completed": "Response '{id}' has completed and takes no more input.",
    "response_not_active": "Response '{id}' has ended and takes no more input.",
    "successor_creation_failed": "The continuation could not be created.",
}


def receive(connection: Connection, message: Mapping[str, Any], size: int) -> None:
    """Accept one ``response.steer``, or refuse it by one ``response.steer.failed``."""
    target = message.get("previous_response_id")
    running = connection.lanes.running.values()
    turn = next((t for t in running if t.created and t.live.response.id == target), None)
    code = _fault(connection, message, size, turn)
    if code:
        _failed(connection, turn, target, message.get("input"), code)
        return
    assert turn is not None
    steer = Steer(turn.live.ids.new("steer"), message["input"], size)  # RWS-STR-002
    turn.steers.append(steer)
    turn.live.aside("response.steer.accepted", steer={"id": steer.id, "previous_response_id": target})
    connection.flush(turn)
    if turn.live.item is None and _may_stop(turn):  # RWS-STR-018
        connection.do(CancelModel(turn))
        connection.finish(turn, Outcome("incomplete", "steered"))


def _fault(connection: Connection, message: Mapping[str, Any], size: int, turn: Turn | None) -> str | None:
    target = message.get("previous_response_id")
    if set(message) != FIELDS or not isinstance(target, str) or not _is_user_input(message["input"]):
        return "invalid_input"  # RWS-STR-004, RWS-STR-005
    if turn is None:
        status, _ = connection.ended.get(target, NEVER)
        by_status = {None: "response_not_found", "completed": "response_already_completed"}
        return by_status.get(status, "response_not_active")  # RWS-STR-007, RWS-STR-023, RWS-STR-024
    if turn.asked.conversation or turn.asked.compacts:
        return "steering_not_supported"  # RWS-STR-008
    if turn.state != "running":
        return "response_not_active"
    return "too_many_pending_steers" if _is_full(connection.settings, turn.steers, size) else None


def _is_full(limits: Settings, waiting: Sequence[Steer], size: int) -> bool:
    """Whether one more steer of this size is too many (RWS-STR-016, RWS-STR-017)."""
    held = sum(steer.size for steer in waiting)
    return len(waiting) >= limits.max_steers or held + size > limits.max_queued_bytes


def _is_user_input(value: Any) -> bool:
    """Judged as it came: objects of 15 MB would take seconds in one piece, with all streams waiting."""
    if isinstance(value, str):
        return True
    return isinstance(value, list) and bool(value) and all(map(_is_user_message, value))


def _is_user_message(raw: Any) -> bool:
    if not isinstance(raw, dict) or raw.get("role") != "user" or raw.get("type") not in (None, "message"):
        return False
    content, sent = raw.get("content"), {name for name, value in raw.items() if value is not None}
    listed = isinstance(content, list) and all(map(_is_user_part, content))
    return sent <= MESSAGE_FIELDS and (listed or isinstance(content, str))


def _is_user_part(raw: Any) -> bool:
    kind = raw.get("type") if isinstance(raw, dict) else None
    return (
        isinstance(kind, str) and kind in PARTS and (kind != "input_text" or isinstance(raw.get("text"), str))
    )


# --- Where a response may stop. ---


def _may_stop(turn: Turn) -> bool:
    if not turn.steers:  # nearly always: each batch of each response asks
        return False
    output = turn.live.response.output
    return not any(isinstance(item, FunctionCall | CustomToolCall) for item in output)  # RWS-STR-026


def boundary(turn: Turn, body: Sequence[BatchPart], ends: bool) -> int | None:
    """How much of the batch to emit before a steered response stops; None: it does not stop here."""
    item = turn.live.item  # a steer that comes between two items stops the response there and then
    if item is None or item.kind.endswith("_call") or not _may_stop(turn):
        return None
    for after, part in enumerate(body, 1):
        if isinstance(part, ItemDone):
            natural_end = after == len(body) and ends
            return None if natural_end else after
    return None


# --- What happens to the submissions when their target has ended. ---


def after(connection: Connection, turn: Turn, node: Node) -> None:
    """The target has ended: create its successor, or wait for the client's create, or give up."""
    lane, response_id = turn.lane, node.response.id
    steers, turn.steers = turn.steers, []
    if steers and node.response.status == "failed":
        _give_up(connection, turn, response_id, steers)  # RWS-STR-033
    elif steers and (node.open_calls or _explicit(connection, turn, response_id)):
        lane.pending[response_id] = steers  # RWS-STR-030
        if node.open_calls and not _explicit(connection, turn, response_id):
            _tell_pending(connection, turn, node, steers)  # RWS-STR-019
    elif steers:
        raw = {**turn.raw, "input": [], "previous_response_id": response_id}
        connection.enqueue(lane.name, raw, 0, steers)  # RWS-STR-013, RWS-STR-014
    _give_up_lost(connection, turn)


def _explicit(connection: Connection, turn: Turn, response_id: str) -> bool:
    waiting = (other for other in connection.lanes.waiting if other.lane is turn.lane)
    return any(other.raw.get("previous_response_id") == response_id for other in waiting)


def _tell_pending(connection: Connection, turn: Turn, node: Node, steers: list[Steer]) -> None:
    stubs = [_stub(call) for call in node.open_calls.values()]
    for steer in steers:
        steer.step("wait")
        turn.live.aside(
            "response.steer.pending",
            steer={"id": steer.id, "previous_response_id": node.response.id},
            reason="waiting_for_required_input",
            required_input=stubs,
        )
    connection.flush(turn)


def _stub(call: Any) -> dict[str, str]:
    """What the client owes for one call (RWS-STR-015)."""
    kind = next(output for output, of in OUTPUT_OF.items() if isinstance(call, of))
    name = {"name": call.name} if isinstance(call, FunctionCall) else {}
    return {"type": kind, "call_id": call.call_id, **name}


def take_pending(turn: Turn) -> None:
    """Put queued steer input before the input of the create that names its target (RWS-STR-028)."""
    assert turn.create is not None
    turn.carried += turn.lane.pending.pop(turn.create.previous_response_id or "", [])
    turn.steered = [raw for steer in turn.carried for raw in _raw_items(steer.input)]


def _raw_items(value: Any) -> list[Any]:
    return [{"type": "message", "role": "user", "content": value}] if isinstance(value, str) else value


def committed(turn: Turn) -> None:
    """The successor is about to start: its submissions are applied."""
    for steer in turn.carried:
        steer.step("commit")


def refused(connection: Connection, turn: Turn) -> None:
    """The create that carried submissions was refused: they cannot be applied any more."""
    parent = turn.raw.get("previous_response_id")
    _give_up(connection, turn, parent, turn.carried)
    _give_up_lost(connection, turn)


def _give_up_lost(connection: Connection, turn: Turn) -> None:
    """Submissions whose target has been dropped, and that no create waits for which names it."""
    pending = turn.lane.pending
    dropped = [key for key in pending if connection.cache.get(key) is None]
    for lost in [key for key in dropped if not _explicit(connection, turn, key)]:
        _give_up(connection, turn, lost, pending.pop(lost))


def _give_up(connection: Connection, turn: Turn, target: Any, steers: list[Steer]) -> None:
    for steer in steers:
        steer.step("fail")
        _failed(connection, turn, target, steer.input, "successor_creation_failed", steer.id)


def _failed(
    connection: Connection, turn: Turn | None, target: Any, value: Any, code: str, steer_id: str | None = None
) -> None:
    """``response.steer.failed``: numbered with its target while that runs, 0 without one (RWS-STR-025)."""
    identity = {"id": steer_id} if steer_id else {}
    steer = {**identity, "previous_response_id": target, "input": value}
    message = MESSAGES[code].format(id=str(target)[:MAX_QUOTED])
    fields = {"steer": steer, "error": {"type": INVALID, "code": code, "message": message}}
    runs = turn is not None and turn.number in connection.lanes.running
    if turn is not None and runs and turn.created and turn.live.response.id == target:
        turn.live.aside("response.steer.failed", **fields)
        connection.flush(turn)
    else:
        lane = turn.lane.name if turn else connection.ended.get(str(target), NEVER)[1]  # RWS-STR-006
        connection.do(Send(Event("response.steer.failed", fields, 0, lane)))
