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

    def of_turn(self, number: int) -> RandomIds:
        return self

    def timestamp(self, number: int) -> int:
        return int(time.time())


@attrs.define
class SeededIds:
    """Ids from (seed, place, counter), and times from the turn's number.

    A place is a turn of a connection: "2/7". A later HTTP request counts as a connection: "2.3/1".
    """

    seed: int
    place: int | str
    counter: int = 0

    def new(self, prefix: str) -> str:
        self.counter += 1
        name = f"{self.seed}:{self.place}:{self.counter}"
        return f"{prefix}_{hashlib.sha256(name.encode()).hexdigest()[:32]}"

    def of_turn(self, number: int) -> SeededIds:
        return attrs.evolve(self, place=f"{self.place}/{number}", counter=0)

    def timestamp(self, number: int) -> int:
        return SEEDED_EPOCH + number
