"""Small questions that many invariants ask."""

from __future__ import annotations

import json
from typing import Any, Final

from conformance.state import TERMINAL, Event, Item, Response, word

BEFORE_THE_END: Final = frozenset(("response.created", "response.queued", "response.in_progress"))
LIFECYCLE: Final = tuple(sorted(TERMINAL | BEFORE_THE_END))
ENDS: Final = tuple(sorted(TERMINAL))
CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}  # type -> its text


def live(event: Event) -> Response | None:
    """The event's response, as long as it has not ended."""
    response = event.response
    return response if response is not None and response.terminal is None else None


def named_item(event: Event) -> Item | None:
    """The item that the event names by its id, known and of a response that has not ended."""
    response = live(event)
    name = word(event.get("item_id")) or word(event.get("item", "id"))
    return response.by_id.get(name) if response is not None and name is not None else None


def is_new(event: Event, response: Response) -> bool:
    """Whether an `output_item.added` adds an item that was not there yet."""
    name = event.get("item", "id")
    return not isinstance(name, str) or name not in response.by_id


def text_of(part: Any) -> str | None:
    """The text of a `part` object, a refusal's included; None if there is none."""
    text = part.get("refusal", part.get("text")) if isinstance(part, dict) else None
    return text if isinstance(text, str) else None


def equal(got: object, wanted: object, what: str) -> bool | str:
    """True, or how the two differ."""
    return got == wanted or f"{what} is {_short(got)}, expected {_short(wanted)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def s2c(kind: str, /, **fields: Any) -> str:
    """One line of a literal trace: the server sends `response.KIND`."""
    return f"< {json.dumps({'type': f'response.{kind}', **fields})}\n"


CREATED: Final = s2c("created", response={"id": "r1"})


def added(kind: str, name: str = "i1", index: int = 0, **fields: Any) -> str:
    """The line that adds an item."""
    return s2c("output_item.added", output_index=index, item={"id": name, "type": kind, **fields})


def done(kind: str, name: str = "i1", index: int = 0, **fields: Any) -> str:
    """The line that ends an item."""
    return s2c("output_item.done", output_index=index, item={"id": name, "type": kind, **fields})


def of_part(kind: str, **fields: Any) -> str:
    """A line about part 0 of item `i1`."""
    where = "summary_index" if "summary" in kind else "content_index"
    return s2c(kind, item_id="i1", output_index=0, **{where: 0}, **fields)
