"""Mutants of CRE: the fields of a create, what is refused, and creates that wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from conformance.mutants.harness import core_mutant, middle_mutant, mutant, option_mutant, server_mutant
from conformance.mutants.middle import Middle, Out
from conformance.state import TERMINAL
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.lanes import Lanes, Turn
from responses_ref.protocol.resource import Create
from responses_ref.server.accept import Server
from responses_ref.store import MemoryStore

Event = dict[str, Any]
CREATE = "response.create"
KNOWN = {field.name for field in attrs.fields(Create)} | {"type", "stream", "stream_options", "stream_id"}


def creates(message: Any) -> bool:
    return isinstance(message, dict) and message.get("type") == CREATE


def refused(message: Event) -> Event:
    """A create that the server refuses when its turn comes."""
    return {**message, "model": None}


def without(message: Event, *names: str) -> Event:
    return {name: value for name, value in message.items() if name not in names}


# --- what is read -----------------------------------------------------------------------------------


def carries_over(message: Any, memory: Event, names: tuple[str, ...]) -> Iterable[Out]:
    """Give a create that goes on from another the settings that only the first one had."""
    if creates(message):
        if message.get("previous_response_id"):
            message = {**memory, **message}
        memory.update({name: message[name] for name in names if name in message})
    yield message


@mutant("RWS-CRE-017", on="request")
def carries_instructions_over(message: Any, memory: Event) -> Iterable[Out]:
    return carries_over(message, memory, ("instructions",))


@mutant("RWS-CRE-027", on="request")
def carries_tools_over(message: Any, memory: Event) -> Iterable[Out]:
    return carries_over(message, memory, ("tools",))


@mutant("RWS-CRE-001", on="request")
def reads_the_fields_inside_response(message: Any, memory: Event) -> Iterable[Out]:
    if creates(message):
        message = {**message, **message.get("response", {})}
    yield message


@mutant("RWS-CRE-016", on="request")
def refuses_unknown_fields(message: Any, memory: Event) -> Iterable[Out]:
    yield refused(message) if creates(message) and message.keys() - KNOWN else message


@mutant("RWS-CRE-002", on="request")
def refuses_messages_with_parts(message: Any, memory: Event) -> Iterable[Out]:
    items = message.get("input") if creates(message) else None
    parts = isinstance(items, list) and any(isinstance(item.get("content"), list) for item in items)
    yield refused(message) if parts else message


@mutant("RWS-CRE-003", on="request")
def puts_a_message_before_a_string(message: Any, memory: Event) -> Iterable[Out]:
    if creates(message) and isinstance(message.get("input"), str):
        own = {"role": "developer", "content": "Please answer."}
        message = {**message, "input": [own, {"role": "user", "content": message["input"]}]}
    yield message


@middle_mutant("RWS-CRE-004")
class GoesOnFromTheLastResponseByNull(Middle):
    def event(self, event: Event) -> Iterable[Out]:
        if event["type"] == "response.completed":
            self.memory["last"] = event["response"]["id"]
        return [event]

    def request(self, message: Any) -> Iterable[Out]:
        if creates(message) and message.get("previous_response_id", "") is None:
            message = {**message, "previous_response_id": self.memory.get("last")}
        return [message]


@mutant("RWS-CRE-014", on="request")
def stores_only_when_asked(message: Any, memory: Event) -> Iterable[Out]:
    yield {"store": False, **message} if creates(message) else message


@mutant("RWS-CRE-006", on="request")
def refuses_stream_true(message: Any, memory: Event) -> Iterable[Out]:
    yield refused(message) if creates(message) and message.get("stream") is True else message


@mutant("RWS-CRE-007", on="request")
def refuses_stream_false(message: Any, memory: Event) -> Iterable[Out]:
    yield refused(message) if creates(message) and message.get("stream") is False else message


@mutant("RWS-CRE-015", on="request")
def refuses_stream_options(message: Any, memory: Event) -> Iterable[Out]:
    yield refused(message) if creates(message) and "stream_options" in message else message


@middle_mutant("RWS-CRE-008")
class SaysItRunsInTheBackground(Middle):
    def request(self, message: Any) -> Iterable[Out]:
        if creates(message) and message.get("background"):
            self.memory["background"] = True
            message = without(message, "background")
        return [message]

    def event(self, event: Event) -> Iterable[Out]:
        if "response" in event and "background" in self.memory:
            event = {**event, "response": {**event["response"], "background": True}}
        return [event]


@mutant("RWS-CRE-028", on="request")
def runs_the_background_in_the_foreground(message: Any, memory: Event) -> Iterable[Out]:
    yield without(message, "background") if creates(message) else message


@mutant("RWS-CRE-009", on="request")
def refuses_background_false(message: Any, memory: Event) -> Iterable[Out]:
    yield refused(message) if creates(message) and message.get("background") is False else message


# --- what is refused --------------------------------------------------------------------------------


@mutant("RWS-CRE-010", on="request")
def passes_over_a_temperature_in_words(message: Any, memory: Event) -> Iterable[Out]:
    words = creates(message) and isinstance(message.get("temperature"), str)
    yield without(message, "temperature") if words else message


@mutant("RWS-CRE-011")
def names_the_outermost_field_only(event: Event, memory: Event) -> Iterable[Out]:
    param = event.get("error", {}).get("param") if event["type"] == "error" else None
    if param:
        event = {**event, "error": {**event["error"], "param": param.partition("[")[0]}}
    yield event


@mutant("RWS-CRE-022", on="request")
def has_a_model_by_default(message: Any, memory: Event) -> Iterable[Out]:
    yield {"model": "scripted", **message} if creates(message) else message


option_mutant("RWS-CRE-030", "serves_any_model", models=())


@mutant("RWS-CRE-023", on="request")
def rounds_large_numbers(message: Any, memory: Event) -> Iterable[Out]:
    limit = message.get("max_output_tokens") if creates(message) else None
    if isinstance(limit, int) and limit > 2**53:
        message = {**message, "max_output_tokens": 2**53}
    yield message


@mutant("RWS-CRE-013", on="request")
def refuses_the_sixteenth_pair(message: Any, memory: Event) -> Iterable[Out]:
    full = creates(message) and len(message.get("metadata") or ()) == 16
    yield refused(message) if full else message


@mutant("RWS-CRE-012", on="request")
def prefers_the_parent_to_the_conversation(message: Any, memory: Event) -> Iterable[Out]:
    both = creates(message) and message.get("previous_response_id") and message.get("conversation")
    yield without(message, "conversation") if both else message


@mutant("RWS-CRE-031", on="request")
def refuses_unknown_tools(message: Any, memory: Event) -> Iterable[Out]:
    tools = message.get("tools") if creates(message) else None
    known = all(tool.get("type") in ("function", "custom") for tool in tools or ())
    yield message if known else refused(message)


# --- other types ------------------------------------------------------------------------------------


@mutant("RWS-CRE-018", on="request")
def takes_a_message_without_a_type_for_a_create(message: Any, memory: Event) -> Iterable[Out]:
    yield {"type": CREATE, **message} if isinstance(message, dict) else message


@mutant("RWS-CRE-018", on="request")
def passes_over_unknown_types(message: Any, memory: Event) -> Iterable[Out]:
    if not (isinstance(message, dict) and message.get("type") == "response.frobnicate"):
        yield message


@mutant("RWS-CRE-019", on="request")
def obeys_a_cancel(message: Any, memory: Event) -> Iterable[Out]:
    if not (isinstance(message, dict) and message.get("type") == "response.cancel"):
        yield message


class _PassesOverSteers(Connection):
    __slots__ = ()

    def _handler(self, kind: Any) -> Any:
        unknown = kind == "response.steer" and not self.settings.offers("steer")
        return (lambda *_: None) if unknown else super()._handler(kind)


@core_mutant("RWS-CRE-036")
def passes_over_a_steer(core: Connection) -> None:
    core.__class__ = _PassesOverSteers


# --- creates that wait ------------------------------------------------------------------------------


class _LastComeFirstServed(Lanes):
    """As a stack: of the creates of the default lane the newest runs next."""

    __slots__ = ()

    def next_ready(self) -> Turn | None:
        self.waiting.reverse()
        turn = super().next_ready()
        self.waiting.reverse()
        return turn


@core_mutant("RWS-CRE-032")
def runs_the_newest_create_next(core: Connection) -> None:
    core.lanes.__class__ = _LastComeFirstServed


class Counting(Middle):
    """Knows how many creates of the default lane have not ended: ``unfinished``."""

    unfinished = 0

    def request(self, message: Any) -> Iterable[Out]:
        self.unfinished += creates(message) and "stream_id" not in message
        return [message]

    def event(self, event: Event) -> Iterable[Out]:
        refusal = event["type"] == "error" and "sequence_number" not in event
        ends = (event["type"] in TERMINAL or refusal) and "stream_id" not in event
        self.unfinished = max(0, self.unfinished - ends)
        return [event]


@middle_mutant("RWS-CRE-033")
class RefusesASecondCreate(Counting):
    def request(self, message: Any) -> Iterable[Out]:
        busy = self.unfinished and creates(message) and "stream_id" not in message
        super().request(message)
        return [{**message, "type": "too_early"} if busy else message]


@core_mutant("RWS-CRE-034")
def has_lanes_all_the_same(core: Connection) -> None:
    core.settings = attrs.evolve(core.settings, profiles=core.settings.profiles | {"lanes"})
    core.lanes.max_in_flight = core.settings.max_in_flight


@middle_mutant("RWS-CRE-035")
class AnnouncesTheNextCreateTooEarly(Counting):
    """Sends the end of a response behind the beginning of the next one."""

    def event(self, event: Event) -> Iterable[Out]:
        super().event(event)
        held = self.memory.pop("held", None)
        if held is None and event["type"] == "response.completed" and self.unfinished:
            self.memory["held"] = event
            return []
        return [event] if held is None else [event, held]


@middle_mutant("RWS-CRE-020")
class AnswersInTheOrderOfArrivalOnly(Middle):
    """Keeps what it has to say of other messages until the running response has ended."""

    def event(self, event: Event) -> Iterable[Out]:
        kept: list[Out] = self.memory.setdefault("kept", [])
        running = self.memory.get("running", 0)
        self.memory["running"] = running + (event["type"] == "response.created") - (event["type"] in TERMINAL)
        if event["type"] == "error" and running:
            kept.append(event)
            return []
        if self.memory["running"]:
            return [event]
        self.memory["kept"] = []
        return [event, *kept]


@mutant("RWS-CRE-038", on="request")
def judges_the_model_first(message: Any, memory: Event) -> Iterable[Out]:
    if creates(message) and message.get("model") == "nobody":
        message = without(message, "temperature")
    yield message


class _NoConversations(MemoryStore):
    """Keeps responses, and forgets which of them is the newest of a conversation."""

    __slots__ = ()

    async def get(self, tenant: int, key: str) -> Any:
        return self.nodes.get((tenant, key))


@server_mutant("RWS-CRE-037")
def forgets_conversations(server: Server) -> None:
    server.app.rooms.store.__class__ = _NoConversations  # type: ignore[attr-defined]
