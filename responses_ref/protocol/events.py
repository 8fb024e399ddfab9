"""Server events: the table of all types, and the two forms in which they travel to the codec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

# type -> its own fields, beside type, sequence_number and stream_id.
SENDABLE: dict[str, tuple[str, ...]] = {
    "response.created": ("response",),
    "response.in_progress": ("response",),
    "response.completed": ("response",),
    "response.failed": ("response",),
    "response.incomplete": ("response",),
    "response.output_item.added": ("item", "output_index"),
    "response.output_item.done": ("item", "output_index"),
    "response.content_part.added": ("part", "item_id", "output_index", "content_index"),
    "response.content_part.done": ("part", "item_id", "output_index", "content_index"),
    "response.output_text.delta": ("delta", "logprobs", "item_id", "output_index", "content_index"),
    "response.output_text.done": ("text", "logprobs", "item_id", "output_index", "content_index"),
    "response.refusal.delta": ("delta", "item_id", "output_index", "content_index"),
    "response.refusal.done": ("refusal", "item_id", "output_index", "content_index"),
    "response.function_call_arguments.delta": ("delta", "item_id", "output_index"),
    "response.function_call_arguments.done": ("arguments", "item_id", "output_index"),
    "response.custom_tool_call_input.delta": ("delta", "item_id", "output_index"),
    "response.custom_tool_call_input.done": ("input", "item_id", "output_index"),
    "response.reasoning_summary_part.added": ("part", "item_id", "output_index", "summary_index"),
    "response.reasoning_summary_part.done": ("part", "item_id", "output_index", "summary_index"),
    "response.reasoning_summary_text.delta": ("delta", "item_id", "output_index", "summary_index"),
    "response.reasoning_summary_text.done": ("text", "item_id", "output_index", "summary_index"),
    "response.reasoning_text.delta": ("delta", "item_id", "output_index", "content_index"),
    "response.reasoning_text.done": ("text", "item_id", "output_index", "content_index"),
    "response.compaction.compacting": ("item_id", "output_index"),
    "response.steer.accepted": ("steer",),
    "response.steer.pending": ("steer", "reason", "required_input"),
    "response.steer.failed": ("steer", "error"),
    "response.done": ("response",),  # the append prototype only
    "error": ("status", "error"),
}


@attrs.frozen
class Event:
    """One event. ``fields`` holds its own fields, those of SENDABLE, as objects of this room."""

    type: str
    fields: Mapping[str, Any]
    sequence_number: int | None = None  # None: an error that belongs to no response (RWS-SEQ-004)
    stream_id: str | None = None  # None: the default lane (RWS-LAN-004)


@attrs.define(eq=False)
class Template:
    """What the deltas of one part share. ``head`` is their encoded beginning, made by the codec once."""

    type: str
    fields: Mapping[str, Any]
    stream_id: str | None = None
    head: str = ""


@attrs.define(eq=False)  # frozen would cost as much as encoding a token
class Deltas:
    """A run of delta events of one part: one for each token, numbered on from ``sequence_number``."""

    template: Template
    texts: tuple[str, ...]
    sequence_number: int


Sendable: TypeAlias = Event | Deltas
