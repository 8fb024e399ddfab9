"""Mutants of LIM: the limit, signs of life, bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from conformance import raw
from conformance.mutants.harness import core_mutant, middle_mutant, mutant, option_mutant, server_mutant
from conformance.mutants.middle import Middle, Out
from conformance.state import TERMINAL
from responses_ref.protocol.actions import Action, Close
from responses_ref.protocol.connection import Connection
from responses_ref.server.accept import Server

Event = dict[str, Any]
FOR_EVER = 1e9


def tells_the_limit(event: Event) -> bool:
    return bool(event.get("error", {}).get("code") == "websocket_connection_limit_reached")


# --- the limit --------------------------------------------------------------------------------------


class _NeverCloses(Connection):
    __slots__ = ()

    def do(self, action: Action) -> None:
        if not (isinstance(action, Close) and action.reason == "connection limit"):
            super().do(action)


@core_mutant("RWS-LIM-001")
def only_announces_its_limit(core: Connection) -> None:
    core.__class__ = _NeverCloses


@mutant("RWS-LIM-002")
def closes_at_the_limit_without_a_word(event: Event, memory: Event) -> Iterable[Out]:
    if not tells_the_limit(event):
        yield event


@mutant("RWS-LIM-003")
def tells_the_limit_to_a_lane(event: Event, memory: Event) -> Iterable[Out]:
    yield {**event, "stream_id": "main"} if tells_the_limit(event) else event


@mutant("RWS-LIM-004")
def keeps_the_limit_to_itself(event: Event, memory: Event) -> Iterable[Out]:
    if tells_the_limit(event):
        message = event["error"]["message"].replace("2 seconds", "some time")
        event = {**event, "error": {**event["error"], "message": message}}
    yield event


@middle_mutant("RWS-LIM-006")
class AnswersNothingAfterTheLimit(Middle):
    def event(self, event: Event) -> Iterable[Out]:
        self.memory["over"] = self.memory.get("over") or tells_the_limit(event)
        return [event]

    def request(self, message: Any) -> Iterable[Out]:
        return [] if self.memory.get("over") else [message]


class _HastyAtTheLimit(Connection):
    __slots__ = ()

    def deadline(self, name: str, *, now: float) -> list[Action]:
        if name == "lifetime":
            self.settings = attrs.evolve(self.settings, grace=0.01)
        return super().deadline(name, now=now)


@core_mutant("RWS-LIM-008")
def cuts_responses_off_at_the_limit(core: Connection) -> None:
    core.__class__ = _HastyAtTheLimit


@mutant("RWS-LIM-007")
def calls_the_end_of_the_grace_a_deadline(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.failed" and event["response"]["error"]["code"] == "server_error":
        error = {**event["response"]["error"], "code": "deadline_exceeded"}
        event = {**event, "response": {**event["response"], "error": error}}
    yield event


@mutant("RWS-LIM-009")
def says_nothing_after_the_last_response(event: Event, memory: Event) -> Iterable[Out]:
    memory["answered"] = memory.get("answered") or event["type"] in TERMINAL
    if not (tells_the_limit(event) and memory["answered"]):
        yield event


@middle_mutant("RWS-LIM-009")
class TellsTheLimitAgainAtTheEnd(Middle):
    def event(self, event: Event) -> Iterable[Out]:
        if tells_the_limit(event):
            message = event["error"]["message"].replace("1 seconds", "now")
            self.memory["again"] = {**event, "error": {**event["error"], "message": message}}
        told = event["type"] in TERMINAL and "again" in self.memory
        return [event, self.memory["again"]] if told else [event]


# --- signs of life ----------------------------------------------------------------------------------


@mutant("RWS-LIM-012", on="frame")
def answers_pings_without_their_payload(frame: raw.Frame, memory: Event) -> Iterable[Out]:
    payload = b"" if frame.op == raw.PONG else frame.payload
    yield raw.frame(frame.op, payload, masked=False)


option_mutant("RWS-LIM-011", "never_gives_a_sign_of_life", heartbeat_seconds=FOR_EVER)


@mutant("RWS-LIM-010")
def has_its_own_sign_of_life(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.created":
        memory.clear()
    elif event["type"] == "response.in_progress" and "running" in memory:
        memory["own"] = memory.get("own", 0) + 1
        event = {"type": "reference:still_there"}
    elif event["type"] == "response.in_progress":
        memory["running"] = True
    if "sequence_number" in event:
        event = {**event, "sequence_number": event["sequence_number"] - memory.get("own", 0)}
    yield event


option_mutant("RWS-LIM-013", "lets_connections_idle", idle_seconds=FOR_EVER)


class _CountsFromTheOpening(Connection):
    """What a client sends does not wind the clock."""

    __slots__ = ()

    def receive(self, text: str, *, now: float) -> list[Action]:
        touched = self.touched
        actions = super().receive(text, now=now)
        self.touched = touched
        return actions


@core_mutant("RWS-LIM-014")
def takes_a_talking_client_for_idle(core: Connection) -> None:
    core.__class__ = _CountsFromTheOpening


# --- bounds -----------------------------------------------------------------------------------------


@core_mutant("RWS-LIM-005")
def lets_sixty_three_creates_wait(core: Connection) -> None:
    core.settings = attrs.evolve(core.settings, max_queued=63)


@core_mutant("RWS-LIM-005")
def lets_any_number_of_creates_wait(core: Connection) -> None:
    core.settings = attrs.evolve(core.settings, max_queued=10_000)


@mutant("RWS-LIM-020", on="request")
def reads_any_number_of_values(message: Any, memory: Event) -> Iterable[Out]:
    yield {**message, "x": message["x"][:9]} if "x" in message else message


@mutant("RWS-LIM-020", on="request")
def reads_half_as_many_values(message: Any, memory: Event) -> Iterable[Out]:
    yield {**message, "x": message["x"] * 2} if isinstance(message.get("x"), list) else message


@mutant("RWS-LIM-020", on="request")
def counts_what_stands_in_strings(message: Any, memory: Event) -> Iterable[Out]:
    yield {**message, "x": [0] * len(message["x"])} if "x" in message else message


@server_mutant("RWS-LIM-019")
def takes_one_connection_more(server: Server) -> None:
    server.limits = attrs.evolve(server.limits, max_connections=server.limits.max_connections + 1)


class _ForgetsWhenItIsFull(Connection):
    __slots__ = ()

    def refuse(self, why: Any, lane: str | None = None) -> None:
        if why.code == "too_many_queued_responses":
            self.cache.entries.clear()
        super().refuse(why, lane)


@core_mutant("RWS-LIM-016")
def drops_the_parent_of_what_had_no_room(core: Connection) -> None:
    core.__class__ = _ForgetsWhenItIsFull
