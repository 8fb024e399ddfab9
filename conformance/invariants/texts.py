"""ITM: what was streamed in pieces is told whole in the end, and it is the same."""

from __future__ import annotations

from typing import Any, Final

from conformance.invariants.base import Invariant, Says
from conformance.invariants.common import (
    CREATED,
    added,
    done,
    equal,
    live,
    named_item,
    of_part,
    s2c,
    text_of,
)
from conformance.state import Event

_TEXT: Final = {"type": "output_text", "text": "ab"}
_STREAMED: Final = (
    CREATED
    + added("message")
    + of_part("content_part.added", part={"type": "output_text", "text": ""})
    + of_part("output_text.delta", delta="a")
    + of_part("output_text.delta", delta="b")
)
_SUMMARY: Final = (
    CREATED
    + added("reasoning")
    + of_part("reasoning_summary_part.added", part={"type": "summary_text", "text": ""})
    + of_part("reasoning_summary_text.delta", delta="ab")
)


class PartsBeginEmpty(Invariant):
    clause = "RWS-ITM-008"
    on = ("response.content_part.added", "response.reasoning_summary_part.added")
    good = _STREAMED
    bad = CREATED + added("message") + of_part("content_part.added", part=_TEXT)

    def see(self, event: Event) -> Says:
        text = text_of(event.get("part"))
        return None if text is None else equal(text, "", "the new part's text")


class TextDone(Invariant):
    clause = "RWS-ITM-011"
    on = ("response.output_text.done", "response.refusal.done", "response.reasoning_text.done")
    good = _STREAMED + of_part("output_text.done", text="ab")
    bad = _STREAMED + of_part("output_text.done", text="a")

    def see(self, event: Event) -> Says:
        text = text_of(event.body)
        if named_item(event) is None or event.part is None or text is None:
            return None
        return equal(text, event.part.text, "the text")


class PartDone(Invariant):
    clause = "RWS-ITM-013"
    on = ("response.content_part.done",)
    good = _STREAMED + of_part("content_part.done", part=_TEXT)
    bad = _STREAMED + of_part("content_part.done", part={"type": "output_text", "text": "ba"})

    def see(self, event: Event) -> Says:
        text = text_of(event.get("part"))
        if named_item(event) is None or event.part is None or text is None:
            return None
        return equal(text, event.part.text, "the part's text")


class SummaryDone(Invariant):
    clause = "RWS-ITM-015"
    on = ("response.reasoning_summary_text.done", "response.reasoning_summary_part.done")
    good = _SUMMARY + of_part("reasoning_summary_text.done", text="ab")
    bad = _SUMMARY + of_part("reasoning_summary_text.done", text="")

    def see(self, event: Event) -> Says:
        text = text_of(event.get("part") or event.body)
        if named_item(event) is None or event.part is None or text is None:
            return None
        return equal(text, event.part.text, "the summary's text")


def _streamed(event: Event, kind: str) -> list[tuple[Any, str]] | None:
    """Type and text of the item's parts as they were streamed; None if one was not added properly."""
    assert event.item is not None
    parts = event.item.of_kind(kind)
    if any(not isinstance(part.body, dict) for part in parts):
        return None
    return [(part.body.get("type"), part.text) for part in parts]


def _told(event: Event, field: str) -> list[tuple[Any, str | None]] | None:
    """Type and text of the parts in a field of the finished item; a field that is null has none."""
    parts = event.get("item", field)
    if parts is None:
        return []
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        return None
    return [(part.get("type"), text_of(part)) for part in parts]


def _agree(event: Event, kind: str, field: str) -> Says:
    """None where the tables or the order of events tell the fault."""
    streamed, told = _streamed(event, kind), _told(event, field)
    if streamed is None or told is None or any(text is None for _, text in told):
        return None
    return equal(told, streamed, f"the item's {field}")


class MessageDone(Invariant):
    clause = "RWS-ITM-014"
    on = ("response.output_item.done",)
    good = _STREAMED + done("message", content=[_TEXT])
    bad = _STREAMED + done("message", content=[])

    def see(self, event: Event) -> Says:
        if not live(event) or event.item is None or event.item.type != "message":
            return None
        return _agree(event, "content", "content")


class ReasoningDone(Invariant):
    clause = "RWS-ITM-018"
    on = ("response.output_item.done",)
    good = _SUMMARY + done("reasoning", summary=[{"type": "summary_text", "text": "ab"}])
    bad = _SUMMARY + done("reasoning", summary=[{"type": "summary_text", "text": "abc"}])

    def see(self, event: Event) -> Says:
        if not live(event) or event.item is None or event.item.type != "reasoning":
            return None
        summary = _agree(event, "summary", "summary")
        return summary if isinstance(summary, str) else _agree(event, "content", "content")


class NoPadding(Invariant):
    clause = "RWS-ITM-020"
    on = (
        "response.output_text.delta",
        "response.refusal.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
    )
    kind = "behaviour"
    _WISH: Final = '> {"type":"response.create","stream_options":{"include_obfuscation":false}}\n'
    good = _WISH + _STREAMED
    bad = _WISH + CREATED + added("message") + s2c("output_text.delta", item_id="i1", obfuscation="x")

    def see(self, event: Event) -> Says:
        response = live(event)
        options = response.request.body.get("stream_options") if response and response.request else None
        if not isinstance(options, dict) or options.get("include_obfuscation") is not False:
            return None
        return event.get("obfuscation") is None or "a delta has obfuscation"
