"""ITM: what an output item looks like when it begins and when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from conformance.invariants.base import Invariant, Says
from conformance.invariants.common import CREATED, ENDS, added, done, equal, is_new, live, s2c
from conformance.state import Event, Seen

_ITEM_ENDS: Final = frozenset(("completed", "incomplete"))
_WITH_STATUS: Final = frozenset(("message", "reasoning", "function_call", "custom_tool_call"))


class ItemIdsDiffer(Invariant):
    clause = "RWS-ITM-001"
    on = ("response.output_item.added",)
    kind = "behaviour"
    good = CREATED + added("message") + added("message", "i2", 1)
    bad = CREATED + added("message") + added("message", "i1", 1)

    def see(self, event: Event) -> Says:
        name = event.get("item", "id")
        if not live(event) or not isinstance(name, str):
            return None
        seen: Seen = self.memory(event.conn).setdefault("ids", Seen())
        return seen.add(name) or f"{name} names an earlier item too"


class SameFromAddedToDone(Invariant):
    """The item is the one in the same place, since its id is what is judged."""

    clause = "RWS-ITM-002"
    on = ("response.output_item.done",)
    good = CREATED + added("message") + done("message")
    bad = CREATED + added("message") + done("message", "i2")

    def see(self, event: Event) -> Says:
        response, now = live(event), event.get("item")
        item = response.item_at(event.get("output_index")) if response else None
        if item is None or not isinstance(now, dict):
            return None
        for key in ("id", "type", "call_id", "name"):
            if key in item.added and key in now and now[key] != item.added[key]:
                return f"{key} was {item.added[key]!r} and is now {now[key]!r}"
        return True


class BeginsInProgress(Invariant):
    clause = "RWS-ITM-003"
    on = ("response.output_item.added",)
    good = CREATED + added("message", status="in_progress")
    bad = CREATED + added("message", status="completed")

    def see(self, event: Event) -> Says:
        status = event.get("item", "status")
        if str(event.get("item", "type")) not in _WITH_STATUS or status is None:
            return None
        return equal(status, "in_progress", "the new item's status")


class BeginsEmpty(Invariant):
    clause = "RWS-ITM-004"
    on = ("response.output_item.added",)
    _EMPTY: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
        "message": {"content": ([],)},
        "reasoning": {"summary": ([],), "content": ([], None)},
        "function_call": {"arguments": ("",)},
        "custom_tool_call": {"input": ("",)},
    }
    good = CREATED + added("function_call", arguments="")
    bad = CREATED + added("function_call", arguments="{}")

    def see(self, event: Event) -> Says:
        item = event.get("item")
        fields = self._EMPTY.get(str(event.get("item", "type")))
        if fields is None or not isinstance(item, dict):
            return None
        for name, empty in fields.items():
            if name in item and item[name] not in empty:
                return f"the new item's {name} is not empty"
        return True


class EndsInOneOfTwoWays(Invariant):
    clause = "RWS-ITM-005"
    on = ("response.output_item.done",)
    good = CREATED + added("message") + done("message", status="incomplete")
    bad = CREATED + added("message") + done("message", status="in_progress")

    def see(self, event: Event) -> Says:
        status = event.get("item", "status")
        if str(event.get("item", "type")) not in _WITH_STATUS or status is None:
            return None
        return str(status) in _ITEM_ENDS or f"the finished item's status is {status!r}"


class IncompleteIsLast(Invariant):
    clause = "RWS-ITM-006"
    on = ("response.output_item.added",)
    good = CREATED + added("message") + done("message", status="completed") + added("message", "i2", 1)
    bad = CREATED + added("message") + done("message", status="incomplete") + added("message", "i2", 1)

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None or not response.items or not is_new(event, response):
            return None
        cut = [item.id for item in response.items if item.done and item.done.get("status") == "incomplete"]
        return not cut or f"an item is added after {cut[0]}, which is incomplete"


class IncompleteIsNotCompleted(Invariant):
    clause = "RWS-ITM-007"
    on = ("response.completed",)
    good = CREATED + added("message") + done("message", status="completed") + s2c("completed")
    bad = CREATED + added("message") + done("message", status="incomplete") + s2c("completed")

    def see(self, event: Event) -> Says:
        response = live(event)
        if response is None or not response.items:
            return None
        cut = [item.id for item in response.items if item.done and item.done.get("status") == "incomplete"]
        return not cut or f"response.completed, and {cut[0]} is incomplete"


class NoLocalFields(Invariant):
    clause = "RWS-ITM-021"
    on = ("response.output_item.added", "response.output_item.done", *ENDS)
    kind = "schema"
    _LOCAL: Final = frozenset(("parsed", "parsed_arguments"))
    good = CREATED + added("message")
    bad = CREATED + added("message", content=[{"type": "output_text", "text": "{}", "parsed": {}}])

    def see(self, event: Event) -> Says:
        found = False
        for fields in self._objects(event):
            found = True
            if local := self._LOCAL & fields.keys():
                return f"an item has {min(local)}"
        return found or None

    @staticmethod
    def _objects(event: Event) -> Iterator[dict[str, Any]]:
        """The event's items and their parts."""
        items = event.get("response", "output") or [event.get("item")]
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict):
                yield item
                parts = item.get("content")
                listed = parts if isinstance(parts, list) else []
                yield from (part for part in listed if isinstance(part, dict))


class Prefixes(Invariant):
    clause = "RWS-ITM-030"
    on = ("response.created", "response.output_item.added")
    kind = "behaviour"
    _OF: Final = {
        "message": "msg_",
        "reasoning": "rs_",
        "function_call": "fc_",
        "custom_tool_call": "ctc_",
        "compaction": "cmp_",
    }
    good = s2c("created", response={"id": "resp_1"}) + added("function_call", "fc_1", call_id="call_1")
    bad = s2c("created", response={"id": "resp_1"}) + added("function_call", "call_1", call_id="call_1")

    def see(self, event: Event) -> Says:
        if event.type == "response.created":
            pairs = [(event.get("response", "id"), "resp_")]
        else:
            kind = self._OF.get(str(event.get("item", "type")), "")
            pairs = [(event.get("item", "id"), kind), (event.get("item", "call_id"), "call_")]
        for name, prefix in pairs:
            if isinstance(name, str) and not name.startswith(prefix):
                return f"{name} does not begin with {prefix}"
        return True
