"""RES-012: what the response object repeats of the create that asked for it."""

from __future__ import annotations

from typing import Final

from conformance.invariants.base import Invariant, Says
from conformance.invariants.common import LIFECYCLE, equal, live, s2c
from conformance.state import Event

_ASKED: Final = '> {"type":"response.create","previous_response_id":"r0","input":[]}\n'


class EchoesItsParent(Invariant):
    clause = "RWS-RES-012"
    on = LIFECYCLE
    kind = "behaviour"
    good = _ASKED + s2c("created", response={"id": "r1", "previous_response_id": "r0"})
    bad = _ASKED + s2c("created", response={"id": "r1", "previous_response_id": None})

    def see(self, event: Event) -> Says:
        response = live(event)
        asked = response.request.body if response and response.request else {}
        parent = asked.get("previous_response_id")
        if not isinstance(parent, str):
            return None
        return equal(event.get("response", "previous_response_id"), parent, "previous_response_id")
