"""The portable tokeniser and the portable random numbers (spec annex A0).

Each is a few lines in any language, and ``token_vectors.json`` says what they
must give, so that two servers count the same tokens and say the same words.

A token is a run of code points of one class, as long as the class allows:
ASCII letters (8), ASCII digits (3), printable ASCII punctuation (4), everything
from U+0080 on (2), and the rest, which is space, DEL and the controls (8).
Where a token would start with exactly one space before a run of the first four
classes, that space and that run are one token.  Tokens are cut from left to
right, each as long as it can be; joined they are the text again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs

TOKEN = re.compile(
    r" ?[A-Za-z]{1,8}| ?[0-9]{1,3}| ?[!-/:-@\[-`{-~]{1,4}| ?[^\x00-\x7F]{1,2}|[\x00-\x20\x7F]{1,8}"
)

MASK = 0xFFFF_FFFF

# 32 of them, each of three to eight letters and one token.
WORDS = re.findall(
    "[a-z]+",
    "acorn amber aspen autumn beach birch bread bridge brook candle cedar cloud coral creek daisy delta"
    " ember fern forest garden glass grain harbor honey island lantern maple meadow paper river silver stone",
)


def tokenise(text: str) -> list[str]:
    """Cut a text into its tokens; an empty text has none."""
    return TOKEN.findall(text)


@attrs.define
class Generator:
    """splitmix32: 32-bit numbers from any whole number as seed (its low 32 bits count)."""

    state: int

    def draw(self) -> int:
        """Draw a number from 0 to 2**32 - 1."""
        self.state = mixed = (self.state + 0x9E37_79B9) & MASK
        mixed = (mixed ^ mixed >> 16) * 0x21F0_AAAD & MASK
        mixed = (mixed ^ mixed >> 15) * 0x735A_2D97 & MASK
        return mixed ^ mixed >> 15

    def below(self, bound: int) -> int:
        """Draw a number from 0 to ``bound - 1``."""
        return self.draw() * bound >> 32

    def choice(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]

    def picks(self, count: int) -> list[int]:
        """Draw ``count`` places in ``WORDS``: six from a number, its lowest five bits first."""
        numbers = [self.draw() for _ in range(0, count, 6)]
        return [number >> shift & 31 for number in numbers for shift in range(0, 30, 5)][:count]

    def words(self, count: int) -> str:
        """Draw a text of ``count`` words, each one token."""
        return " ".join([WORDS[pick] for pick in self.picks(count)])
