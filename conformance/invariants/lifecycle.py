"""ORD: how a response begins and ends."""

from __future__ import annotations

from conformance.invariants.base import IN_RESPONSE, Invariant, Says
from conformance.state import TERMINAL, Event


class CreatedFirst(Invariant):
    clause = "RWS-ORD-001"
    on = (IN_RESPONSE,)
    good = """
        > {"type":"response.create"}
        < {"type":"response.created","response":{"id":"r1"}}
    """
    bad = """
        > {"type":"response.create"}
        < {"type":"response.in_progress","response":{"id":"r1"}}
    """

    def see(self, event: Event) -> Says:
        if event.response is None or event.response.events:
            return None
        return event.type == "response.created" or f"the response begins with {event.type}"


class NothingAfterTheEnd(Invariant):
    clause = "RWS-ORD-004"
    on = (IN_RESPONSE,)
    good = """
        < {"type":"response.created","response":{"id":"r1"}}
        < {"type":"response.completed","response":{"id":"r1"}}
    """
    bad = """
        < {"type":"response.created","response":{"id":"r1"}}
        < {"type":"response.completed","response":{"id":"r1"}}
        < {"type":"response.output_text.delta","item_id":"m1","output_index":0,"content_index":0,"delta":"x"}
    """

    def see(self, event: Event) -> Says:
        response = event.response
        if response is None:
            return None
        if response.terminal is None:
            return True if event.type in TERMINAL else None
        if event.type in TERMINAL or event.type == "response.done":
            return None  # told by RWS-ORD-003 and RWS-ORD-005
        return f"{event.type} after {response.terminal}"


class NoDone(Invariant):
    clause = "RWS-ORD-005"
    on = ("response.done", *sorted(TERMINAL))
    good = """< {"type":"response.completed","response":{"id":"r1"}}"""
    bad = """< {"type":"response.done","response":{"id":"r1"}}"""

    def see(self, event: Event) -> Says:
        return event.type != "response.done" or "response.done was sent"
