"""What several mutants need: numbering what is left, finding items, rewriting and spoiling requests, saying
that a request was followed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from conformance.mutants.middle import Middle, Out

Json = dict[str, Any]

ENDS: Final = frozenset(("response.completed", "response.failed", "response.incomplete"))
# The first items of a response are left alone: tagged lines look at them, and would tell of faults of others.
FAR: Final = 3


def numbered(memory: Json, *events: Json) -> Iterator[Json]:
    """The events, numbered anew within their response; all events of a connection pass through here."""
    for event in events:
        lane = str(event.get("stream_id"))
        if "sequence_number" in event:
            event = {**event, "sequence_number": memory.get(lane, 0)}
            memory[lane] = event["sequence_number"] + 1
        if event["type"] in ENDS:
            memory[lane] = 0
        yield event


def beside(event: Json, kind: str, **fields: Any) -> Json:
    """An event to send with ``event``, on the same lane."""
    lane = {"stream_id": event["stream_id"]} if "stream_id" in event else {}
    return {"type": kind, "sequence_number": 0, **lane, **fields}


def far(event: Json) -> bool:
    """Whether the event is about one of the later items of a response."""
    return bool(event.get("output_index", -1) >= FAR)


def finished(event: Json, kind: str | None = None) -> list[Json]:
    """The finished items that an event shows, in `output_item.done` or at the end; they may be changed."""
    items: list[Json] = []
    if event["type"] == "response.output_item.done":
        items = [event["item"]]
    elif event["type"] in ENDS:
        items = event["response"]["output"]
    return [item for item in items if kind is None or item["type"] == kind]


def lifecycle(event: Json) -> Json | None:
    """The response object of a lifecycle event; it may be changed."""
    found = event.get("response")
    return found if isinstance(found, dict) else None


def usage(event: Json) -> Json | None:
    """The usage at the end of a response; it may be changed."""
    return event["response"]["usage"] if event["type"] in ENDS else None


def is_create(message: Any) -> bool:
    return isinstance(message, dict) and message.get("type") == "response.create"


def items(message: Any) -> list[Json]:
    """The input items of a create."""
    found = message.get("input") if is_create(message) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def of_type(message: Any, kind: str) -> list[Json]:
    return [item for item in items(message) if item.get("type") == kind]


def spoiled(message: Json) -> Json:
    """The same create with a fault in it, so that the server refuses it."""
    return {**message, "temperature": "spoiled"}


def rewritten(message: Any, old: str, new: str) -> Any:
    """The message with a text replaced wherever it stands; line feeds in ``old`` and ``new`` are allowed."""
    before, after = (json.dumps(text)[1:-1] for text in (old, new))
    return json.loads(json.dumps(message).replace(before, after))


class Deaf(Middle):
    """Follows another wish about tools than the create has, and echoes that one all the same (RWS-RES-012).

    The newest create of a connection is what its responses answer: for cases with one turn after another.
    """

    wish: ClassVar[str] = "tool_choice"

    def other(self, message: Json) -> None:
        """Change a create with that wish."""

    def request(self, message: Any) -> Iterable[Out]:
        if is_create(message):
            self.memory["asked"] = copy.deepcopy(message.get(self.wish))
            if self.memory["asked"]:
                self.other(message)
        return [message]

    def event(self, event: Json) -> Iterable[Out]:
        resource, asked = lifecycle(event), self.memory.get("asked")
        if resource and asked and self.wish == "tools":
            resource["tools"] = [{**tool, **own} for tool, own in zip(resource["tools"], asked, strict=True)]
        elif resource and asked:
            resource[self.wish] = asked
        return [event]
