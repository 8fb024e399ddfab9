"""SEQ: which events have a number at all."""

from __future__ import annotations

from conformance.invariants.base import IN_RESPONSE, Invariant, Says
from conformance.state import Event, whole


class Numbered(Invariant):
    clause = "RWS-SEQ-001"
    on = (IN_RESPONSE,)
    kind = "schema"
    good = """
        < {"type":"response.created","sequence_number":0,"response":{"id":"r1"}}
    """
    bad = """
        < {"type":"response.created","response":{"id":"r1"}}
    """

    def see(self, event: Event) -> Says:
        return whole(event.get("sequence_number")) is not None or "no integer sequence_number"


class ProtocolErrorsAreNot(Invariant):
    """An error while a response runs may belong to it or not, so it is not judged."""

    clause = "RWS-SEQ-004"
    on = ("error",)
    transports = ("ws",)
    kind = "schema"
    good = """
        > {"type":"response.create","temperature":"hot"}
        < {"type":"error","status":400,"error":{"code":"invalid_type"}}
    """
    bad = """
        > {"type":"response.create","temperature":"hot"}
        < {"type":"error","status":400,"sequence_number":0,"error":{"code":"invalid_type"}}
    """

    def see(self, event: Event) -> Says:
        if event.lane is None or event.lane.open is not None or event.response is not None:
            return None
        assert event.body is not None
        return "sequence_number" not in event.body or "an error of no response has a sequence_number"
