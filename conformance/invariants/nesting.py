"""ORD: how items and parts open and close, and how they are numbered."""

from __future__ import annotations

from typing import Final

from conformance.invariants.base import IN_RESPONSE, Invariant, Says
from conformance.invariants.common import (
    CREATED,
    added,
    done,
    is_new,
    live,
    named_item,
    of_part,
    s2c,
)
from conformance.state import Event, Item, Part, whole

_CONTENT: Final = ("output_text", "refusal", "reasoning_text")
_DELTAS: Final = tuple(f"response.{kind}.delta" for kind in _CONTENT)
_DONES: Final = tuple(f"response.{kind}.done" for kind in _CONTENT)

_MESSAGE: Final = CREATED + added("message")
_TEXT: Final = {"part": {"type": "output_text", "text": ""}}
_PART: Final = _MESSAGE + of_part("content_part.added", **_TEXT)
_DELTA: Final = of_part("output_text.delta", delta="x")
_REASONING: Final = CREATED + added("reasoning")
_SHORT: Final = {"part": {"type": "summary_text", "text": ""}}
_SUMMARY: Final = _REASONING + of_part("reasoning_summary_part.added", **_SHORT)


class AddedBeforeAll(Invariant):
    clause = "RWS-ORD-008"
    on = (IN_RESPONSE,)
    good = _MESSAGE + _DELTA
    bad = CREATED + _DELTA

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None:
            return None
        name = event.get("item_id")
        if event.type == "response.output_item.done":
            return event.item is not None or "response.output_item.done of an item that was not added"
        if not isinstance(name, str):
            return None
        return name in response.by_id or f"{event.type} about {name}, which was not added"


class IndexFromZero(Invariant):
    clause = "RWS-ORD-010"
    on = ("response.output_item.added",)
    good = _MESSAGE
    bad = CREATED + added("message", index=1)

    def see(self, event: Event) -> Says:
        response, index = live(event), whole(event.get("output_index"))
        if response is None or index is None or not is_new(event, response):
            return None
        wanted = len(response.items)
        return index == wanted or f"output_index {index}, expected {wanted}"


class IndexStays(Invariant):
    clause = "RWS-ORD-011"
    on = (IN_RESPONSE,)
    good = _MESSAGE + done("message")
    bad = _MESSAGE + done("message", index=1)

    def see(self, event: Event) -> Says:
        item, index = named_item(event), whole(event.get("output_index"))
        if item is None or item.index is None or index is None or event.type == "response.output_item.added":
            return None
        return index == item.index or f"output_index {index} for an item that has {item.index}"


class NothingAfterDone(Invariant):
    clause = "RWS-ORD-012"
    on = (IN_RESPONSE,)
    good = _MESSAGE + done("message")
    bad = _MESSAGE + done("message") + _DELTA

    def see(self, event: Event) -> Says:
        item = named_item(event)
        if item is None or event.type == "response.output_item.added":
            return None
        if item.done is not None:
            return f"{event.type} after the response.output_item.done of {item.id}"
        return True if event.type == "response.output_item.done" else None


class PartAddedBeforeDeltas(Invariant):
    clause = "RWS-ORD-013"
    on = _DELTAS
    good = _PART + _DELTA
    bad = _MESSAGE + _DELTA

    def see(self, event: Event) -> Says:
        if named_item(event) is None or whole(event.get("content_index")) is None:
            return None
        part = event.part
        return (part is not None and part.added) or f"{event.type} before the part was added"


def _opened(item: Item, kind: str) -> int:
    return sum(part.added for part in item.of_kind(kind))


class PartsFromZero(Invariant):
    clause = "RWS-ORD-014"
    on = ("response.content_part.added",)
    good = _PART
    bad = _MESSAGE + s2c("content_part.added", item_id="i1", output_index=0, content_index=1, **_TEXT)

    def see(self, event: Event) -> Says:
        item, index = named_item(event), whole(event.get("content_index"))
        if item is None or index is None:
            return None
        wanted = _opened(item, "content")
        return index == wanted or f"content_index {index}, expected {wanted}"


class TextDoneInPlace(Invariant):
    clause = "RWS-ORD-015"
    on = (*_DELTAS, *_DONES, "response.content_part.done")
    good = _PART + of_part("output_text.done", text="") + of_part("content_part.done", **_TEXT)
    bad = _PART + of_part("content_part.done", **_TEXT)

    def see(self, event: Event) -> Says:
        part = event.part
        if named_item(event) is None or part is None or not part.added:
            return None
        if event.type == "response.content_part.done":
            kind = part.body.get("type") if isinstance(part.body, dict) else None
            ended = part.done is not None or part.closed is not None or kind not in _CONTENT
            return None if ended else f"the part is done, and there was no response.{kind}.done"
        if part.done is not None or part.closed is not None:
            return f"{event.type} after the end of the text"
        return True if event.type in _DONES else None


class PartsDone(Invariant):
    clause = "RWS-ORD-016"
    on = ("response.output_item.done",)
    good = _PART + of_part("content_part.done", **_TEXT) + done("message")
    bad = _PART + done("message")

    def see(self, event: Event) -> Says:
        item = event.item if live(event) else None
        if item is None or item.done is not None or not _opened(item, "content"):
            return None
        left = [part.index for part in item.of_kind("content") if part.added and part.closed is None]
        return not left or f"no response.content_part.done for part {left[0]}"


class PartsDoneOnce(Invariant):
    clause = "RWS-ORD-016"
    on = ("response.content_part.done",)
    good = _PART + of_part("content_part.done", **_TEXT)
    bad = good + of_part("content_part.done", **_TEXT)

    def see(self, event: Event) -> Says:
        part = event.part if live(event) else None
        if part is None or (event.item is not None and event.item.done is not None):
            return None
        return part.closed is None or f"a second response.content_part.done for part {part.index}"


class SummaryInOrder(Invariant):
    clause = "RWS-ORD-017"
    on = (
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
    )
    good = (
        _SUMMARY
        + of_part("reasoning_summary_text.done", text="")
        + of_part("reasoning_summary_part.done", **_SHORT)
    )
    bad = _SUMMARY + of_part("reasoning_summary_part.done", **_SHORT)

    def see(self, event: Event) -> Says:
        kind = event.type
        if kind == "response.output_item.done":
            return self._all_closed(event.item if live(event) else None)
        if named_item(event) is None or whole(event.get("summary_index")) is None:
            return None
        ends = kind == "response.reasoning_summary_part.done"
        now = _stage(event.part)
        if now != ("done" if ends else "added"):
            return f"{kind}, and the part is {now}"
        return True if ends else None

    @staticmethod
    def _all_closed(item: Item | None) -> Says:
        parts = [] if item is None or item.done is not None else item.of_kind("summary")
        return None if all(part.closed is not None for part in parts) else "a summary part has no part.done"


def _stage(part: Part | None) -> str:
    if part is None or not part.added:
        return "not added"
    if part.closed is not None:
        return "closed"
    return "added" if part.done is None else "done"


class SummaryFromZero(Invariant):
    clause = "RWS-ORD-018"
    on = ("response.reasoning_summary_part.added",)
    good = _SUMMARY
    bad = _REASONING + s2c(
        "reasoning_summary_part.added", item_id="i1", output_index=0, summary_index=1, **_SHORT
    )

    def see(self, event: Event) -> Says:
        item, index = named_item(event), whole(event.get("summary_index"))
        if item is None or index is None:
            return None
        wanted = _opened(item, "summary")
        return index == wanted or f"summary_index {index}, expected {wanted}"


class CompactingInsideItsItem(Invariant):
    """Outside of an item altogether is told by RWS-ORD-008 and RWS-ORD-012."""

    clause = "RWS-ORD-023"
    on = ("response.compaction.compacting",)
    good = CREATED + added("compaction") + s2c("compaction.compacting", item_id="i1", output_index=0)
    bad = _MESSAGE + s2c("compaction.compacting", item_id="i1", output_index=0)

    def see(self, event: Event) -> Says:
        item = named_item(event)
        if item is None or item.done is not None:
            return None
        return item.type == "compaction" or f"response.compaction.compacting for a {item.type}"
