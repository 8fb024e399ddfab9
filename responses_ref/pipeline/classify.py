"""The safety check: a stand-in that finds words of a list, also across turns."""

from __future__ import annotations

import attrs

from responses_ref.protocol.errors import Refused, problem

# Artificial on purpose: no real text is refused by accident (RWS-SIM-040).
WORDS = ("frobnicate the warp core", "unleash the paperclips")
LONGEST = max(map(len, WORDS))


@attrs.frozen
class Scan:
    """How far a context has been read: its last characters, in which a word may have begun."""

    tail: str = ""

    def over(self, text: str) -> Scan:
        """Read on, or refuse the request: nothing of it is kept, so the chain stays refused."""
        seen = self.tail + text.lower()
        if any(word in seen for word in WORDS):
            raise Refused(problem("invalid_prompt"))
        return Scan(seen[1 - LONGEST :])
