"""Ids and timestamps: random and real, or with a seed the same in every run."""

from __future__ import annotations

import hashlib
import secrets
import time

import attrs

SEEDED_EPOCH = 1_700_000_000  # RWS-SIM-050


@attrs.define
class RandomIds:
    """Fresh ids that nobody can guess, and the time of day."""

    def new(self, prefix: str) -> str:
        return f"{prefix}_{secrets.token_hex(16)}"

    def timestamp(self, number: int) -> int:
        return int(time.time())


@attrs.define
class SeededIds:
    """Ids from (seed, connection, counter), and times from the response's number.

    ``connection`` is its number; a later HTTP request on it counts as one of its own: "2.3".
    """

    seed: int
    connection: int | str
    counter: int = 0

    def new(self, prefix: str) -> str:
        self.counter += 1
        name = f"{self.seed}:{self.connection}:{self.counter}"
        return f"{prefix}_{hashlib.sha256(name.encode()).hexdigest()[:32]}"

    def timestamp(self, number: int) -> int:
        return SEEDED_EPOCH + number
