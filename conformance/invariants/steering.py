"""STR: submissions and their answers. Which submission an answer is for shows in ids and in what it names."""

from __future__ import annotations

import json
from typing import Any, Final

from conformance.invariants.base import Invariant, Says
from conformance.invariants.common import CALLS, CREATED, LIFECYCLE, equal, live, s2c
from conformance.state import Event, Seen

STEER: Final = "> response.steer"
ACCEPTED: Final = "response.steer.accepted"
PENDING: Final = "response.steer.pending"
FAILED: Final = "response.steer.failed"

_SUBMITTED: Final = '> {"type":"response.steer","previous_response_id":"r1","input":"a"}\n'


def _answer(kind: str, name: str | None = "s1", response: str = "r1", **fields: Any) -> str:
    steer = {"previous_response_id": response, **({} if name is None else {"id": name})}
    return s2c(f"steer.{kind}", steer=steer, **fields)


_ACCEPTED: Final = CREATED + _SUBMITTED + _answer("accepted")
_COMPLETED: Final = s2c(
    "completed", response={"id": "r1", "output": [{"type": "function_call", "call_id": "c1"}]}
)
_STEERED: Final = (
    '> {"type":"response.create","input":"a"}\n'
    + _ACCEPTED
    + s2c("incomplete", response={"id": "r1", "incomplete_details": {"reason": "steered"}})
)


def _id(event: Event) -> str | None:
    name = event.get("steer", "id")
    return name if isinstance(name, str) else None


class _Once(Invariant):
    """Each id once in the events that are looked at."""

    kind = "behaviour"
    again = ""

    def see(self, event: Event) -> Says:
        name = _id(event)
        seen: Seen = self.memory(event.conn).setdefault("ids", Seen())
        return None if name is None else seen.add(name) or self.again.format(name)


class AcceptedByAnIdOfItsOwn(_Once):
    clause = "RWS-STR-002"
    on = (ACCEPTED,)
    good = _ACCEPTED
    bad = _ACCEPTED + _SUBMITTED + _answer("accepted")
    again = "the id {} was given before"


class AnswersWhatWasSubmitted(Invariant):
    """Each submission has one answer, which names what it named."""

    clause = "RWS-STR-003"
    on = (STEER, ACCEPTED, FAILED)
    kind = "behaviour"
    good = CREATED + _SUBMITTED + _answer("failed", None)
    bad = CREATED + _SUBMITTED + _answer("failed", None) + _answer("failed", None)

    def see(self, event: Event) -> Says:
        notes = self.memory(event.conn)
        waiting: list[str] = notes.setdefault("waiting", [])
        if event.dir == "c2s":
            notes["any"] = True
            waiting.append(json.dumps(event.get("previous_response_id"), sort_keys=True))
            return None
        if "any" not in notes:
            return None
        named = json.dumps(event.get("steer", "previous_response_id"), sort_keys=True)
        given: dict[str, str] = notes.setdefault("given", {})
        if name := _id(event):
            if event.type == FAILED:
                return equal(named, given[name], "the response") if name in given else None
            given[name] = named
        if named not in waiting:
            return f"{event.type} names {named[:80]}, which no unanswered steer has named"
        waiting.remove(named)
        return True


class FailedByAnIdThatWasGiven(Invariant):
    clause = "RWS-STR-010"
    on = (ACCEPTED, FAILED)
    kind = "behaviour"
    good = _ACCEPTED + _answer("failed")
    bad = CREATED + _SUBMITTED + _answer("failed")

    def see(self, event: Event) -> Says:
        name = _id(event)
        given: dict[str, bool] = self.memory(event.conn)
        if name is None:
            return None
        if event.type == ACCEPTED:
            given[name] = True
            return None
        return given.pop(name, False) or f"{name} was never accepted, or has failed before"


class PendingForWhatWasAccepted(Invariant):
    clause = "RWS-STR-019"
    on = (ACCEPTED, PENDING)
    kind = "behaviour"
    good = _ACCEPTED + _COMPLETED + _answer("pending")
    bad = _ACCEPTED + _answer("pending") + _COMPLETED

    def see(self, event: Event) -> Says:
        name, response = _id(event), event.get("steer", "previous_response_id")
        given: dict[str, Any] = self.memory(event.conn)
        if name is None or not isinstance(response, str):
            return None
        if event.type == ACCEPTED:
            given[name] = response
            return None
        if response in event.conn.open:
            return f"{response} has not been completed"
        return equal(response, given[name], "the response") if name in given else f"{name} was not accepted"


class PendingOnce(_Once):
    clause = "RWS-STR-020"
    on = (PENDING,)
    good = _ACCEPTED + _COMPLETED + _answer("pending")
    bad = good + _answer("pending")
    again = "{} is pending for the second time"


class PendingForTheOpenCalls(Invariant):
    clause = "RWS-STR-015"
    on = ("response.completed", PENDING)
    kind = "behaviour"
    good = _ACCEPTED + _COMPLETED + _answer("pending", required_input=[{"call_id": "c1"}])
    bad = _ACCEPTED + _COMPLETED + _answer("pending", required_input=[{"call_id": "c2"}])

    def see(self, event: Event) -> Says:
        if event.lane is None:
            return None
        notes = self.memory(event.lane)
        if event.type != PENDING:
            notes["ended"] = event.get("response", "id"), _call_ids(event.get("response", "output"), CALLS)
            return None
        name, calls = notes.get("ended", (None, []))
        if name is None or name != event.get("steer", "previous_response_id"):
            return None
        return equal(_call_ids(event.get("required_input")), calls, "required_input")


def _call_ids(items: Any, types: Any = None) -> list[Any]:
    found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [item.get("call_id") for item in found if types is None or str(item.get("type")) in types]


class FailedOutsideIsNumberedZero(Invariant):
    """What had been accepted and is given back later may still be numbered with its response."""

    clause = "RWS-STR-025"
    on = (FAILED,)
    kind = "order"
    good = _SUBMITTED + _answer("failed", None, sequence_number=0)
    bad = _SUBMITTED + _answer("failed", None, sequence_number=4)

    def see(self, event: Event) -> Says:
        if event.conn.open or _id(event) is not None:
            return None
        return equal(event.get("sequence_number"), 0, "the sequence_number")


class SucceedsTheSteered(Invariant):
    """A response that no create has asked for, behind one that was steered, goes on from that one."""

    clause = "RWS-STR-013"
    on = LIFECYCLE
    kind = "behaviour"
    good = _STEERED + s2c("created", response={"id": "r2", "previous_response_id": "r1"})
    bad = _STEERED + s2c("created", response={"id": "r2", "previous_response_id": "r0"})

    def see(self, event: Event) -> Says:
        response, lane = live(event), event.lane
        if response is None or lane is None:
            return None
        notes = self.memory(response)
        if event.type == "response.created" and lane.last and lane.last.notes.get("steered"):
            notes["parent"] = None if response.request or lane.pending else lane.last.id
        if notes.get("parent") is None:
            return None
        return equal(event.get("response", "previous_response_id"), notes["parent"], "previous_response_id")
