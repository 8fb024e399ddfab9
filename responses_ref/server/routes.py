"""The HTTP side: a create runs through the same core as on a WebSocket, the rest reads the store."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qs

import attrs
import trio

from responses_ref.protocol import codec
from responses_ref.protocol.cache import Node
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.errors import Problem, Refused, problem
from responses_ref.protocol.events import Event, Sendable
from responses_ref.protocol.items import Item
from responses_ref.protocol.settings import SCRIPTED
from responses_ref.protocol.states import TERMINAL

from .http import RESPONSES, EventStream, Request, Responder, refuse
from .session import Rooms, Session

MAX_PAGE = 100


@attrs.define(eq=False)
class HttpSink:
    """The events of the one response of an HTTP create, for either form of its answer.

    Of a JSON body only the first and the last event matter; a stream says them all,
    and those that come before its head is out wait in ``early``; the model waits for it.
    """

    streams: bool
    started: trio.Event = attrs.Factory(trio.Event)
    attached: trio.Event = attrs.Factory(trio.Event)
    ended: trio.Event = attrs.Factory(trio.Event)
    first: Event | None = None
    last: Event | None = None
    early: list[Sendable] = attrs.Factory(list)
    stream: EventStream | None = None

    def send(self, events: Sequence[Sendable]) -> None:
        for event in events:
            if isinstance(event, Event):
                self._notice(event)
        if self.stream is not None:
            self.stream.send(b"".join(map(_sse, events)))
        elif self.streams:
            self.early += events

    def _notice(self, event: Event) -> None:
        self.first = self.first or event
        self.started.set()
        if event.type in TERMINAL or event.sequence_number is None:
            self.last = event
            self.ended.set()

    def attach(self, stream: EventStream) -> None:
        """From here on events go out as they come; those so far go first."""
        self.stream = stream
        self.attached.set()
        stream.send(b"".join(map(_sse, self.early)))

    async def drained(self) -> None:
        if self.streams:
            await self.attached.wait()
        if self.stream is not None:
            await self.stream.drained()

    def close(self, code: int, reason: str) -> None:
        """An HTTP answer ends by itself."""


def _sse(event: Sendable) -> bytes:
    """An event as server-sent (RWS-HTTP-005); its objects are those of a WebSocket (RWS-ORD-007)."""
    kind = event.type if isinstance(event, Event) else event.template.type
    if isinstance(event, Event) and kind == "error":  # flat here: RWS-HTTP-006
        flat = {name: event.fields["error"][name] for name in ("code", "message", "param")}
        event = attrs.evolve(event, fields=flat)
    name = kind.encode()
    return b"".join(b"event: %b\ndata: %b\n\n" % (name, text) for text in codec.encode(event))


async def create(rooms: Rooms, request: Request, respond: Responder) -> None:
    """``POST /v1/responses``: a JSON object, or with ``stream: true`` the events (RWS-HTTP-001 and on)."""
    body = await request.body()
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Refused(problem("invalid_json", why="it is not UTF-8")) from None
    message = codec.decode(text)
    if rooms.draining.is_set():  # RWS-CLS-010
        raise Refused(problem("server_shutting_down"))
    sink = HttpSink(message.get("stream") is True)
    core = Connection(rooms.settings, rooms.ids(request.connection, request.ordinal))
    async with trio.open_nursery() as nursery:
        number = -request.connection  # the shared timer's key: no WebSocket has it
        session = Session(rooms, core, sink, nursery, number, request.tenant, respond.trace)
        nursery.start_soon(_when_draining, session)
        try:
            session.feed(core.post, message, len(body))
            await _answer_create(sink, respond)
        finally:
            session.end()
            session.feed(core.peer_closed, 1000)
            nursery.cancel_scope.cancel()


async def _when_draining(session: Session) -> None:
    await session.rooms.draining.wait()
    session.feed(session.core.drain)


async def _answer_create(sink: HttpSink, respond: Responder) -> None:
    async with respond.while_connected():
        await sink.started.wait()
    if not sink.started.is_set() or sink.first is None:
        return
    if sink.first.type == "error":
        refusal = sink.first.fields  # RWS-HTTP-008
        await respond.problem(Problem(refusal["status"], **refusal["error"]))
    elif sink.streams:
        async with respond.stream() as out:
            sink.attach(out)
            await sink.ended.wait()
    else:
        async with respond.while_connected():
            await sink.ended.wait()
        if sink.last is not None:
            await respond.json(200, codec.wire(sink.last.fields["response"]))


async def _stored(rooms: Rooms, request: Request, response_id: str) -> Node:
    node = await rooms.store.get(request.tenant, response_id)
    if node is None or node.response.id != response_id:
        raise Refused(problem("response_not_found", id=response_id[:256]))  # RWS-HTTP-013
    return node


async def retrieve(rooms: Rooms, request: Request, respond: Responder, response_id: str) -> None:
    """``GET /v1/responses/{id}`` (RWS-HTTP-010)."""
    node = await _stored(rooms, request, response_id)
    await respond.json(200, codec.wire(node.response))


async def delete(rooms: Rooms, request: Request, respond: Responder, response_id: str) -> None:
    """``DELETE /v1/responses/{id}`` (RWS-HTTP-014)."""
    await _stored(rooms, request, response_id)
    await rooms.store.delete(request.tenant, response_id)
    await respond.json(200, {"id": response_id, "object": "response", "deleted": True})


async def input_items(rooms: Rooms, request: Request, respond: Responder, response_id: str) -> None:
    """``GET /v1/responses/{id}/input_items``: the whole context that the response answered, in pages.

    RWS-HTTP-016 to RWS-HTTP-018, RWS-HTTP-026, RWS-HTTP-028.
    """
    node = await _stored(rooms, request, response_id)
    query = parse_qs(request.query, keep_blank_values=True)
    order, after = query.get("order", ["desc"])[0], query.get("after", [""])[0]
    limit = _limit(query.get("limit", ["20"])[0])
    if order not in ("asc", "desc"):
        raise Refused(problem("invalid_value", param="order", why="it must be asc or desc"))
    rows = _context(node)[:: 1 if order == "asc" else -1]
    if after:
        rows = rows[_place(rows, after) + 1 :]
    page = [_listed(name, item) for name, item in rows[:limit]]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else dict.fromkeys(ENDS)
    await respond.json(200, {"object": "list", "data": page, **ends, "has_more": len(rows) > limit})


ENDS = ("first_id", "last_id")


def _place(rows: Sequence[tuple[str, Item]], after: str) -> int:
    for place, (name, _) in enumerate(rows):
        if name == after:
            return place
    raise Refused(problem("invalid_value", param="after", why="it names no item of this list"))


def _limit(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_PAGE:
        raise Refused(problem("invalid_value", param="limit", why=f"it must be from 1 to {MAX_PAGE}"))
    return int(text)


def _context(node: Node) -> list[tuple[str, Item]]:
    """The items before a response's output, oldest first, by names that stand once each.

    An item without an id is named by its place, and so is one whose id an earlier one has.
    """
    named: dict[str, Item] = {}
    for step in reversed(list(node.back())):
        for item in step.input if step is node else step.items:
            name = item.id
            if name is None or name in named:
                name = f"item_{step.response.id.removeprefix('resp_')}_{len(named)}"
            while name in named:
                name += "_"
            named[name] = item
    return list(named.items())


def _listed(name: str, item: Item) -> dict[str, Any]:
    """An item with its id and a status, where its type has one."""
    status = {"status": "completed"} if hasattr(item, "status") else {}
    fields: dict[str, Any] = codec.wire(item)
    return {"id": name} | status | fields | {"id": name}


async def models(rooms: Rooms, request: Request, respond: Responder) -> None:
    """``GET /v1/models`` (RWS-HTTP-019)."""
    names = dict.fromkeys((SCRIPTED, *rooms.settings.models))
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "responses-ref"} for name in names]
    await respond.json(200, {"object": "list", "data": data})


async def health(rooms: Rooms, request: Request, respond: Responder) -> None:
    """``GET /healthz`` (RWS-HTTP-020)."""
    await respond.json(200, {"status": "ok"})


Route = Callable[..., Awaitable[None]]
FIXED: dict[str, dict[str, Route]] = {
    RESPONSES: {"POST": create},
    "/v1/models": {"GET": models},
    "/healthz": {"GET": health},
}
OF_ONE: dict[str, dict[str, Route]] = {
    "": {"GET": retrieve, "DELETE": delete},
    "/input_items": {"GET": input_items},
}


async def answer(rooms: Rooms, request: Request, respond: Responder) -> None:
    """Find the route and follow it.

    Raises:
        Refused: no such path, no such method, or what the route itself refuses.
    """
    path, arguments = request.path, []
    methods = FIXED.get(path)
    if methods is None and path.startswith(f"{RESPONSES}/"):
        response_id, slash, rest = path.removeprefix(f"{RESPONSES}/").partition("/")
        methods, arguments = OF_ONE.get(slash + rest), [response_id]
    if methods is None or not (rooms.settings.offers("http") or path == "/healthz"):
        raise Refused(problem("not_found"))  # RWS-HTTP-022
    if request.method not in methods:
        allow = {"Allow": ", ".join(methods)}
        raise refuse("method_not_allowed", allow, method=request.method[:32])  # RWS-HTTP-023
    await methods[request.method](rooms, request, respond, *arguments)
