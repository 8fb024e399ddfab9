from __future__ import annotations

from itertools import pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_ref.model.streamer import (
    PROFILES,
    Every,
    Pause,
    Plan,
    Profile,
    TimeInfo,
    due,
    plan,
    profile,
    time_info,
)
from responses_ref.protocol.batch import Finished, ItemDone, ItemStarted, Piece

TOKEN, EMPTY = Piece("a", "output_text"), Piece("", "output_text")
START, END, FINISHED = ItemStarted("message"), ItemDone(), Finished()


def tokens(count: int) -> list[Piece]:
    return [TOKEN] * count


def offsets(elements, speed="10", new=0, cached=0, seed=1):
    found = profile(speed) if isinstance(speed, str) else speed
    return list(plan(elements, found, new, cached, seed).offsets)


TIMED = [
    # elements, their offsets at 10 tokens a second
    ([], []),
    ([START, *tokens(3), END, FINISHED], [0, 0, 0.1, 0.2, 0.2, 0.2]),
    ([START, EMPTY, END, START, TOKEN, END], [0, 0, 0, 0, 0, 0]),
    ([TOKEN, EMPTY, TOKEN], [0, 0, 0.1]),
    ([TOKEN, END, Pause(5), START, TOKEN, TOKEN], [0, 0, 5, 5.1, 5.2]),
    ([Pause(1), Pause(2), START, TOKEN], [3, 3]),
    ([TOKEN, Pause(1), FINISHED], [0, 1]),
    ([Every(2), START, TOKEN, TOKEN, END], [0, 2, 4, 4]),
    ([TOKEN, Every(2), TOKEN, Every(3), TOKEN, TOKEN], [0, 2, 5, 8]),
    ([TOKEN, Every(2), TOKEN, Every(0), TOKEN], [0, 2, 2.1]),
]


@pytest.mark.parametrize(("elements", "expected"), TIMED, ids=range(len(TIMED)))
def test_when_each_element_is_due(elements, expected):
    assert offsets(elements) == pytest.approx(expected)


def test_a_plan_holds_the_parts_in_their_order():
    elements = [Pause(1), START, TOKEN, EMPTY, Every(1), END, FINISHED]
    parts = plan(elements, PROFILES["instant"], 0, 0, 1).parts
    assert parts == (START, TOKEN, EMPTY, END, FINISHED)
    assert plan([FINISHED], PROFILES["instant"], 0, 0, 1) == Plan((0,), (FINISHED,))


def test_instant_takes_no_time_but_that_of_the_script():
    assert offsets([START, *tokens(500), END], "instant", 10**6, 10**6) == [0] * 502
    script = [TOKEN, Pause(2), TOKEN, Every(1), TOKEN, Every(0), TOKEN]
    assert offsets(script, "instant", 100, 100) == [0, 2, 3, 3]


def test_the_first_token_waits_for_queue_and_prompt():
    slow = Profile("slow", queue_seconds=1, prefill_new_tps=10, prefill_cached_tps=100)
    assert offsets([START, TOKEN], slow, new=50, cached=200) == [8, 8]
    assert offsets([START], attrs.evolve(slow, load_factor=2), 50, 200) == [16]


@pytest.mark.parametrize("name", ["gpu-65", "cerebras-1000", "cerebras-4000"])
def test_what_the_cache_saves_comes_sooner(name):
    warm, cold = offsets([TOKEN], name, 1_000, 99_000), offsets([TOKEN], name, 100_000, 0)
    assert cold[0] > 10 * warm[0] > 0


RATES = [profile(name) for name in ("gpu-65", "cerebras-1000", "cerebras-4000", "1000", "0.5", "12345.6")] + [
    Profile("loaded", decode_tps=1_000, peak_tps=3_000, batches=(1, 5), load_factor=2.5)
]


@pytest.mark.parametrize("speed", RATES, ids=lambda speed: speed.name)
@pytest.mark.parametrize("count", [1_000, 1_013, 20_000])
@pytest.mark.parametrize("seed", range(5))
def test_the_mean_rate_is_the_profiles(speed, count, seed):
    at = offsets(tokens(count), speed, seed=seed)
    rate = (count - 1) / (at[-1] - at[0])
    assert rate == pytest.approx(speed.decode_tps / speed.load_factor, rel=0.02)


@pytest.mark.parametrize("speed", RATES, ids=lambda speed: speed.name)
@pytest.mark.parametrize("seed", range(5))
def test_no_window_has_more_than_the_peak_and_a_batch(speed, seed):
    at = offsets(tokens(4_000), speed, seed=seed)
    most = speed.peak_tps / speed.load_factor * 0.05 + max(speed.batches)
    first = 0
    for last, now in enumerate(at):
        while now - at[first] > 0.05:
            first += 1
        assert last - first + 1 <= most + 1e-6


def test_bursts_reach_the_peak_and_batches_vary():
    at = offsets(tokens(2_000), "cerebras-1000")
    assert len({at.count(one) for one in at}) >= 4
    fastest = min(later - sooner for sooner, later in zip(at, at[12:], strict=False))
    assert 12 / fastest > 3_000


def test_a_plain_rate_is_steady():
    gaps = {round(later - sooner, 9) for sooner, later in pairwise(offsets(tokens(500), "250"))}
    assert gaps == {0.004}


@given(
    st.lists(st.sampled_from([TOKEN, EMPTY, START, END, Pause(0.5), Every(0.25), Every(0)]), max_size=60),
    st.sampled_from(RATES),
    st.integers(0, 2**40),
)
def test_a_plan_never_goes_back_and_repeats_with_its_seed(elements, speed, seed):
    at = offsets(elements, speed, 10, 10, seed)
    assert at == sorted(at) == offsets(elements, speed, 10, 10, seed)


def test_seeds_give_different_bursts():
    assert offsets(tokens(100), "cerebras-1000", seed=1) != offsets(tokens(100), "cerebras-1000", seed=2)


def test_where_the_time_went():
    speed = Profile(
        "x", queue_seconds=0.5, prefill_new_tps=10, prefill_cached_tps=100, decode_tps=4, peak_tps=4
    )
    steps = plan([START, *tokens(5), END, Pause(2), FINISHED], speed, 10, 100, 1)
    assert time_info(steps, speed, 10, 100) == TimeInfo(0.5, 2.0, 3.0, 5.5)
    instant = PROFILES["instant"]
    assert time_info(plan([FINISHED], instant, 9, 9, 1), instant, 9, 9) == TimeInfo(0, 0, 0, 0)


def test_what_is_due_by_now():
    steps = plan([START, *tokens(3), END], profile("10"), 0, 0, 1)
    assert [due(steps, 0, now) for now in (-1, 0, 0.05, 0.1, 0.15, 9)] == [0, 2, 2, 3, 3, 5]
    assert due(steps, 3, 0) == 3
    assert due(steps, 5, 9) == 5


@given(st.lists(st.floats(0, 9), max_size=20).map(sorted), st.floats(0, 10), st.integers(0, 20))
def test_due_is_what_a_walk_finds(at, now, index):
    steps = Plan(tuple(at), (FINISHED,) * len(at))
    index = min(index, len(at))
    walked = index
    while walked < len(at) and at[walked] <= now:
        walked += 1
    assert due(steps, index, now) == walked


@pytest.mark.parametrize(
    ("name", "decode", "peak"),
    [("gpu-65", 65, 90), ("cerebras-1000", 1_000, 4_000), ("cerebras-4000", 4_000, 6_000), ("instant", 0, 0)],
)
def test_the_rates_that_the_names_promise(name, decode, peak):
    assert (PROFILES[name].decode_tps, PROFILES[name].peak_tps) == (decode, peak)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_known_by_its_name(name):
    assert profile(name) is PROFILES[name]
    assert profile(name).name == name


@pytest.mark.parametrize(("text", "tps"), [("1", 1), ("0.5", 0.5), ("1000", 1000), ("1000000", 1_000_000)])
def test_a_speed_in_tokens_a_second(text, tps):
    assert profile(text) == Profile(text, decode_tps=tps, peak_tps=tps)


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "nan", "inf", "1e3", "1_0", " 5", "٣", "1000001"])
def test_another_speed_is_a_clear_error(text):
    with pytest.raises(
        ValueError, match=r"^the speed must be gpu-65, cerebras-1000, cerebras-4000, instant or"
    ):
        profile(text)


def test_a_time_to_first_token_replaces_queue_and_prefill():
    fixed = profile("cerebras-1000", ttft=0.25)
    assert offsets([TOKEN], fixed, 10**6, 10**6) == [0.25]
    assert (fixed.decode_tps, fixed.peak_tps) == (1_000, 4_000)
    assert [offsets([TOKEN], profile("instant", ttft=ttft)) for ttft in (0, 600)] == [[0], [600]]


@pytest.mark.parametrize("ttft", [-0.1, 600.1, float("nan"), float("inf")])
def test_another_time_to_first_token_is_a_clear_error(ttft):
    with pytest.raises(ValueError, match=r"^the time to the first token must be from 0 to 600 seconds$"):
        profile("instant", ttft)
