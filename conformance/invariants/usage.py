"""RES: the token counts of a response. Counts of a wrong type are told by the tables."""

from __future__ import annotations

from typing import Any, Final

from conformance.invariants.base import Invariant, Says
from conformance.invariants.common import CREATED, ENDS, added, equal, live, s2c
from conformance.state import Event, Response, whole

_IN, _OUT, _TOTAL = ("input_tokens",), ("output_tokens",), ("total_tokens",)
_CACHED: Final = ("input_tokens_details", "cached_tokens")
_WRITTEN: Final = ("input_tokens_details", "cache_write_tokens")
_REASONED: Final = ("output_tokens_details", "reasoning_tokens")


def _counts(event: Event, *paths: tuple[str, ...]) -> list[int] | None:
    """The counts at those places, if the response has not ended before and all of them are there."""
    counts = [whole(event.get("response", "usage", *path)) for path in paths]
    found = [count for count in counts if count is not None]
    return found if live(event) and len(found) == len(paths) else None


def _ends(**usage: Any) -> str:
    return s2c("completed", response={"id": "r1", "usage": usage})


class UsageAtTheEnd(Invariant):
    clause = "RWS-RES-014"
    on = ("response.completed", "response.incomplete")
    kind = "schema"
    good = CREATED + _ends(input_tokens=1)
    bad = CREATED + s2c("completed", response={"id": "r1", "usage": None})

    def see(self, event: Event) -> Says:
        if not live(event) or event.get("response") is None:
            return None
        return isinstance(event.get("response", "usage"), dict) or f"no usage in {event.type}"


class Total(Invariant):
    clause = "RWS-RES-015"
    on = ENDS
    kind = "behaviour"
    good = CREATED + _ends(input_tokens=1, output_tokens=2, total_tokens=3)
    bad = CREATED + _ends(input_tokens=1, output_tokens=2, total_tokens=4)

    def see(self, event: Event) -> Says:
        counts = _counts(event, _IN, _OUT, _TOTAL)
        return None if counts is None else equal(counts[2], counts[0] + counts[1], "total_tokens")


class NoUsageBefore(Invariant):
    clause = "RWS-RES-017"
    on = ("response.created", "response.queued", "response.in_progress")
    kind = "behaviour"
    good = s2c("created", response={"id": "r1", "usage": None})
    bad = s2c("created", response={"id": "r1", "usage": {"input_tokens": 1}})

    def see(self, event: Event) -> Says:
        if not live(event):
            return None
        return event.get("response", "usage") is None or f"usage is given in {event.type}"


class CachedIsPartOfInput(Invariant):
    clause = "RWS-RES-018"
    on = ENDS
    kind = "behaviour"
    good = CREATED + _ends(input_tokens=5, input_tokens_details={"cached_tokens": 5})
    bad = CREATED + _ends(input_tokens=5, input_tokens_details={"cached_tokens": 6})

    def see(self, event: Event) -> Says:
        counts = _counts(event, _CACHED, _IN)
        if counts is None:
            return None
        return counts[0] <= counts[1] or f"{counts[0]} cached_tokens of {counts[1]} input_tokens"


class ReasoningIsPartOfOutput(Invariant):
    clause = "RWS-RES-019"
    on = ENDS
    kind = "behaviour"
    good = CREATED + _ends(output_tokens=5, output_tokens_details={"reasoning_tokens": 5})
    bad = CREATED + _ends(output_tokens=5, output_tokens_details={"reasoning_tokens": 6})

    def see(self, event: Event) -> Says:
        counts = _counts(event, _REASONED, _OUT)
        if counts is None:
            return None
        return counts[0] <= counts[1] or f"{counts[0]} reasoning_tokens of {counts[1]} output_tokens"


class WrittenIsTheRest(Invariant):
    clause = "RWS-RES-025"
    on = ENDS
    kind = "behaviour"
    good = CREATED + _ends(input_tokens=5, input_tokens_details={"cached_tokens": 2, "cache_write_tokens": 3})
    bad = CREATED + _ends(input_tokens=5, input_tokens_details={"cached_tokens": 2, "cache_write_tokens": 0})

    def see(self, event: Event) -> Says:
        counts = _counts(event, _WRITTEN, _IN, _CACHED)
        return None if counts is None else equal(counts[0], counts[1] - counts[2], "cache_write_tokens")


def _deltas(response: Response, kind: str = "") -> int:
    """How many deltas the response has had, in items of that type or in all."""
    items = [item for item in response.items if not kind or item.type == kind]
    return sum(len(part.deltas) for item in items for part in item.parts.values())


_SPOKEN: Final = (
    CREATED
    + added("reasoning")
    + s2c("reasoning_summary_text.delta", item_id="i1", output_index=0, summary_index=0, delta="a")
)


class OneTokenOneDelta(Invariant):
    """A compaction item has tokens and no deltas. A warm-up's tokens are told by RWS-WRM-007."""

    clause = "RWS-RES-026"
    on = ENDS
    kind = "behaviour"
    good = _SPOKEN + _ends(output_tokens=1)
    bad = _SPOKEN + _ends(output_tokens=2)

    def see(self, event: Event) -> Says:
        response, counts = live(event), _counts(event, _OUT)
        if response is None or counts is None or not response.items:
            return None
        if any(item.type == "compaction" for item in response.items):
            return None
        return equal(counts[0], _deltas(response), "output_tokens")


class ReasoningDeltas(Invariant):
    clause = "RWS-RES-027"
    on = ENDS
    kind = "behaviour"
    good = _SPOKEN + _ends(output_tokens_details={"reasoning_tokens": 1})
    bad = _SPOKEN + _ends(output_tokens_details={"reasoning_tokens": 0})

    def see(self, event: Event) -> Says:
        response, counts = live(event), _counts(event, _REASONED)
        if response is None or counts is None:
            return None
        return equal(counts[0], _deltas(response, "reasoning"), "reasoning_tokens")
