"""Rendering: a context as tokens, in the order tools, instructions, items (RWS-RES-023).

An item is one header token and the tokens of its texts.  Rendered tokens are
append-only and hang together by their parents: a turn adds a segment and copies
nothing.  Output needs no rendering at all: the model made it of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import attrs

from responses_ref.protocol import codec
from responses_ref.protocol.items import Item, Message, OtherPart
from responses_ref.protocol.resource import Create


class Counts(Protocol):
    tokens: int


@attrs.frozen(eq=False)
class Rendered:
    """The tokens of a context's items: this segment's, after its parent's. ``total`` counts all."""

    parent: Rendered | None = None
    tokens: tuple[str, ...] = ()
    total: int = 0

    def plus(self, tokens: Iterable[str]) -> Rendered:
        """The context with one more item."""
        segment = tuple(tokens)
        return Rendered(self, segment, self.total + len(segment))

    def plus_output(self, count: int) -> Rendered:
        """The context with the output that the model added to it."""
        return Rendered(self, (), self.total + count)


def uninterpreted(item: Item) -> list[str]:
    """One token for each part that is carried but not read, such as an image."""
    parts = item.content if isinstance(item, Message) else ()
    return [f"<{part.type}>" for part in parts if isinstance(part, OtherPart)]


@attrs.frozen
class Prelude:
    """What stands before the items. ``kept`` tokens of it are the parent's; ``same``: all of them."""

    tools: tuple[Mapping[str, Any], ...]
    instructions: str | None
    tool_tokens: int
    tokens: int
    kept: int
    same: bool

    @classmethod
    def of(
        cls, create: Create, old: Prelude | None, tokenise: Callable[[str], Iterable[str]], work: Counts
    ) -> Prelude:
        """Render what differs from the parent's tools and instructions; work 0 when nothing does."""
        tools, instructions = create.tools, create.instructions
        same_tools = old is not None and old.tools == tools
        if old is not None and same_tools and old.instructions == instructions:
            return attrs.evolve(old, kept=old.tokens, same=True)
        if old is not None and same_tools:
            tool_tokens = old.tool_tokens
        else:
            tool_tokens = _count(codec.dumps(list(tools)), tokenise, work) if tools else 0
        tokens = tool_tokens + (_count(instructions, tokenise, work) if instructions else 0)
        kept = tool_tokens if same_tools else 0
        return cls(tools, instructions, tool_tokens, tokens, kept, False)


def _count(text: str, tokenise: Callable[[str], Iterable[str]], work: Counts) -> int:
    count = 1 + sum(1 for _ in tokenise(text))
    work.tokens += count
    return count
