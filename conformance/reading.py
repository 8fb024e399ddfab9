"""Reads what a record holds: the JSON of a message, the events of a streamed answer.

This is where values that nobody expects are taken out of the way: below it, a field is only used as a key
through `conformance.state.word` and `whole`, and no body is nested deeper than Python can walk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from conformance.state import Connection, Event, word
from conformance.trace import Record
from conformance.web import sse_data

APPEND_BETA: Final = "responses_websockets=2026-02-04"
# Arrays and objects inside each other. What is deeper is read by no client either.
DEPTH: Final = 200
_EVENT_STREAM: Final = re.compile(r"^content-type:[ \t]*text/event-stream", re.IGNORECASE | re.MULTILINE)


def _reject(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_decoder: Final = json.JSONDecoder(parse_constant=_reject)


def parse(event: Event, text: str) -> None:
    """Give the event its body and type, or the reason why it has none."""
    try:
        body = _decoder.decode(text)
    except (ValueError, RecursionError) as exc:
        event.fault = f"not JSON: {exc}"
        return
    if not isinstance(body, dict):
        event.fault = "not a JSON object"
    elif too_deep(text, body):
        event.fault = f"nested deeper than {DEPTH}"
    else:
        event.body, event.type = body, word(body.get("type"))


def too_deep(text: str, value: Any) -> bool:
    """Whether a value is nested deeper than `DEPTH`; looks at the value only if its text may be."""
    if text.count("[") + text.count("{") <= DEPTH:
        return False
    level = [value]
    for _ in range(DEPTH):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterator[Any]:
    """The arrays and objects right inside a value."""
    inner = value.values() if isinstance(value, dict) else value
    return (one for one in inner if isinstance(one, dict | list))


# --- plain HTTP ---------------------------------------------------------------------------------------


def pieces(record: Record, conn: Connection) -> list[Record]:
    """The record itself; of a streamed answer, its head and each of its events by itself.

    Most recorders write a line for each event, some the whole answer in one.
    """
    head, body = record.get("head"), record.get("body")
    if isinstance(head, str):
        conn.streams = _EVENT_STREAM.search(head) is not None
    if not isinstance(body, str) or not _is_stream(body, conn):
        return [record]
    blocks = [block for block in re.split(r"\n\n+", body.replace("\r\n", "\n")) if block.strip("\n")]
    rest = {key: value for key, value in record.items() if key not in ("head", "body")}
    events = [{**rest, "body": f"{block}\n\n"} for block in blocks]
    return events if head is None else [{**rest, "head": head}, *events]


def _is_stream(body: str, conn: Connection) -> bool:
    """What the head of the answer says; of a recording without heads, what it looks like."""
    if conn.streams is None:
        return re.search(r"^data:", body, re.MULTILINE) is not None
    return conn.streams


def read_http(event: Event, record: Record) -> None:
    """Server-sent events are judged like messages; a request's body starts a response like a create."""
    body = record.get("body")
    if event.dir == "c2s":
        _request(event, str(record.get("head", "")), body)
    elif isinstance(body, str) and "head" not in record and _is_stream(body, event.conn):
        data = sse_data(body.replace("\r\n", "\n").rstrip("\n"))
        if data is not None:
            event.transport = event.conn.transport = "sse"
            event.text = data
            parse(event, data)


def _request(event: Event, head: str, body: Any) -> None:
    if APPEND_BETA in head:
        event.conn.dialects.add("APPEND")
    event.conn.begin()
    if not head.startswith("POST ") or not isinstance(body, str) or not body:
        return
    parse(event, body)
    if event.get("stream") is True:
        event.type = "response.create"
        event.transport = event.conn.transport = "sse"
    else:
        event.body, event.fault = None, None
