"""Mutants of STR: steering."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from conformance.mutants.harness import core_mutant, mutant
from conformance.mutants.middle import Delay, Out
from responses_ref.protocol.actions import Action, CancelModel, Prepare
from responses_ref.protocol.batch import BatchPart, Finished, ItemDone
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.lanes import Outcome, Steer, Turn

Event = dict[str, Any]
STEER, FAILED = "response.steer", "response.steer.failed"


@mutant("RWS-STR-001", on="request")
def takes_texts_only(message: Any, memory: Event) -> Iterable[Out]:
    if message["type"] == STEER and isinstance(message["input"], list):
        message = {**message, "input": []}
    yield message


@mutant("RWS-STR-002")
def gives_one_id_to_all(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.steer.accepted":
        event = {**event, "steer": {**event["steer"], "id": "steer_one"}}
    yield event


@mutant("RWS-STR-003")
def accepts_without_saying_what(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == FAILED:
        event = {**event, "error": {**event["error"], "message": None}}
    yield event


@mutant("RWS-STR-004", on="request")
def takes_any_field(message: Any, memory: Event) -> Iterable[Out]:
    if message["type"] == STEER:
        message = {name: message[name] for name in ("type", "previous_response_id", "input")}
    yield message


@mutant("RWS-STR-005", on="request")
def takes_nothing_for_input(message: Any, memory: Event) -> Iterable[Out]:
    if message["type"] == STEER and message["input"] == []:
        message = {**message, "input": "nothing"}
    yield message


@mutant("RWS-STR-006")
def answers_on_the_default_lane(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == FAILED:
        event = {name: value for name, value in event.items() if name != "stream_id"}
    yield event


@mutant("RWS-STR-006")
def says_on_the_default_lane_that_input_waits(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.steer.pending":
        event = {name: value for name, value in event.items() if name != "stream_id"}
    yield event


@mutant("RWS-STR-007")
def takes_the_unknown_for_ended(event: Event, memory: Event) -> Iterable[Out]:
    yield _with_code(event, "response_not_found", "response_not_active")


@mutant("RWS-STR-008")
def calls_a_conversation_inactive(event: Event, memory: Event) -> Iterable[Out]:
    yield _with_code(event, "steering_not_supported", "response_not_active")


@mutant("RWS-STR-023")
def has_never_heard_of_the_completed(event: Event, memory: Event) -> Iterable[Out]:
    yield _with_code(event, "response_already_completed", "response_not_found")


@mutant("RWS-STR-024")
def calls_the_failed_completed(event: Event, memory: Event) -> Iterable[Out]:
    yield _with_code(event, "response_not_active", "response_already_completed")


def _with_code(event: Event, code: str, instead: str) -> Event:
    if event["type"] == FAILED and event["error"]["code"] == code:
        return {**event, "error": {**event["error"], "code": instead}}
    return event


@mutant("RWS-STR-009")
def returns_another_input(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == FAILED:
        event = {**event, "steer": {**event["steer"], "input": "something else"}}
    yield event


@mutant("RWS-STR-010")
def gives_the_refused_an_id(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == FAILED:
        event = {**event, "steer": {"id": "steer_refused", **event["steer"]}}
    yield event


class _StopsInTheMiddle(Connection):
    __slots__ = ()

    def receive(self, text: str, *, now: float) -> list[Action]:
        actions = super().receive(text, now=now)
        for turn in list(self.lanes.running.values()):
            if turn.steers and turn.state == "running" and turn.live.item:
                turn.live.feed([ItemDone("incomplete")])
                self.flush(turn)
                self.do(CancelModel(turn))
                self.finish(turn, Outcome("incomplete", "steered"))
        self._settle()
        return [*actions, *self._taken()]

    def _taken(self) -> list[Action]:
        taken, self.actions = self.actions, []
        return taken


@core_mutant("RWS-STR-011")
def stops_in_the_middle_of_an_item(core: Connection) -> None:
    core.__class__ = _StopsInTheMiddle


@mutant("RWS-STR-012")
def gives_another_reason(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.incomplete":
        event = {**event, "response": {**event["response"], "incomplete_details": {"reason": "max_messages"}}}
    yield event


class _NoSuccessor(Connection):
    __slots__ = ()

    def enqueue(self, name: str | None, raw: Any, size: int, carried: Sequence[Steer] = ()) -> Turn:
        turn = super().enqueue(name, raw, size, carried)
        if carried:
            self.lanes.waiting.remove(turn)
        return turn


@core_mutant("RWS-STR-013")
def creates_no_successor(core: Connection) -> None:
    core.__class__ = _NoSuccessor


class _BareSuccessor(Connection):
    __slots__ = ()

    def enqueue(self, name: str | None, raw: Any, size: int, carried: Sequence[Steer] = ()) -> Turn:
        return super().enqueue(name, {**raw, "tool_choice": None} if carried else raw, size, carried)


@core_mutant("RWS-STR-014")
def forgets_the_tool_choice(core: Connection) -> None:
    core.__class__ = _BareSuccessor


@mutant("RWS-STR-015")
def asks_for_one_output_only(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.steer.pending":
        event = {**event, "required_input": event["required_input"][:1]}
    yield event


@core_mutant("RWS-STR-016")
def lets_any_number_wait(core: Connection) -> None:
    core.settings = attrs.evolve(core.settings, max_steers=10_000)


@core_mutant("RWS-STR-017")
def lets_fifteen_wait(core: Connection) -> None:
    core.settings = attrs.evolve(core.settings, max_steers=15)


@mutant("RWS-STR-018")
def is_in_no_hurry(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.incomplete":
        yield Delay(3)
    yield event


@mutant("RWS-STR-019")
def does_not_say_that_it_waits(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] != "response.steer.pending":
        yield event


@mutant("RWS-STR-020")
def says_twice_that_it_waits(event: Event, memory: Event) -> Iterable[Out]:
    yield event
    if event["type"] == "response.steer.pending":
        yield {**event, "sequence_number": event["sequence_number"] + 1}


@mutant("RWS-STR-025")
def numbers_what_belongs_nowhere(event: Event, memory: Event) -> Iterable[Out]:
    unknown = event["type"] == FAILED and event["error"]["code"] == "response_not_found"
    yield {**event, "sequence_number": 3} if unknown else event


class _StopsAfterCalls(Connection):
    __slots__ = ()

    def model(self, turn: Turn, batch: Sequence[BatchPart], *, now: float) -> list[Action]:
        if turn.steers and turn.open_calls and batch and isinstance(batch[-1], Finished):
            batch = [*batch[:-1], Finished("steered")]
        return super().model(turn, batch, now=now)


@core_mutant("RWS-STR-026")
def interrupts_a_response_with_calls(core: Connection) -> None:
    core.__class__ = _StopsAfterCalls


class _SuccessorLast(Connection):
    __slots__ = ()

    def enqueue(self, name: str | None, raw: Any, size: int, carried: Sequence[Steer] = ()) -> Turn:
        turn = super().enqueue(name, raw, size, carried)
        if carried:
            self.lanes.waiting.append(self.lanes.waiting.pop(0))
        return turn


@core_mutant("RWS-STR-027")
def lets_the_successor_wait(core: Connection) -> None:
    core.__class__ = _SuccessorLast


class _SteersLast(Connection):
    __slots__ = ()

    def do(self, action: Action) -> None:
        if isinstance(action, Prepare) and action.turn.carried:
            turn, own = action.turn, action.turn.asked.input
            turn.create, turn.steered = attrs.evolve(turn.asked, input=(*own, *turn.steered)), ()
        super().do(action)


@core_mutant("RWS-STR-028")
def puts_the_steer_last(core: Connection) -> None:
    core.__class__ = _SteersLast


class _OldSettings(Connection):
    __slots__ = ()

    def do(self, action: Action) -> None:
        if isinstance(action, Prepare) and action.turn.carried and action.turn.parent:
            old = action.turn.parent.response.echo["parallel_tool_calls"]
            action.turn.create = attrs.evolve(action.turn.asked, parallel_tool_calls=old)
        super().do(action)


@core_mutant("RWS-STR-029")
def keeps_the_old_settings(core: Connection) -> None:
    core.__class__ = _OldSettings


class _SeesNoWaiting(Connection):
    __slots__ = ()

    def end(self, turn: Turn) -> None:
        waiting, self.lanes.waiting = self.lanes.waiting, []
        super().end(turn)
        self.lanes.waiting.extend(waiting)


@core_mutant("RWS-STR-030")
def overlooks_the_waiting_create(core: Connection) -> None:
    core.__class__ = _SeesNoWaiting


class _NewestFirst(Connection):
    __slots__ = ()

    def enqueue(self, name: str | None, raw: Any, size: int, carried: Sequence[Steer] = ()) -> Turn:
        return super().enqueue(name, raw, size, carried[::-1])


@core_mutant("RWS-STR-031")
def turns_the_order_round(core: Connection) -> None:
    core.__class__ = _NewestFirst


class _CompletedForGood(Connection):
    __slots__ = ()

    def end(self, turn: Turn) -> None:
        if turn.outcome.status == "completed" and not turn.open_calls:
            turn.steers = []
        super().end(turn)


@core_mutant("RWS-STR-032")
def forgets_steers_at_completion(core: Connection) -> None:
    core.__class__ = _CompletedForGood


@mutant("RWS-STR-033")
def keeps_silent_about_the_lost(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] != FAILED or event["error"]["code"] != "successor_creation_failed":
        yield event
