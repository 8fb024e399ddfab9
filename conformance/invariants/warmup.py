"""WRM: a create that only prepares. Its answer is found where the creates of a lane are answered in order."""

from __future__ import annotations

from typing import Final

from conformance.invariants.base import IN_RESPONSE, Invariant, Says
from conformance.invariants.common import CREATED, added, live, s2c
from conformance.state import TERMINAL, Event

_ASKED: Final = '> {"type":"response.create","generate":false,"input":[]}\n'


def _is_warmup(event: Event) -> bool:
    response = live(event)
    return bool(response and response.request and response.request.body.get("generate") is False)


class NothingGenerated(Invariant):
    clause = "RWS-WRM-001"
    on = (IN_RESPONSE,)
    kind = "behaviour"
    good = _ASKED + CREATED + s2c("completed")
    bad = _ASKED + CREATED + added("message")

    def see(self, event: Event) -> Says:
        if not _is_warmup(event):
            return None
        if event.get("output_index") is not None or event.get("item_id") is not None:
            return f"{event.type} in a warm-up"
        return True if event.type in TERMINAL else None


class NeverInProgress(Invariant):
    clause = "RWS-WRM-013"
    on = (IN_RESPONSE,)
    good = _ASKED + CREATED + s2c("completed")
    bad = _ASKED + CREATED + s2c("in_progress", response={"id": "r1"})

    def see(self, event: Event) -> Says:
        if not _is_warmup(event):
            return None
        if event.type == "response.in_progress":
            return "response.in_progress in a warm-up"
        return True if event.type in TERMINAL else None
