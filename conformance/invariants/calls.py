"""FC: tool calls of the model."""

from __future__ import annotations

from typing import Any, Final

from conformance.invariants.base import Invariant, Says
from conformance.invariants.common import CALLS, CREATED, ENDS, added, done, equal, live, named_item, s2c
from conformance.state import Event, Seen

_CALL: Final = (
    CREATED
    + added("function_call", call_id="c1")
    + s2c("function_call_arguments.delta", item_id="i1", output_index=0, delta="{}")
)
_CUSTOM: Final = (
    CREATED
    + added("custom_tool_call", call_id="c1")
    + s2c("custom_tool_call_input.delta", item_id="i1", output_index=0, delta="ls")
)


def _is_call(event: Event) -> bool:
    return str(event.get("item", "type")) in CALLS


def _told_whole(event: Event, kind: str) -> Says:
    """Whether the call's text in a `.done` event or in the finished item is what was streamed."""
    field = CALLS[kind]
    item = event.item if live(event) else None
    if item is None or item.type != kind or item.done is not None:
        return None
    text = event.get("item", field) if event.type == "response.output_item.done" else event.get(field)
    part = item.parts.get((field, 0))
    if not isinstance(text, str):
        return None
    return equal(text, part.text if part else "", f"the call's {field}")


class Arguments(Invariant):
    clause = "RWS-FC-002"
    on = ("response.function_call_arguments.done", "response.output_item.done")
    good = _CALL + done("function_call", arguments="{}")
    bad = _CALL + done("function_call", arguments="")

    def see(self, event: Event) -> Says:
        return _told_whole(event, "function_call")


class Input(Invariant):
    clause = "RWS-FC-003"
    on = ("response.custom_tool_call_input.done", "response.output_item.done")
    good = _CUSTOM + s2c("custom_tool_call_input.done", item_id="i1", output_index=0, input="ls")
    bad = _CUSTOM + s2c("custom_tool_call_input.done", item_id="i1", output_index=0, input="ls -l")

    def see(self, event: Event) -> Says:
        return _told_whole(event, "custom_tool_call")


class TextDoneOnce(Invariant):
    """A call that was cut off need not say so before its item does."""

    clause = "RWS-FC-006"
    on = (
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.output_item.done",
    )
    good = (
        _CALL
        + s2c("function_call_arguments.done", item_id="i1", output_index=0, arguments="{}")
        + done("function_call")
    )
    bad = _CALL + done("function_call")

    def see(self, event: Event) -> Says:
        if event.type == "response.output_item.done":
            return self._item_done(event)
        if named_item(event) is None or event.part is None:
            return None
        return None if event.part.done is None else f"{event.type} after the call's .done event"

    @staticmethod
    def _item_done(event: Event) -> Says:
        item = event.item if live(event) else None
        if item is None or item.type not in CALLS or item.done is not None:
            return None
        part = item.parts.get((CALLS[item.type], 0))
        if part is not None and part.done is not None:
            return True
        cut = event.get("item", "status") == "incomplete"
        return None if cut else f"the {item.type} has had no .done event for its {CALLS[item.type]}"


class OneCallOnly(Invariant):
    clause = "RWS-FC-014"
    on = ("response.output_item.added",)
    kind = "behaviour"
    _WISH: Final = '> {"type":"response.create","parallel_tool_calls":false}\n'
    good = _WISH + _CALL
    bad = _WISH + _CALL + added("function_call", "i2", 1)

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None or response.request is None or not _is_call(event):
            return None
        if response.request.body.get("parallel_tool_calls") is not False:
            return None
        return not any(item.type in CALLS for item in response.items) or "a second call in one response"


class NoCallsWanted(Invariant):
    clause = "RWS-FC-016"
    on = ("response.output_item.added", *ENDS)
    kind = "behaviour"
    _WISH: Final = '> {"type":"response.create","tool_choice":"none","tools":[{"type":"function"}]}\n'
    good = _WISH + CREATED + s2c("completed")
    bad = _WISH + _CALL

    def see(self, event: Event) -> Says:
        response = live(event)
        asked: dict[str, Any] = response.request.body if response and response.request else {}
        if asked.get("tool_choice") != "none" or not asked.get("tools"):
            return None
        if event.type == "response.output_item.added":
            return f"a {event.get('item', 'type')}, with tool_choice none" if _is_call(event) else None
        return True


class CallIdsDiffer(Invariant):
    clause = "RWS-FC-019"
    on = ("response.output_item.added",)
    kind = "behaviour"
    good = _CALL + added("function_call", "i2", 1, call_id="c2")
    bad = _CALL + added("function_call", "i2", 1, call_id="c1")

    def see(self, event: Event) -> Says:
        name = event.get("item", "call_id")
        if not live(event) or not _is_call(event) or not isinstance(name, str):
            return None
        seen: Seen = self.memory(event.conn).setdefault("ids", Seen())
        return seen.add(name) or f"{name} names an earlier call too"
