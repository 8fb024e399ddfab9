"""Rendering: a context as tokens, in the order tools, instructions, items (RWS-RES-023).

An item is one header token and the tokens of its texts.  Rendered tokens are
append-only and hang together by their parents: a turn adds a segment and copies
nothing.  Output needs no rendering at all: the model made it of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from responses_ref.protocol import codec
from responses_ref.protocol.items import Content, Item, Message, OtherPart
from responses_ref.protocol.resource import Create

from .work import Slices, Work


@attrs.frozen(eq=False)
class Rendered:
    """The tokens of a context's items: this segment's, after its parent's. ``total`` counts all.

    Only the count is read here: the tokens stand for what an engine would have in its prefix cache.
    """

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
    return [f"<{part.type}>" for part in _parts(item) if isinstance(part, OtherPart)]


def _parts(item: Item) -> Content:
    if isinstance(item, Message):
        return item.content
    output = getattr(item, "output", ())
    return output if isinstance(output, tuple) else ()


@attrs.frozen
class Prelude:
    """What stands before the items. ``kept`` tokens of it are the parent's; ``same``: all of them.

    Tools are the same if their JSON is: to Python 1, 1.0 and true are equal, too.
    """

    tools: str
    instructions: str
    tool_tokens: int
    tokens: int
    kept: int
    same: bool

    @classmethod
    def of(
        cls, create: Create, old: Prelude | None, tokenise: Callable[[str], Iterable[str]], work: Work
    ) -> Slices:
        """Render what differs from the parent's tools and instructions; work 0 when nothing does."""
        tools = codec.dumps(list(create.tools)) if create.tools else ""
        instructions = create.instructions or ""
        same_tools = old is not None and old.tools == tools
        if old is not None and same_tools and old.instructions == instructions:
            return attrs.evolve(old, kept=old.tokens, same=True)
        tool_tokens = old.tool_tokens if old is not None and same_tools else 0
        if tools and not same_tools:
            tool_tokens = 1 + len((yield from work.draw(tokenise(tools))))
        tokens = tool_tokens
        if instructions:
            tokens += 1 + len((yield from work.draw(tokenise(instructions))))
        kept = tool_tokens if same_tools else 0
        return cls(tools, instructions, tool_tokens, tokens, kept, False)
