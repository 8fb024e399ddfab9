"""All short sequences of what can happen, and random long ones, under the eyes of the judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import pytest
from core_bench import Bench, create
from core_judge import Judge
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_ref.protocol.actions import LoadParent, Prepare, Store
from responses_ref.protocol.errors import problem
from responses_ref.protocol.settings import Settings

SMALL = Settings(max_in_flight=2, max_queued=2, max_lanes=2)

Input = Callable[[Judge], bool]


def _newest(judge: Judge, lane: str | None = None) -> str:
    return judge.lane(lane).newest or "resp_0"


def _steered(judge: Judge) -> str | None:
    view = judge.lane(None)
    return view.response or view.newest


# What can happen. An input gives False when it cannot happen now: then the sequence says nothing new.
INPUTS: dict[str, Input] = {
    "create": lambda judge: judge.create(),
    "next": lambda judge: judge.create(None, _newest(judge), judge.outputs(_newest(judge))),
    "ahead": lambda judge: judge.create(None, judge.lane(None).response or "resp_0"),
    "unknown": lambda judge: judge.create(None, "resp_0"),
    "wrong": lambda judge: judge.create(None, _newest(judge), [5]),
    "a": lambda judge: judge.create("a"),
    "fork": lambda judge: judge.create("a", _newest(judge), judge.outputs(_newest(judge))),
    "back": lambda judge: judge.create(None, _newest(judge, "a")),
    "b": lambda judge: judge.create("b"),
    "warm": lambda judge: judge.create(None, None, generate=False),
    "bad": lambda judge: judge.send("{"),
    "lane?": lambda judge: judge.send(create(stream_id="")),
    "say": Judge.say,
    "done": Judge.done,
    "end": Judge.end,
    "cut": Judge.cut,
    "call": Judge.call,
    "fail": Judge.fail,
    "steer": lambda judge: judge.steer(_steered(judge)),
    "steer?": lambda judge: judge.steer("resp_0"),
    "limit": lambda judge: judge.reach("lifetime"),
    "grace": lambda judge: judge.reach("grace"),
    "beat": lambda judge: judge.reach("heartbeat 1"),
    "drain": Judge.drain,
    "leave": Judge.leave,
}


# The same with surroundings that take their time: the store, the pipeline, the store again.
SLOW: dict[str, Input] = {
    **INPUTS,
    "stored": lambda judge: judge.create(store=True),
    "old": lambda judge: judge.create(None, "resp_1"),
    "loads": lambda judge: judge.answer(LoadParent, "parent_loaded"),
    "prepares": lambda judge: judge.answer(Prepare, "prepared"),
    "refuses": lambda judge: judge.answer(Prepare, "refused", problem("invalid_prompt")),
    "stores": lambda judge: judge.answer(Store, "stored"),
    "loses": lambda judge: judge.answer(Store, "store_failed"),
}
HELD = {"LoadParent", "Prepare", "Store"}


def _play(names: Sequence[str], held: set[str]) -> int:
    """Play a sequence; gives how much of it could happen."""
    judge = Judge(Bench(SMALL, held, plain=True))
    for number, name in enumerate(names):
        over = judge.gone
        if not SLOW[name](judge) or over:  # one step after the end, to see that nothing comes of it
            return number
    judge.wind_down()
    return len(names)


# name -> (inputs, length): all sequences of that length, and so all shorter ones too.
ALPHABETS: dict[str, tuple[str, int]] = {
    "one lane": ("create next unknown wrong bad say end call fail cut warm", 4),
    "lanes": ("create next a fork back end fail", 5),
    "steering": ("create next ahead say done end call fail steer", 5),
    "queues": ("create a b wrong end fail", 5),
    "the end": ("create a end say steer limit grace drain leave", 5),
    "all": (" ".join(INPUTS), 3),
    "slow": ("stored old a loads prepares refuses end stores", 5),
    "slow ends": ("stored next loads prepares refuses say end fail stores loses steer grace limit leave", 5),
    "slow steering": ("stored next prepares refuses end call steer", 6),
}


@pytest.mark.parametrize("name", ALPHABETS)
def test_all_short_sequences(name: str) -> None:
    """Whatever happens in whatever order, every rule of the judge holds after each step."""
    words, length = ALPHABETS[name]
    assert set(words.split()) <= SLOW.keys()
    impossible: tuple[str, ...] = ("",)
    for names in product(words.split(), repeat=length):
        if names[: len(impossible)] == impossible:
            continue
        try:
            impossible = names[: _play(names, HELD if name.startswith("slow") else set()) + 1]
        except Exception as error:
            raise AssertionError(f"after {' '.join(names)}") from error


@settings(max_examples=max(600, settings().max_examples))
@given(
    names=st.lists(st.sampled_from(sorted(SLOW)), max_size=40), held=st.sets(st.sampled_from(sorted(HELD)))
)
def test_long_sequences(names: list[str], held: set[str]) -> None:
    """The same at random, and longer."""
    judge = Judge(Bench(SMALL, held, plain=True))
    for name in names:
        SLOW[name](judge)
    judge.wind_down()
