"""Sorts the records of a trace: which connection, lane, response, item and part each event belongs to.

The rule is that of INTERPRETING.md section 4. `resolve` looks, the invariants judge, `apply` moves on.
"""

from __future__ import annotations

from typing import Any, Final

from conformance import reading
from conformance.state import (
    TERMINAL,
    Connection,
    Event,
    Item,
    Lane,
    Part,
    Request,
    Response,
    is_lane,
    whole,
    word,
)
from conformance.trace import Record

# type of event -> (kind of part, key of its index, what the event does to the part)
_PARTS: Final[dict[str, tuple[str, str, str]]] = {
    "response.content_part.added": ("content", "content_index", "added"),
    "response.content_part.done": ("content", "content_index", "closed"),
    "response.output_text.delta": ("content", "content_index", "delta"),
    "response.output_text.done": ("content", "content_index", "text"),
    "response.output_text.annotation.added": ("content", "content_index", ""),
    "response.refusal.delta": ("content", "content_index", "delta"),
    "response.refusal.done": ("content", "content_index", "refusal"),
    "response.reasoning_summary_part.added": ("summary", "summary_index", "added"),
    "response.reasoning_summary_part.done": ("summary", "summary_index", "closed"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "delta"),
    "response.reasoning_summary_text.done": ("summary", "summary_index", "text"),
    "response.reasoning_text.delta": ("content", "content_index", "delta"),
    "response.reasoning_text.done": ("content", "content_index", "text"),
    "response.function_call_arguments.delta": ("arguments", "", "delta"),
    "response.function_call_arguments.done": ("arguments", "", "arguments"),
    "response.custom_tool_call_input.delta": ("input", "", "delta"),
    "response.custom_tool_call_input.done": ("input", "", "input"),
}
_CALLS: Final = frozenset(("function_call", "custom_tool_call"))
_CREATES: Final = frozenset(("response.create", "response.append"))
_KNOWN_TO_CLIENTS: Final = frozenset(("response.create", "response.append", "response.steer"))


class Demux:
    """The state of everything that is open in one trace."""

    def __init__(self, dialects: set[str] | None = None) -> None:
        self.conns: dict[str, Connection] = {}
        self.dialects = dialects or set()

    def pieces(self, record: Record) -> list[Record]:
        """The record, or what it is made of: each is an event of its own."""
        if record["kind"] != "http" or record["dir"] != "s2c":
            return [record]
        return reading.pieces(record, self._conn(record["conn"]))

    def event(self, record: Record, line: int) -> Event:
        """The record with everything that it belongs to."""
        event = Event(record, line, self._conn(record["conn"]))
        if event.kind == "text":
            event.text = record["text"]
            reading.parse(event, record["text"])
        elif event.kind == "http":
            reading.read_http(event, record)
        if event.body is not None and event.dir == "s2c":
            _resolve(event)
        return event

    def _conn(self, name: str) -> Connection:
        conn = self.conns.get(name)
        if conn is None:
            conn = self.conns[name] = Connection(name)
            conn.dialects |= self.dialects
        return conn

    def apply(self, event: Event) -> None:
        """Take the event into the state."""
        if event.dir == "c2s":
            _apply_client(event)
        elif event.body is not None:
            _apply_server(event)
        if event.kind == "close":
            event.conn.client_closed |= event.dir == "c2s"
            event.conn.server_closed |= event.dir == "s2c"
        elif event.kind == "eof":
            event.conn.closed = True
            self.conns.pop(event.conn.name, None)


# --- which response, item and part ------------------------------------------------------------------


def _resolve(event: Event) -> None:
    body, conn, kind = event.body, event.conn, event.type
    assert body is not None
    lane = event.lane = conn.lane(body.get("stream_id"))
    if kind is None:
        return
    if kind == "error":
        if "sequence_number" in body or event.transport == "sse":
            event.response = _open(event, body, conn, lane)
        return
    if kind.startswith("response.steer."):
        steer = body.get("steer")
        target = word(steer.get("previous_response_id")) if isinstance(steer, dict) else None
        event.response = None if target is None else conn.open.get(target)
        return
    if not kind.startswith("response.") or kind in (
        "response.interrupt.accepted",
        "response.interrupt.failed",
    ):
        return
    event.response = _response(event, body, conn, lane)
    _item(event, body, event.response)


def _response(event: Event, body: dict[str, Any], conn: Connection, lane: Lane) -> Response:
    response = body.get("response")
    name = word(response.get("id")) if isinstance(response, dict) else None
    if name is not None and name in conn.open:
        return conn.open[name]
    if event.type == "response.created":
        return _start(event, name, lane)
    item = _item_id(body) if name is None else None
    if item is not None and (owner := conn.by_item.get(item)):
        return owner
    if lane.last is not None and name is not None and lane.last.id == name:
        return lane.last
    if name is None and (owner := _open(event, body, conn, lane)):
        return owner
    if lane.open is not None:
        return lane.open
    if lane.pending or lane.last is None:
        return _start(event, name, lane)
    return lane.last


def _open(event: Event, body: dict[str, Any], conn: Connection, lane: Lane) -> Response | None:
    """The open response of the lane; for an event that fits to nothing there, the one of another lane that
    its number continues: the server has left the `stream_id` out, or has put one in."""
    number = whole(body.get("sequence_number"))
    if number is None or (lane.open is not None and event.type != "error"):
        return lane.open
    next_ones = [one for one in conn.running if one.last_number is not None and one.last_number + 1 == number]
    return next_ones[0] if len(next_ones) == 1 else lane.open


def _start(event: Event, name: str | None, lane: Lane) -> Response:
    response = Response(name, lane, event.line)
    if _goes_on_from_steered(event, lane):
        # The create that names the steered response takes this one's place, and then which is which cannot
        # be told (RWS-STR-030); without one it is the automatic successor, which passes those that wait.
        named = next((one for one in lane.pending if _parent(one.body) == lane.last_id), None)
        response.asked = True
        if named is not None:
            lane.pending.remove(named)
    elif lane.pending:
        request = lane.pending.popleft()
        response.asked, response.request = True, request if lane.certain else None
    elif lane.name is None and event.conn.faulty:
        event.conn.faulty -= 1  # what was no message for servers with lanes is one for others
    lane.certain = lane.certain or not lane.pending
    event.replaced, lane.open = lane.open, response
    if name is not None:
        event.conn.open[name] = response
    return response


def _goes_on_from_steered(event: Event, lane: Lane) -> bool:
    """Whether this response brings on what was steered into the one before it."""
    notes = lane.last.notes if lane.last is not None else {}
    steered = notes.get("steered") or notes.get("accepted")
    return bool(steered and _parent(event.get("response")) == lane.last_id)


def _parent(body: Any) -> str | None:
    return word(body.get("previous_response_id")) if isinstance(body, dict) else None


def _item_id(body: dict[str, Any]) -> str | None:
    item = body.get("item")
    return word(item.get("id") if isinstance(item, dict) else body.get("item_id"))


def _item(event: Event, body: dict[str, Any], response: Response) -> None:
    if event.type == "response.output_item.added":
        return
    name = _item_id(body)
    item = response.by_id.get(name) if name is not None else None
    if item is None:
        item = response.item_at(body.get("output_index"))
    event.item = item
    if item is None or event.type not in _PARTS:
        return
    kind, key, _ = _PARTS[event.type]
    index = whole(body.get(key, 0)) if key else 0
    event.part = None if index is None else item.parts.get((kind, index))


# --- moving on --------------------------------------------------------------------------------------


def _apply_client(event: Event) -> None:
    conn, body = event.conn, event.body
    if body is None:
        conn.faulty += event.kind in ("text", "binary")
        return
    if event.type not in _KNOWN_TO_CLIENTS:
        conn.faulty += 1
        return
    if event.type == "response.append":
        conn.dialects.add("APPEND")
    if event.type in _CREATES and not is_lane(body.get("stream_id")):
        conn.faulty += 1
    elif event.type in _CREATES:
        lane = conn.lane(body.get("stream_id"))
        if event.type == "response.create" or lane.open is None:
            lane.pending.append(Request(body, event.line))


def _apply_server(event: Event) -> None:
    body, kind, response = event.body, event.type, event.response
    assert body is not None
    if kind == "error" and response is None:
        _refused(event)
        return
    if response is None:
        return
    number = whole(body.get("sequence_number"))
    if number is not None:
        response.last_number = number
    response.events += 1
    change = _PARTS.get(kind or "")
    if change is not None:
        _apply_part(event, body, *change)
    elif kind in _APPLY:
        _APPLY[kind](event, response)
    elif kind in TERMINAL:
        _end(event, response)


def _refused(event: Event) -> None:
    """A protocol error answers a faulty message, or the create that it refuses."""
    conn, lane = event.conn, event.lane
    if conn.faulty:
        conn.faulty -= 1
    elif lane is not None and lane.pending:
        if lane.open is None:
            lane.pending.popleft()
        else:
            lane.pending.pop()
            lane.certain = not lane.pending


def _created(_event: Event, response: Response) -> None:
    response.created = True


def _in_progress(_event: Event, response: Response) -> None:
    response.in_progress = True


def _accepted(_event: Event, response: Response) -> None:
    response.notes["accepted"] = True


def _error(_event: Event, response: Response) -> None:
    response.error = True


def _item_added(event: Event, response: Response) -> None:
    item = event.get("item")
    if not isinstance(item, dict):
        return
    name, kind = word(item.get("id")), word(item.get("type"))
    if name is not None and kind is not None and name not in response.by_id:
        made = Item(name, kind, whole(event.get("output_index")), item, event.line)
        response.items.append(made)
        response.by_id[name] = made
        event.conn.by_item[name] = response


def _item_done(event: Event, _response: Response) -> None:
    item = event.get("item")
    if event.item is not None and isinstance(item, dict):
        event.item.done = item


_APPLY: Final = {
    "response.created": _created,
    "response.in_progress": _in_progress,
    "error": _error,
    "response.steer.accepted": _accepted,
    "response.output_item.added": _item_added,
    "response.output_item.done": _item_done,
}


def _apply_part(event: Event, body: dict[str, Any], kind: str, key: str, what: str) -> None:
    item, part = event.item, event.part
    if item is None:
        return
    if part is None:
        index = whole(body.get(key, 0)) if key else 0
        if index is None:
            return
        part = item.parts[kind, index] = Part(kind, index)
    if what == "delta":
        delta = body.get("delta")
        if isinstance(delta, str):
            part.deltas.append(delta)
    elif what == "added":
        part.added, part.body = True, body.get("part")
    elif what == "closed":
        part.closed = body.get("part", True)
    elif what:
        text = body.get(what)
        part.done = text if isinstance(text, str) else part.done


def _end(event: Event, response: Response) -> None:
    conn, lane = event.conn, response.lane
    if response.terminal is None:
        response.terminal = event.type
    for name in response.by_id:
        conn.by_item.pop(name, None)
    if response.id is not None:
        conn.open.pop(response.id, None)
    accepted = response.notes.get("accepted") and event.type != "response.failed"
    calls = any(item.type in _CALLS for item in response.items)
    response.forget()
    if accepted and not calls:
        response.notes["accepted"] = True  # a successor comes by itself (RWS-STR-032)
    if lane.open is response:
        lane.open = None
    lane.last = response
    if event.get("response", "incomplete_details", "reason") == "steered":
        response.notes["steered"] = True
