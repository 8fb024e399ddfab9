"""Mutants of HTTP: creates over HTTP, stored responses, lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from conformance.mutants.harness import mutant, server_mutant
from conformance.mutants.middle import Answer, Head, Out
from conformance.mutants.reference import KEYS
from conformance.state import TERMINAL
from responses_ref.server.accept import Server
from responses_ref.server.app import App
from responses_ref.server.http import Request, Responder
from responses_ref.server.websocket import WebSocket
from responses_ref.store import MemoryStore, Store

Event = dict[str, Any]
RESPONSES = "/v1/responses"


def creates(head: Head) -> bool:
    return head.method == "POST" and head.path == RESPONSES


def reads(head: Head, end: str = "") -> bool:
    """Whether the request reads one stored response, or what is at ``end`` below it."""
    path = head.path.partition("?")[0]
    below = path.removeprefix(f"{RESPONSES}/")
    return head.method == "GET" and path != below and below.partition("/")[2] == end


def body(head: Head) -> Event:
    fields = json.loads(head.body or b"{}")
    return fields if isinstance(fields, dict) else {}


def block(event: Event) -> str:
    """A block of an event stream without its `event:` line."""
    return f"data: {json.dumps(event)}\n\n"


# --- the answer to a create -------------------------------------------------------------------------


@mutant("RWS-HTTP-001", on="answer")
def calls_a_response_created(answer: Answer, memory: Event, head: Head) -> None:
    if creates(head) and answer.status == 200 and answer.body is not None:
        answer.status = 201


@mutant("RWS-HTTP-002", on="answer")
def calls_a_stream_json(answer: Answer, memory: Event, head: Head) -> None:
    if answer.body is None:
        answer.set("content-type", "application/json")


@mutant("RWS-HTTP-002", on="sse")
def streams_when_all_is_over(event: Event, memory: Event) -> Iterable[Out]:
    memory.setdefault("kept", []).append(event)
    if event["type"] in TERMINAL:
        yield from memory.pop("kept")


@mutant("RWS-HTTP-005", on="sse")
def names_no_deltas(event: Event, memory: Event) -> Iterable[Out]:
    yield block(event) if event["type"].endswith(".delta") else event


@mutant("RWS-HTTP-027", on="sse")
def ends_a_stream_with_a_marker(event: Event, memory: Event) -> Iterable[Out]:
    yield event
    if event["type"] in TERMINAL:
        yield "data: [DONE]\n\n"


@mutant("RWS-HTTP-003", on="head")
def reads_the_type_of_a_body(head: Head, memory: Event) -> None:
    if creates(head) and body(head).get("type", "response.create") != "response.create":
        head.body = b"{}"


@mutant("RWS-HTTP-004", on="sse")
def has_lanes_over_http(event: Event, memory: Event) -> Iterable[Out]:
    yield {**event, "stream_id": "lane-a"}


# --- errors -----------------------------------------------------------------------------------------


@mutant("RWS-HTTP-007", on="answer")
def sends_flat_errors(answer: Answer, memory: Event, head: Head) -> None:
    if creates(head) and answer.status >= 400:
        answer.json = answer.json["error"]


@mutant("RWS-HTTP-008", on="answer")
def calls_every_refusal_a_bad_request(answer: Answer, memory: Event, head: Head) -> None:
    if creates(head) and answer.status > 401:
        answer.status = 400


@mutant("RWS-HTTP-006", on="sse")
def nests_stream_errors(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "error":
        inner = {name: event[name] for name in ("code", "message", "param")}
        event = {"type": "error", "sequence_number": event["sequence_number"], "error": inner}
    yield event


@mutant("RWS-HTTP-015", on="answer")
def has_another_code_for_nothing_there(answer: Answer, memory: Event, head: Head) -> None:
    if answer.status == 404 and not head.path.startswith(RESPONSES):
        answer.json = {"error": {**answer.json["error"], "code": "unknown_url"}}


@mutant("RWS-HTTP-021", on="head")
def wants_no_key_over_http(head: Head, memory: Event) -> None:
    if not head.get("upgrade") and not head.get("authorization"):
        head.headers.append(("Authorization", f"Bearer {KEYS[0]}"))


@mutant("RWS-HTTP-022", on="answer")
def calls_an_unknown_path_bad(answer: Answer, memory: Event, head: Head) -> None:
    if answer.status == 404 and not head.path.startswith(RESPONSES):
        answer.status = 400


@mutant("RWS-HTTP-023", on="answer")
def does_not_say_what_is_allowed(answer: Answer, memory: Event, head: Head) -> None:
    answer.set("allow", None)


@mutant("RWS-HTTP-024", on="answer")
def calls_a_large_body_bad(answer: Answer, memory: Event, head: Head) -> None:
    if answer.status == 413:
        answer.status = 400


# --- stored responses -------------------------------------------------------------------------------


@attrs.define
class _Blind(MemoryStore):
    """Keeps things in ``other``, and finds no response there."""

    other: Store = attrs.field(kw_only=True)

    async def put(self, tenant: int, node: Any) -> None:
        await self.other.put(tenant, node)

    async def get(self, tenant: int, key: str) -> Any:
        return None if key.startswith("resp_") else await self.other.get(tenant, key)


class _BlindWebSockets(App):
    async def websocket(self, socket: WebSocket, request: Request) -> None:
        rooms = attrs.evolve(self.rooms, store=_Blind(other=self.rooms.store))
        await App(rooms).websocket(socket, request)


@server_mutant("RWS-HTTP-009")
def goes_on_from_what_the_connection_holds_only(server: Server) -> None:
    server.app = _BlindWebSockets(server.app.rooms)  # type: ignore[attr-defined]


@mutant("RWS-HTTP-010", on="answer")
def shows_no_response_to_read(answer: Answer, memory: Event, head: Head) -> None:
    if reads(head) and answer.status == 200:
        answer.status = 404


@attrs.define
class _Apart(MemoryStore):
    """Keeps things here, and finds those of ``other`` as well."""

    other: Store = attrs.field(kw_only=True)

    async def get(self, tenant: int, key: str) -> Any:
        return self.nodes.get((tenant, key)) or await self.other.get(tenant, key)

    async def delete(self, tenant: int, response_id: str) -> bool:
        here = self.nodes.pop((tenant, response_id), None)
        return here is not None or await self.other.delete(tenant, response_id)


@attrs.frozen
class _HttpApart(App):
    apart: _Apart

    async def http(self, request: Request, respond: Responder) -> None:
        await App(attrs.evolve(self.rooms, store=self.apart)).http(request, respond)


@server_mutant("RWS-HTTP-011")
def keeps_apart_what_http_made(server: Server) -> None:
    rooms = server.app.rooms  # type: ignore[attr-defined]
    server.app = _HttpApart(rooms, _Apart(other=rooms.store))


@mutant("RWS-HTTP-012", on="head")
def knows_no_parents_over_http(head: Head, memory: Event) -> None:
    if creates(head) and body(head).get("previous_response_id"):
        head.body = json.dumps({**body(head), "previous_response_id": "resp_of_nobody"}).encode()


@mutant("RWS-HTTP-013", on="answer")
def calls_an_unknown_response_bad(answer: Answer, memory: Event, head: Head) -> None:
    if answer.status == 404 and head.path.startswith(f"{RESPONSES}/"):
        answer.status = 400


class _Keeps(MemoryStore):
    __slots__ = ()

    async def delete(self, tenant: int, response_id: str) -> bool:
        return True


@server_mutant("RWS-HTTP-014")
def only_says_that_it_deletes(server: Server) -> None:
    server.app.rooms.store.__class__ = _Keeps  # type: ignore[attr-defined]


@mutant("RWS-HTTP-025", on="head")
def takes_all_keys_for_one(head: Head, memory: Event) -> None:
    if not head.get("upgrade"):
        head.headers = [(name, value.replace(KEYS[1], KEYS[0])) for name, value in head.headers]


# --- lists ------------------------------------------------------------------------------------------


@mutant("RWS-HTTP-016", on="answer")
def lists_items_in_a_bare_array(answer: Answer, memory: Event, head: Head) -> None:
    if reads(head, "input_items") and answer.status == 200:
        answer.json = answer.json["data"]


# Queries that are read as others: clause, name, what stands in the path, what is read.
MISREAD = (
    ("RWS-HTTP-017", "knows_one_order", "order=asc", "order=desc"),
    ("RWS-HTTP-018", "knows_no_limit", "limit=", "page_size="),
    ("RWS-HTTP-018", "lists_from_the_first_page_only", "after=", "from="),
    ("RWS-HTTP-028", "takes_any_order", "order=newest", "order=desc"),
    ("RWS-HTTP-028", "begins_anew_after_an_unknown_item", "after=msg_of_nobody", ""),
    ("RWS-HTTP-028", "takes_a_limit_for_the_nearest", "limit=101", "limit=100"),
)


def _misreads(old: str, new: str) -> Callable[[Head, Event], None]:
    def read(head: Head, memory: Event) -> None:
        head.path = head.path.replace(old, new)

    return read


for _clause, _name, _old, _new in MISREAD:
    _reader = _misreads(_old, _new)
    _reader.__name__ = _name
    mutant(_clause, on="head")(_reader)


@mutant("RWS-HTTP-026", on="answer")
def lists_the_last_turn_only(answer: Answer, memory: Event, head: Head) -> None:
    if reads(head, "input_items") and answer.status == 200:
        answer.json = {**answer.json, "data": answer.json["data"][-1:]}


@mutant("RWS-HTTP-019", on="answer")
def lists_models_in_a_bare_array(answer: Answer, memory: Event, head: Head) -> None:
    if head.path == "/v1/models" and answer.status == 200:
        answer.json = answer.json["data"]


@mutant("RWS-HTTP-020", on="head")
def wants_a_key_for_its_health(head: Head, memory: Event) -> None:
    if head.path == "/healthz" and not head.get("authorization"):
        head.path = "/v1/models"
