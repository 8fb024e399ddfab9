"""CRE: the creates of the default lane run one after another."""

from __future__ import annotations

from typing import Final

from conformance.invariants.base import IN_RESPONSE, Invariant, Says
from conformance.invariants.common import CREATED, live, s2c
from conformance.state import Event, Response

_EARLY: Final = frozenset(("response.created", "response.queued"))
_FIRST: Final = CREATED + s2c("in_progress", response={"id": "r1"})
_ENDS: Final = s2c("completed", response={"id": "r1"})
_SECOND: Final = s2c("created", response={"id": "r2"})
_RUNS: Final = s2c("in_progress", response={"id": "r2"})


def _others(event: Event, response: Response) -> list[Response]:
    """What else has started and not ended on the response's lane."""
    running = event.conn.open.values() if len(event.conn.open) > 1 else ()
    return [other for other in running if other is not response and other.lane is response.lane]


class OneAfterAnother(Invariant):
    """That a waiting create was already announced is no overlap: RWS-CRE-035."""

    clause = "RWS-CRE-032"
    on = (IN_RESPONSE,)
    transports = ("ws",)
    good = _FIRST + _ENDS + _SECOND + _RUNS
    bad = _FIRST + _SECOND + _RUNS + _ENDS

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None or response.lane.name is not None or event.type in _EARLY:
            return None
        for other in _others(event, response):
            if other.in_progress or other.items:
                return f"{event.type} of {response.id} while {other.id} runs"
        starts = event.type == "response.in_progress" and not response.in_progress
        return True if starts and response.lane.last is not None else None


class NotAnnounced(Invariant):
    clause = "RWS-CRE-035"
    on = tuple(sorted(_EARLY))
    transports = ("ws",)
    good = _FIRST + _ENDS + _SECOND
    bad = _FIRST + _SECOND

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None or response.lane.name is not None:
            return None
        others = _others(event, response)
        if others:
            return f"{event.type} of {response.id} while {others[0].id} runs"
        return True if response.lane.last is not None else None
