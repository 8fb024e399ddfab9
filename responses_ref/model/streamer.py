"""When what the model says comes: elements, a speed profile and a seed give a plan (spec annex A0).

A plan is data: offsets in seconds from the start of the response.  Whoever plays it
compares them with the time since then, so being late once shifts nothing later.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import TypeAlias

import attrs

from responses_ref.model.tokens import Generator
from responses_ref.protocol.batch import BatchPart, Piece

MAX_TPS = 1_000_000
MAX_TTFT = 600
NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

# Bursts even out over this many tokens, which bounds how far a stream is ahead of its mean rate.
CYCLE = 32


@attrs.frozen
class Profile:
    """How fast a simulated model is. Rates are tokens a second; a rate of 0 takes no time.

    The prompt costs queue and prefill time, and a token that the cache saves
    costs less of it.  Then tokens come at ``decode_tps`` on the mean: in batches,
    as speculative decoding gives them, and in bursts at up to ``peak_tps``.  On a
    loaded machine all of it takes ``load_factor`` times as long.
    """

    name: str
    queue_seconds: float = 0.0
    prefill_new_tps: float = 0.0
    prefill_cached_tps: float = 0.0
    decode_tps: float = 0.0
    peak_tps: float = 0.0
    batches: tuple[int, ...] = (1,)
    load_factor: float = 1.0

    def seconds(self, tokens: float, tps: float) -> float:
        return tokens * self.load_factor / tps if tps else 0.0


PROFILES: dict[str, Profile] = {
    "gpu-65": Profile("gpu-65", 0.040, 8_000, 200_000, 65, 90),
    "cerebras-1000": Profile("cerebras-1000", 0.010, 40_000, 1_000_000, 1_000, 4_000, (1, 2, 3, 4)),
    "cerebras-4000": Profile("cerebras-4000", 0.010, 40_000, 1_000_000, 4_000, 6_000, (2, 3, 4, 6)),
    "instant": Profile("instant"),
}


def profile(text: str, ttft: float | None = None) -> Profile:
    """Read ``--speed``: a profile's name or tokens a second; ``ttft`` replaces queue and prefill time.

    Raises:
        ValueError: with a message for the command line.
    """
    tps = float(text) if NUMBER.fullmatch(text) else 0
    if text not in PROFILES and not 0 < tps <= MAX_TPS:
        raise ValueError(f"the speed must be {', '.join(PROFILES)} or tokens a second up to {MAX_TPS}")
    found = PROFILES.get(text) or Profile(text, decode_tps=tps, peak_tps=tps)
    if ttft is None:
        return found
    if not 0 <= ttft <= MAX_TTFT:
        raise ValueError(f"the time to the first token must be from 0 to {MAX_TTFT} seconds")
    return attrs.evolve(found, queue_seconds=ttft, prefill_new_tps=0, prefill_cached_tps=0)


@attrs.frozen
class Pause:
    """The model is silent for that long, also at an instant speed."""

    seconds: float


@attrs.frozen
class Every:
    """Each later token comes that long after what is before it; 0 gives the profile its pace back."""

    seconds: float


@attrs.frozen
class TimeInfo:
    """How a response's time was spent, in seconds, as Cerebras reports it."""

    queue_time: float
    prompt_time: float
    completion_time: float
    total_time: float


@attrs.frozen
class Plan:
    """Each part is due its offset, in seconds, after the start of the response.

    Two columns, so that many tokens due at once are one slice.
    """

    offsets: tuple[float, ...]
    parts: tuple[BatchPart, ...]


Element: TypeAlias = BatchPart | Pause | Every


def plan(
    elements: Iterable[Element], profile: Profile, new_tokens: int, cached_tokens: int, seed: int
) -> Plan:
    """Give each element its time; never earlier than the one before it.

    A part that is no token is due with the token before it, or at the end of
    the pause between them.
    """
    queue, prompt = _waits(profile, new_tokens, cached_tokens)
    now, every = queue + prompt, 0.0
    pace = chain([0.0], _gaps(profile, Generator(seed)))
    offsets: list[float] = []
    parts: list[BatchPart] = []
    for element in elements:
        if isinstance(element, Piece):  # first, as nearly all are
            if element.text:
                now += every or next(pace)
        elif isinstance(element, Pause):
            now += element.seconds
            continue
        elif isinstance(element, Every):
            every = element.seconds
            continue
        offsets.append(now)
        parts.append(element)
    return Plan(tuple(offsets), tuple(parts))


def _waits(profile: Profile, new_tokens: int, cached_tokens: int) -> tuple[float, float]:
    fresh = profile.seconds(new_tokens, profile.prefill_new_tps)
    cached = profile.seconds(cached_tokens, profile.prefill_cached_tps)
    return profile.queue_seconds * profile.load_factor, fresh + cached


def _gaps(profile: Profile, random: Generator) -> Iterator[float]:
    """Seconds from each token to the next, without end."""
    if profile.peak_tps == profile.decode_tps and profile.batches == (1,):
        return repeat(profile.seconds(1, profile.peak_tps))
    return _bursts(profile, random)


def _bursts(profile: Profile, random: Generator) -> Iterator[float]:
    """In each cycle a burst, then what keeps the mean."""
    fast, cycle = profile.seconds(1, profile.peak_tps), profile.seconds(CYCLE, profile.decode_tps)
    while True:
        burst = random.below(CYCLE // 2 + 1)
        slow = (cycle - burst * fast) / (CYCLE - burst)
        for left, gap in ((burst, fast), (CYCLE - burst, slow)):
            while left:
                size = min(random.choice(profile.batches), left)
                yield from [0.0] * (size - 1)
                yield size * gap
                left -= size


def time_info(plan: Plan, profile: Profile, new_tokens: int, cached_tokens: int) -> TimeInfo:
    """Say how the time of a plan is spent; pauses count as completion."""
    queue, prompt = _waits(profile, new_tokens, cached_tokens)
    total = plan.offsets[-1]
    return TimeInfo(queue, prompt, total - queue - prompt, total)


def due(plan: Plan, index: int, elapsed: float) -> int:
    """The index after the last part that is due ``elapsed`` seconds after the start, from ``index`` on."""
    return bisect_right(plan.offsets, elapsed, lo=index)
