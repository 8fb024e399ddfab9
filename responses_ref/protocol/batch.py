"""What a model hands to the core: a list of these is a *batch*.

The model says what comes, never how it looks on the wire: it draws no id, no
index and no number, and it opens no content part.  One :class:`Piece` is one
token and becomes one delta event; a piece whose ``part`` differs from the one
before it closes that part and opens the next.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

ItemKind: TypeAlias = Literal["message", "reasoning", "function_call", "custom_tool_call", "compaction"]
PartKind: TypeAlias = Literal[
    "output_text", "refusal", "summary", "reasoning_text", "arguments", "input", "encrypted_content"
]


@attrs.frozen
class ItemStarted:
    """A new output item; ``name`` is the tool's name for the two kinds of call."""

    kind: ItemKind
    name: str = ""


@attrs.frozen
class Piece:
    """One token of the open item. An empty text opens the part and sends no delta."""

    text: str
    part: PartKind


@attrs.frozen
class ItemDone:
    """The open item ends; ``incomplete`` makes it the last one of the response."""

    status: Literal["completed", "incomplete"] = "completed"


@attrs.frozen
class Failed:
    """The response ends failed; ``announced`` puts a stream error in front of it."""

    code: str
    message: str
    announced: bool = False


@attrs.frozen
class Finished:
    """The response ends completed, or incomplete for the given reason."""

    reason: str | None = None


BatchPart: TypeAlias = ItemStarted | Piece | ItemDone | Failed | Finished
