"""Mutants of LAN: names, order, limits, forks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.mutants.harness import core_mutant, middle_mutant, mutant
from conformance.mutants.middle import Middle, Out
from responses_ref.protocol.actions import CancelModel
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.lanes import SERVER_ERROR, Lanes, Turn

Event = dict[str, Any]


@mutant("RWS-LAN-001", on="request")
def refuses_long_names(message: Any, memory: Event) -> Iterable[Out]:
    if isinstance(message, dict) and len(str(message.get("stream_id", ""))) > 64:
        message = {**message, "stream_id": "not legal"}
    yield message


@mutant("RWS-LAN-002", on="request")
def takes_names_with_spaces(message: Any, memory: Event) -> Iterable[Out]:
    if isinstance(message, dict) and message.get("stream_id") == "a b":
        message = {**message, "stream_id": "a-b"}
    yield message


@mutant("RWS-LAN-003")
def forgets_the_lane_at_the_end(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.completed":
        event = {name: value for name, value in event.items() if name != "stream_id"}
    yield event


@mutant("RWS-LAN-004")
def names_the_default_lane(event: Event, memory: Event) -> Iterable[Out]:
    yield {"stream_id": "default", **event}


@mutant("RWS-LAN-003")
def forgets_the_lane_of_refusals(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "response.refusal.delta":
        event.pop("stream_id", None)
    yield event


@mutant("RWS-LAN-003")
def forgets_the_lane_of_stream_errors(event: Event, memory: Event) -> Iterable[Out]:
    if event["type"] == "error" and "sequence_number" in event:
        event.pop("stream_id", None)
    yield event


@mutant("RWS-LAN-004")
def names_the_default_lane_in_failures(event: Event, memory: Event) -> Iterable[Out]:
    yield {"stream_id": "x", **event} if event["type"] == "response.failed" else event


class _LastComeFirstServed(Lanes):
    __slots__ = ()

    def next_ready(self) -> Turn | None:
        self.waiting.reverse()
        turn = super().next_ready()
        self.waiting.reverse()
        return turn


@core_mutant("RWS-LAN-005")
def serves_the_last_first(core: Connection) -> None:
    core.lanes.__class__ = _LastComeFirstServed


@core_mutant("RWS-LAN-006")
def runs_one_lane_at_a_time(core: Connection) -> None:
    core.lanes.max_in_flight = 1


class _DefaultLaneAlone(Lanes):
    __slots__ = ()

    def next_ready(self) -> Turn | None:
        unnamed = self.waiting and self.waiting[0].lane.name is None
        return None if unnamed and self.running else super().next_ready()


@core_mutant("RWS-LAN-007")
def keeps_the_default_lane_waiting(core: Connection) -> None:
    core.lanes.__class__ = _DefaultLaneAlone


@core_mutant("RWS-LAN-009")
def runs_fifteen(core: Connection) -> None:
    core.lanes.max_in_flight = 15


@middle_mutant("RWS-LAN-010")
class RefusesTheSeventeenth(Middle):
    def event(self, event: Event) -> Iterable[Out]:
        step = {"response.created": 1, "response.completed": -1}.get(event["type"], 0)
        self.memory["running"] = self.memory.get("running", 0) + step
        return [event]

    def request(self, message: Any) -> Iterable[Out]:
        if self.memory.get("running", 0) >= 16:
            message = {**message, "model": None}
        return [message]


@core_mutant("RWS-LAN-011")
def runs_seventeen(core: Connection) -> None:
    core.lanes.max_in_flight = 17


@core_mutant("RWS-LAN-012")
def allows_thirty_one_names(core: Connection) -> None:
    core.lanes.max_lanes = 31


@core_mutant("RWS-LAN-013")
def allows_any_number_of_names(core: Connection) -> None:
    core.lanes.max_lanes = 10_000


@mutant("RWS-LAN-014")
def hides_the_refused_name(event: Event, memory: Event) -> Iterable[Out]:
    if event.get("error", {}).get("code") == "websocket_stream_limit_reached":
        event = {name: value for name, value in event.items() if name != "stream_id"}
    yield event


class _CountsTheDefaultLane(Lanes):
    __slots__ = ()

    def has_room_for(self, name: str | None) -> bool:
        return name in self.named or len(self.named) < self.max_lanes


@core_mutant("RWS-LAN-015")
def counts_the_default_lane(core: Connection) -> None:
    core.lanes.__class__ = _CountsTheDefaultLane


class _CountsRefusedNames(Connection):
    __slots__ = ()

    def refuse(self, why: Any, lane: str | None = None) -> None:
        self.lanes.max_lanes -= why.code == "invalid_stream_id"
        super().refuse(why, lane)


@core_mutant("RWS-LAN-016")
def counts_refused_names(core: Connection) -> None:
    core.__class__ = _CountsRefusedNames


class _FullForGood(Connection):
    __slots__ = ()

    def refuse(self, why: Any, lane: str | None = None) -> None:
        super().refuse(why, lane)
        if why.code == "websocket_stream_limit_reached":
            self.lanes.named = {None: self.lanes.named[None]}
            self.lanes.max_lanes = -1


@core_mutant("RWS-LAN-017")
def refuses_all_lanes_after_the_limit(core: Connection) -> None:
    core.__class__ = _FullForGood


@middle_mutant("RWS-LAN-018")
class GoesOnUnasked(Middle):
    def event(self, event: Event) -> Iterable[Out]:
        if event["type"] == "response.completed":
            self.memory[event.get("stream_id", "")] = event["response"]["id"]
        return [event]

    def request(self, message: Any) -> Iterable[Out]:
        before = self.memory.get(message.get("stream_id", ""))
        return [{"previous_response_id": before, **message}]


@middle_mutant("RWS-LAN-019")
class KnowsNoForks(Middle):
    def event(self, event: Event) -> Iterable[Out]:
        if event["type"] == "response.completed":
            self.memory[event["response"]["id"]] = event.get("stream_id")
        return [event]

    def request(self, message: Any) -> Iterable[Out]:
        parent = message.get("previous_response_id")
        if parent in self.memory and self.memory[parent] != message.get("stream_id"):
            message = {**message, "previous_response_id": "resp_of_another_lane"}
        return [message]


class _LooksItsParentUpAgain(Connection):
    __slots__ = ()

    def end(self, turn: Turn) -> None:
        super().end(turn)
        for other in list(self.lanes.running.values()):
            parent = other.parent
            if other.state == "running" and parent and self.cache.get(parent.response.id) is None:
                self.do(CancelModel(other))
                self.finish(other, SERVER_ERROR)


@core_mutant("RWS-LAN-020")
def loses_a_forks_parent(core: Connection) -> None:
    core.__class__ = _LooksItsParentUpAgain


class _AnyRefusalDrops(Connection):
    __slots__ = ()

    def refuse_turn(self, turn: Turn, why: Any, on_lane: bool = True) -> None:
        self.cache.entries.pop(str(turn.raw.get("previous_response_id")), None)
        super().refuse_turn(turn, why, on_lane)


@core_mutant("RWS-LAN-021")
def drops_the_parent_of_a_refused_fork(core: Connection) -> None:
    core.__class__ = _AnyRefusalDrops


class _FailsTogether(Connection):
    __slots__ = ()

    def refuse_turn(self, turn: Turn, why: Any, on_lane: bool = True) -> None:
        super().refuse_turn(turn, why, on_lane)
        for other in list(self.lanes.running.values()):
            self.do(CancelModel(other))
            self.finish(other, SERVER_ERROR)


@core_mutant("RWS-LAN-023")
def fails_all_lanes_together(core: Connection) -> None:
    core.__class__ = _FailsTogether


class _OneMemoryForAll(Connection):
    __slots__ = ()

    def end(self, turn: Turn) -> None:
        super().end(turn)
        own = turn.lane.name
        self.cache.entries = {key: entry for key, entry in self.cache.entries.items() if entry.lane == own}


@core_mutant("RWS-LAN-026")
def remembers_one_lane_only(core: Connection) -> None:
    core.__class__ = _OneMemoryForAll


class _OneLine(Lanes):
    __slots__ = ()

    def next_ready(self) -> Turn | None:
        blocked = self.waiting and self.waiting[0].lane.active is not None
        return None if blocked else super().next_ready()


@core_mutant("RWS-LAN-027")
def lets_nobody_pass(core: Connection) -> None:
    core.lanes.__class__ = _OneLine
