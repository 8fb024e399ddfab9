"""Mutants of CTX, CAC and WRM: what a connection remembers.

Most of them leave the server as it is and name another response than the client did.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from conformance.mutants.harness import core_mutant, middle_mutant, mutant
from conformance.mutants.middle import Middle, Out
from conformance.mutants.tools import (
    ENDS,
    is_create,
    numbered,
    of_type,
    spoiled,
)
from responses_ref.protocol.cache import Cache, Node
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.lanes import Turn

Json = dict[str, Any]
NOBODY: Final = "resp_of_nobody"


class Watching(Middle):
    """Knows the responses that have ended on the connection: their ids, newest last, and their status.

    A create that is sent on with another parent is answered with the one that it named.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ended: dict[str, str] = {}
        self.failed: list[str] = []
        self.instead: dict[str | None, str] = {}

    def event(self, event: Json) -> Iterable[Out]:
        resource: Json = event.get("response") or {}
        if event["type"] in ENDS:
            self.ended[resource["id"]] = resource["status"]
            if resource["status"] == "failed":
                self.failed.append(resource["id"])
        parent = resource.get("previous_response_id")
        if resource and parent in self.instead:
            event = {**event, "response": {**resource, "previous_response_id": self.instead[parent]}}
        return [event]

    def request(self, message: Any) -> Iterable[Out]:
        if is_create(message):
            named = message.get("previous_response_id")
            parent = message["previous_response_id"] = self.parent(message, named)
            self.instead = {} if named is None or parent == named else {parent: named}
        return [message]

    def parent(self, message: Json, named: str | None) -> str | None:
        """Which response the server is to continue, instead of the one that was named."""
        return named

    @property
    def newest(self) -> str | None:
        return next(reversed(self.ended), None)


# --- The context. ---


class _ForgetsOutput(Connection):
    __slots__ = ()

    def node(self, turn: Turn) -> Node:
        return attrs.evolve(super().node(turn), output=(), output_tokens=0)


@core_mutant("RWS-CTX-001")
def output_is_forgotten(core: Connection) -> None:
    core.__class__ = _ForgetsOutput


@middle_mutant("RWS-CTX-002")
class OnlyTheLastTurn(Watching):
    """Continues from a copy of the turn before, without what that turn had continued."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: dict[str, list[Any]] = {}
        self.asked: list[Any] = []
        self.depth: dict[str | None, int] = {}

    def event(self, event: Json) -> Iterable[Out]:
        if event["type"] in ENDS:
            name = event["response"]["id"]
            self.turns[name] = [*self.asked, *event["response"]["output"]]
            self.depth[name] = self.depth.get(event["response"]["previous_response_id"], 0) + 1
        return super().event(event)

    def request(self, message: Any) -> Iterable[Out]:
        if is_create(message):
            text = message["input"]
            self.asked = text if isinstance(text, list) else [{"role": "user", "content": text}]
            parent = message.get("previous_response_id")
            if self.depth.get(parent, 0) > 1 and not of_type(message, "function_call_output"):
                warm = {**message, "generate": False, "input": self.turns[parent]}
                message = {**warm, "generate": True, "input": [*warm["input"], *self.asked]}
                message["previous_response_id"] = None
                self.instead = {None: str(parent)}
            else:
                self.instead = {}
        return [message]


@middle_mutant("RWS-CTX-003")
class AlwaysTheSameConversation(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        return named or self.newest


@middle_mutant("RWS-CTX-004")
class IncompleteIsNoParent(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        return NOBODY if self.ended.get(named or "") == "incomplete" else named


@middle_mutant("RWS-CTX-005")
class FailedIsNoParent(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        return NOBODY if named in self.failed else named


class _ForgetsFailedOutput(Connection):
    __slots__ = ()

    def node(self, turn: Turn) -> Node:
        made = super().node(turn)
        failed = made.response.status == "failed"
        return attrs.evolve(made, output=(), output_tokens=0) if failed else made


@core_mutant("RWS-CTX-006")
def items_of_a_failed_response_are_forgotten(core: Connection) -> None:
    core.__class__ = _ForgetsFailedOutput


@mutant("RWS-CTX-007", on="request")
def compactions_are_refused(message: Any, memory: Json) -> Iterable[Out]:
    yield spoiled(message) if of_type(message, "compaction") else message


@mutant("RWS-CTX-008", on="request")
def compactions_are_changed(message: Any, memory: Json) -> Iterable[Out]:
    for item in of_type(message, "compaction"):
        item["encrypted_content"] = item["encrypted_content"].rstrip("=")
    yield message


@mutant("RWS-CTX-013", on="request")
def stored_needs_a_stored_parent(message: Any, memory: Json) -> Iterable[Out]:
    mixed = is_create(message) and message.get("store") and message.get("previous_response_id")
    yield spoiled(message) if mixed else message


# --- The cache. ---


@middle_mutant("RWS-CAC-001")
class NothingIsKept(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        return NOBODY if named in self.ended and isinstance(message["input"], str) else named


@core_mutant("RWS-CAC-003")
def one_memory_for_all(core: Connection) -> None:
    core.cache = Shared()


class Shared(Cache):
    """A cache whose entries are found from every connection."""

    everything: Final[dict[str, Node]] = {}

    def get(self, response_id: str) -> Node | None:
        return super().get(response_id) or self.everything.get(response_id)

    def ended(self, lane: str | None, node: Node) -> None:
        super().ended(lane, node)
        self.everything[node.response.id] = node


@middle_mutant("RWS-CAC-004")
class RejectedKeepsItsParent(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        return None if str(message["input"]).startswith("reject:") else named


@middle_mutant("RWS-CAC-005")
class InvalidInputKeepsItsParent(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        return None if of_type(message, "function_call_output") else named


@middle_mutant("RWS-CAC-006")
class EveryRefusalCosts(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        return self.newest if str(message["input"]).startswith("reject:") else named


@middle_mutant("RWS-CAC-007")
class OlderOnesAreKept(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        return self.newest if named in self.ended else named


@middle_mutant("RWS-CAC-010")
class FailingCostsTheParent(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        return NOBODY if self.failed and named not in self.failed else named


@middle_mutant("RWS-CAC-011")
class AllFailedOnesAreKept(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        return self.failed[-1] if named in self.failed else named


@middle_mutant("RWS-CAC-012")
class IncompleteDropsNothing(Watching):
    def parent(self, message: Json, named: str | None) -> str | None:
        incomplete = self.ended.get(self.newest or "") == "incomplete"
        return self.newest if incomplete and named in self.ended else named


# --- Warm-up. ---


def _is_warm_up(message: Any) -> bool:
    return is_create(message) and message.get("generate") is False


class WarmUps(Watching):
    """Knows which responses are warm-ups, where one create follows the other."""

    def __init__(self) -> None:
        super().__init__()
        self.warming = False
        self.warm: list[str] = []

    def request(self, message: Any) -> Iterable[Out]:
        self.warming = _is_warm_up(message)
        return super().request(message)

    def event(self, event: Json) -> Iterable[Out]:
        if self.warming and event["type"] in ENDS:
            self.warm.append(event["response"]["id"])
        return self.warmed(event) if self.warming else [event]

    def warmed(self, event: Json) -> Iterable[Out]:
        """What is sent instead of an event of a warm-up."""
        return [event]


@middle_mutant("RWS-WRM-001")
class WarmUpsSpeak(WarmUps):
    def warmed(self, event: Json) -> Iterable[Out]:
        if event["type"] != "response.completed":
            return [event]
        item = {"id": "msg_0", "type": "message", "role": "assistant", "content": []}
        added = {"output_index": 0, "item": {**item, "status": "in_progress"}, "sequence_number": 2}
        done = {"output_index": 0, "item": {**item, "status": "completed"}, "sequence_number": 3}
        resource = {**event["response"], "output": [done["item"]]}
        runs = {**event["response"], "status": "in_progress", "completed_at": None, "usage": None}
        return [
            {"type": "response.in_progress", "sequence_number": 1, "response": runs},
            {"type": "response.output_item.added", **added},
            {"type": "response.output_item.done", **done},
            {**event, "sequence_number": 4, "response": resource},
        ]


@middle_mutant("RWS-WRM-002")
class WarmUpsEndEarly(WarmUps):
    def warmed(self, event: Json) -> Iterable[Out]:
        if event["type"] == "response.completed":
            early = {"status": "incomplete", "completed_at": None}
            details = {"incomplete_details": {"reason": "max_messages"}}
            event = {
                **event,
                "type": "response.incomplete",
                "response": {**event["response"], **early, **details},
            }
        return [event]


@middle_mutant("RWS-WRM-004")
class WarmUpsAreNotKept(WarmUps):
    def parent(self, message: Json, named: str | None) -> str | None:
        told = message["input"] and isinstance(message["input"], list) and "type" not in message["input"][0]
        return NOBODY if told and named in self.warm else named


@mutant("RWS-WRM-005", on="request")
def warm_ups_read_nothing(message: Any, memory: Json) -> Iterable[Out]:
    yield {**message, "input": []} if _is_warm_up(message) else message


@mutant("RWS-WRM-006", on="request")
def an_empty_continuation_is_refused(message: Any, memory: Json) -> Iterable[Out]:
    empty = is_create(message) and message["input"] == [] and message.get("previous_response_id")
    yield spoiled(message) if empty else message


@middle_mutant("RWS-WRM-007")
class WarmUpsCost(WarmUps):
    def warmed(self, event: Json) -> Iterable[Out]:
        if event["type"] in ENDS:
            event["response"]["usage"]["output_tokens"] += 1
            event["response"]["usage"]["total_tokens"] += 1
        return [event]


@mutant("RWS-WRM-008", on="request")
def warm_up_by_default(message: Any, memory: Json) -> Iterable[Out]:
    if is_create(message) and message["input"] == "Say one word.":
        message.setdefault("generate", False)
    yield message


@mutant("RWS-WRM-009", on="request")
def prewarm_means_nothing(message: Any, memory: Json) -> Iterable[Out]:
    if is_create(message):
        message.pop("prompt_cache_options", None)
    yield message


@mutant("RWS-WRM-010", on="request")
def generates_all_the_same(message: Any, memory: Json) -> Iterable[Out]:
    if is_create(message):
        message.pop("generate", None)
    yield message


@mutant("RWS-WRM-011", on="request")
def an_empty_warm_up_is_refused(message: Any, memory: Json) -> Iterable[Out]:
    empty = _is_warm_up(message) and message["input"] == [] and "stream" not in message
    yield spoiled(message) if empty else message


@mutant("RWS-WRM-012", on="request")
def warm_ups_come_first(message: Any, memory: Json) -> Iterable[Out]:
    later = _is_warm_up(message) and message.get("previous_response_id")
    yield spoiled(message) if later else message


@middle_mutant("RWS-WRM-013")
class WarmUpsAreInProgress(WarmUps):
    def warmed(self, event: Json) -> Iterable[Out]:
        events = [event]
        if event["type"] == "response.created":
            events.append({**event, "type": "response.in_progress"})
        return numbered(self.memory, *events)
