"""FRM: what one message of the server looks like."""

from __future__ import annotations

from conformance.invariants.base import EVERY_EVENT, SERVER_TEXT, Invariant, Says
from conformance.state import Event


class NoBinary(Invariant):
    clause = "RWS-FRM-002"
    on = ("s2c binary", SERVER_TEXT)
    kind = "framing"
    good = """< {"type":"response.created"}"""
    bad = """<binary 7b7d"""

    def see(self, event: Event) -> Says:
        return event.kind == "text" or "a binary message"


class StringType(Invariant):
    clause = "RWS-FRM-003"
    on = (EVERY_EVENT,)
    kind = "schema"
    good = """< {"type":"response.created"}"""
    bad = """< {"type":1}"""

    def see(self, event: Event) -> Says:
        return event.type is not None or "no string `type`"
