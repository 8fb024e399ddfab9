"""Items and content parts: what a context is made of.

Each class is one wire object; its ``type`` is a constant.  ``extra`` holds the
fields of that object we do not know: they are carried, never interpreted.  An
object whose type we do not know at all is an :class:`OtherItem` or an
:class:`OtherPart` and is carried whole (RWS-ITM-010).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

import attrs

Extra: TypeAlias = Mapping[str, Any]
NO_EXTRA: Extra = {}


@attrs.frozen
class InputText:
    type: ClassVar[str] = "input_text"
    text: str
    extra: Extra = NO_EXTRA


@attrs.frozen
class OutputText:
    type: ClassVar[str] = "output_text"
    text: str
    annotations: tuple[Any, ...] = ()
    logprobs: tuple[Any, ...] = ()
    extra: Extra = NO_EXTRA


@attrs.frozen
class Refusal:
    type: ClassVar[str] = "refusal"
    refusal: str
    extra: Extra = NO_EXTRA


@attrs.frozen
class SummaryText:
    type: ClassVar[str] = "summary_text"
    text: str
    extra: Extra = NO_EXTRA


@attrs.frozen
class ReasoningText:
    type: ClassVar[str] = "reasoning_text"
    text: str
    extra: Extra = NO_EXTRA


@attrs.frozen
class OtherPart:
    """A part that is carried and counted, not interpreted: images, files, unknown types."""

    type: str
    fields: Extra


Part: TypeAlias = InputText | OutputText | Refusal | SummaryText | ReasoningText | OtherPart
Content: TypeAlias = tuple[Part, ...]


@attrs.frozen
class Message:
    type: ClassVar[str] = "message"
    role: str
    content: Content
    id: str | None = None
    status: str | None = None
    extra: Extra = NO_EXTRA


@attrs.frozen
class Reasoning:
    type: ClassVar[str] = "reasoning"
    summary: Content = ()
    content: Content | None = None
    encrypted_content: str | None = None
    id: str | None = None
    status: str | None = None
    extra: Extra = NO_EXTRA


@attrs.frozen
class FunctionCall:
    type: ClassVar[str] = "function_call"
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None
    extra: Extra = NO_EXTRA


@attrs.frozen
class CustomToolCall:
    type: ClassVar[str] = "custom_tool_call"
    call_id: str
    name: str
    input: str
    id: str | None = None
    status: str | None = None
    extra: Extra = NO_EXTRA


@attrs.frozen
class FunctionCallOutput:
    type: ClassVar[str] = "function_call_output"
    call_id: str
    output: str | Content
    id: str | None = None
    status: str | None = None
    extra: Extra = NO_EXTRA


@attrs.frozen
class CustomToolCallOutput:
    type: ClassVar[str] = "custom_tool_call_output"
    call_id: str
    output: str | Content
    id: str | None = None
    status: str | None = None
    extra: Extra = NO_EXTRA


@attrs.frozen
class Compaction:
    type: ClassVar[str] = "compaction"
    encrypted_content: str
    id: str | None = None
    extra: Extra = NO_EXTRA


@attrs.frozen
class ItemReference:
    """Stands for an item the server knows; replaced by it before anything else happens."""

    type: ClassVar[str] = "item_reference"
    id: str
    extra: Extra = NO_EXTRA


@attrs.frozen
class OtherItem:
    """An item of a type we do not know: carried whole, never refused (RWS-ITM-010)."""

    type: str
    fields: Extra
    id: str | None = None


Call: TypeAlias = FunctionCall | CustomToolCall
CallOutput: TypeAlias = FunctionCallOutput | CustomToolCallOutput
Item: TypeAlias = Message | Reasoning | Call | CallOutput | Compaction | ItemReference | OtherItem

PARTS: tuple[type[Any], ...] = (InputText, OutputText, Refusal, SummaryText, ReasoningText)
ITEMS: tuple[type[Any], ...] = (
    Message,
    Reasoning,
    FunctionCall,
    CustomToolCall,
    FunctionCallOutput,
    CustomToolCallOutput,
    Compaction,
    ItemReference,
)
OUTPUT_OF: dict[str, type[Any]] = {
    FunctionCallOutput.type: FunctionCall,
    CustomToolCallOutput.type: CustomToolCall,
}


def part_text(part: Part) -> str:
    """The text of a part; a part that is not interpreted has none."""
    if isinstance(part, Refusal):
        return part.refusal
    return "" if isinstance(part, OtherPart) else part.text


def texts(item: Item) -> Iterator[str]:
    """Every text of an item, in order: what is classified and rendered."""
    match item:
        case Message():
            yield from map(part_text, item.content)
        case Reasoning():
            yield from map(part_text, item.summary + (item.content or ()))
        case FunctionCall():
            yield item.arguments
        case CustomToolCall():
            yield item.input
        case FunctionCallOutput() | CustomToolCallOutput():
            yield from [item.output] if isinstance(item.output, str) else map(part_text, item.output)
        case Compaction():
            yield item.encrypted_content
