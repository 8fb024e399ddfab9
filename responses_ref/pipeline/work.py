"""Slices: how much work is done before other streams get their turn, and what has been done."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

import attrs

Slices: TypeAlias = Generator[float, None, Any]
SLICE_UNITS = 16_000  # a unit is a character cut into tokens; so many are about a millisecond of work
UNITS_PER_TOKEN = 4  # as many characters as a token has
SLICE_TOKENS = SLICE_UNITS // UNITS_PER_TOKEN
ITEM_UNITS = 200  # what an item costs beside its texts, in each stage
TEXT_UNITS = 40  # and a text beside its characters


@attrs.define
class Work:
    """What the stages did for one turn, counted for the trace and the bench."""

    items: int = 0
    characters: int = 0
    tokens: int = 0
    lookups: int = 0
    pending: int = 0  # units since the last pause
    classified: int = 0  # bytes that a slower classifier is to be waited for

    def pause(self, units: int) -> Iterator[float]:
        """Note work done, and make a pause when a slice is full."""
        self.pending += units
        if self.pending >= SLICE_UNITS:
            self.pending = 0
            yield 0.0

    def draw(self, tokens: Iterable[str]) -> Slices:
        """Draw all tokens of a text, in slices."""
        unread, drawn = iter(tokens), list[str]()
        while chunk := tuple(islice(unread, SLICE_TOKENS)):
            drawn += chunk
            yield from self.pause(len(chunk) * UNITS_PER_TOKEN)
        self.tokens += len(drawn)
        return drawn

    def counts(self) -> Mapping[str, int]:
        return {name: getattr(self, name) for name in ("items", "characters", "tokens", "lookups")}
