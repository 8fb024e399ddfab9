"""Mutants of APP: the append prototype."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from conformance.mutants.harness import core_mutant, middle_mutant, mutant
from conformance.mutants.middle import Drop, Head, Middle, Out
from responses_ref.protocol.actions import Action, SetDeadline
from responses_ref.protocol.cache import Prepared
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.lanes import Turn

Event = dict[str, Any]


@mutant("RWS-APP-001", on="head")
def overlooks_the_header(head: Head, memory: Event) -> None:
    head.headers = [(name, value) for name, value in head.headers if name.lower() != "openai-beta"]


@mutant("RWS-APP-002")
def completes_instead_of_pausing(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.done":
        yield {
            **event,
            "type": "response.completed",
            "response": {**event["response"], "status": "completed"},
        }
        yield Drop()
    yield event


@mutant("RWS-APP-003")
def pauses_with_nothing_in_hand(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.done":
        event = {**event, "response": {**event["response"], "status": "completed"}}
    yield event


@mutant("RWS-APP-004", on="request")
def wakes_up_to_nothing(message: Any, memory: Event) -> Iterable[Out]:
    if message["type"] == "response.append":
        message = {**message, "input": []}
    yield message


@middle_mutant("RWS-APP-005")
class NeverCompletes(Middle):
    def head(self, head: Head) -> Head:
        self.memory["append"] = "2026-02-04" in (head.get("openai-beta") or "")
        return head

    def event(self, event: Event) -> Iterable[Out]:
        if event["type"] == "response.completed" and self.memory["append"]:
            waiting = {**event["response"], "status": "in_progress"}
            event = {**event, "type": "response.done", "response": waiting}
        return [event]


@mutant("RWS-APP-006", on="request")
def takes_echoes_for_news(message: Any, memory: Event) -> Iterable[Out]:
    if message["type"] == "response.append":
        renamed = [
            {**item, "content": [{"type": "reasoning_text", "text": "other"}]}
            if item["type"] == "reasoning"
            else item
            for item in message["input"]
        ]
        message = {**message, "input": renamed}
    yield message


@mutant("RWS-APP-007", on="request")
def takes_one_output_at_a_time(message: Any, memory: Event) -> Iterable[Out]:
    if message["type"] == "response.append":
        message = {**message, "input": message["input"][:1]}
    yield message


@middle_mutant("RWS-APP-008")
class BeginsAnew(Middle):
    def event(self, event: Event) -> Iterable[Out]:
        self.memory["ended"] = event["type"] == "response.completed"
        return [event]

    def request(self, message: Any) -> Iterable[Out]:
        if self.memory.get("ended") and message["type"] == "response.append":
            settings = {"parallel_tool_calls": False, "model": "scripted"}
            message = {**message, **settings, "type": "response.create"}
        return [message]


class _ForgetsSettings(Connection):
    __slots__ = ()

    def enqueue(self, name: str | None, raw: Any, size: int, carried: Any = ()) -> Turn:
        if self.last is not None:
            raw = {**raw, "parallel_tool_calls": None}
        return super().enqueue(name, raw, size, carried)


@core_mutant("RWS-APP-009")
def forgets_the_settings(core: Connection) -> None:
    core.__class__ = _ForgetsSettings


@mutant("RWS-APP-010")
def ends_a_bad_append_incomplete(event: Event, memory: Event) -> Iterable[Out]:
    response = event.get("response", {})
    if event["type"] == "response.failed" and response["error"]["code"].startswith("tool_"):
        ended = {"status": "incomplete", "error": None, "incomplete_details": {"reason": "max_messages"}}
        event = {**event, "type": "response.incomplete", "response": {**response, **ended}}
    yield event


class _TakesItsTime(Connection):
    __slots__ = ()

    def receive(self, text: str, *, now: float) -> list[Action]:
        running = any(turn.state == "running" for turn in self.lanes.running.values())
        return [] if running and "response.append" in text else super().receive(text, now=now)


@core_mutant("RWS-APP-012")
def overlooks_an_early_append(core: Connection) -> None:
    core.__class__ = _TakesItsTime


class _NothingToSay(Connection):
    __slots__ = ()

    def receive(self, text: str, *, now: float) -> list[Action]:
        first = self.last is None and not self.lanes.busy and "response.append" in text
        return [] if first else super().receive(text, now=now)


@core_mutant("RWS-APP-013")
def is_silent_when_there_is_nothing_to_append_to(core: Connection) -> None:
    core.__class__ = _NothingToSay


class _NoWordForIt(Connection):
    __slots__ = ()

    def finish(self, turn: Turn, outcome: Any) -> None:
        if outcome.reason == "superseded":
            outcome = attrs.evolve(outcome, reason="max_messages")
        super().finish(turn, outcome)


@core_mutant("RWS-APP-014")
def gives_another_reason_for_superseding(core: Connection) -> None:
    core.__class__ = _NoWordForIt


class _WaitsInSilence(Connection):
    __slots__ = ()

    def prepared(self, turn: Turn, result: Prepared, *, now: float) -> list[Action]:
        actions = super().prepared(turn, result, now=now)
        return [] if turn.kept and result.open_calls else actions


@core_mutant("RWS-APP-015")
def waits_for_the_rest_in_silence(core: Connection) -> None:
    core.__class__ = _WaitsInSilence


@mutant("RWS-APP-016")
def takes_waiting_for_idling(event: Event, memory: Event) -> Iterable[Out]:
    yield event
    if event["type"] == "response.done":
        yield Drop()


class _NoGrace(Connection):
    __slots__ = ()

    def do(self, action: Action) -> None:
        if isinstance(action, SetDeadline) and action.name == "grace":
            paused = any(turn.state == "paused" for turn in self.lanes.running.values())
            action = SetDeadline("grace", self.now) if paused else action
        super().do(action)


@core_mutant("RWS-APP-017")
def gives_a_paused_response_no_grace(core: Connection) -> None:
    core.__class__ = _NoGrace


class _CountsTwice(Connection):
    __slots__ = ()

    def prepared(self, turn: Turn, result: Prepared, *, now: float) -> list[Action]:
        turn.input_tokens += turn.kept_tokens
        return super().prepared(turn, result, now=now)


@core_mutant("RWS-APP-018")
def counts_its_own_output_as_input(core: Connection) -> None:
    core.__class__ = _CountsTwice


class _RefusesByAnError(Connection):
    __slots__ = ()

    def refuse_turn(self, turn: Turn, why: Any, on_lane: bool = True) -> None:
        self.speaks_append = False
        super().refuse_turn(turn, why, on_lane)
        self.speaks_append = True


@core_mutant("RWS-APP-019")
def refuses_by_an_error(core: Connection) -> None:
    core.__class__ = _RefusesByAnError
