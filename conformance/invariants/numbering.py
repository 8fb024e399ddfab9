"""SEQ: the numbers of events."""

from __future__ import annotations

from conformance.invariants.base import IN_RESPONSE, Invariant, Says
from conformance.state import Event


def number_of(event: Event) -> int | None:
    """The event's `sequence_number`, if it is one."""
    value = event.get("sequence_number")
    return value if type(value) is int else None


class StartsAtZero(Invariant):
    clause = "RWS-SEQ-005"
    on = ("response.created",)
    good = """
        < {"type":"response.created","sequence_number":0,"response":{"id":"r1"}}
        < {"type":"response.completed","sequence_number":1,"response":{"id":"r1"}}
        < {"type":"response.created","sequence_number":0,"response":{"id":"r2"}}
    """
    bad = """
        < {"type":"response.created","sequence_number":0,"response":{"id":"r1"}}
        < {"type":"response.completed","sequence_number":1,"response":{"id":"r1"}}
        < {"type":"response.created","sequence_number":2,"response":{"id":"r2"}}
    """

    def see(self, event: Event) -> Says:
        number = number_of(event)
        if number is None:
            return None
        return number == 0 or f"the response begins with number {number}"


class Increases(Invariant):
    clause = "RWS-SEQ-003"
    on = (IN_RESPONSE,)
    good = """
        < {"type":"response.created","sequence_number":0,"response":{"id":"r1"}}
        < {"type":"response.in_progress","sequence_number":4,"response":{"id":"r1"}}
    """
    bad = """
        < {"type":"response.created","sequence_number":3,"response":{"id":"r1"}}
        < {"type":"response.in_progress","sequence_number":3,"response":{"id":"r1"}}
    """

    def see(self, event: Event) -> Says:
        number, response = number_of(event), event.response
        if number is None or response is None or response.last_number is None or response.terminal:
            return None
        return number > response.last_number or f"{number} after {response.last_number}"


class StepsByOne(Invariant):
    clause = "RWS-SEQ-002"
    on = (IN_RESPONSE,)
    good = """
        < {"type":"response.created","sequence_number":5,"response":{"id":"r1"}}
        < {"type":"response.in_progress","sequence_number":6,"response":{"id":"r1"}}
    """
    bad = """
        < {"type":"response.created","sequence_number":0,"response":{"id":"r1"}}
        < {"type":"response.in_progress","sequence_number":2,"response":{"id":"r1"}}
    """

    def see(self, event: Event) -> Says:
        number, response = number_of(event), event.response
        if number is None or response is None or response.last_number is None or response.terminal:
            return None
        return number == response.last_number + 1 or f"{number} after {response.last_number}"
