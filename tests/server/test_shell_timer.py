"""The shared timer, in virtual time: order, no drift, and nothing that outlives its use."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from responses_ref.server.timer import LOOK_SECONDS, Timers


@asynccontextmanager
async def ticking(step: float = 0.002) -> AsyncIterator[tuple[Timers, trio.Nursery]]:
    timers = Timers(step)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        yield timers, nursery
        nursery.cancel_scope.cancel()


async def test_a_thousand_sleepers_wake_in_order_each_on_its_tick(autojump_clock: MockClock) -> None:
    woken: list[tuple[float, float]] = []

    async def sleeper(timers: Timers, when: float) -> None:
        await timers.wheel.until(when)
        woken.append((when, trio.current_time()))

    async with ticking(0.005) as (timers, nursery):
        draw = random.Random(1)
        for _ in range(1_000):
            nursery.start_soon(sleeper, timers, draw.uniform(0, 3))
        await trio.sleep(4)
        assert len(woken) == 1_000
        assert [now for _, now in woken] == sorted(now for _, now in woken)
        for when, now in woken:
            assert 0 <= now - when < 0.005 + 1e-9
            assert now / 0.005 == pytest.approx(round(now / 0.005))
        assert not timers.wheel._slots


async def test_absolute_times_do_not_drift(autojump_clock: MockClock) -> None:
    async with ticking() as (timers, _):
        start = trio.current_time()
        for n in range(1, 5_001):
            await timers.wheel.until(start + n / 1_500)
            assert 0 <= trio.current_time() - (start + n / 1_500) <= 0.002 + 1e-9


async def test_a_time_that_has_passed_is_only_a_checkpoint(autojump_clock: MockClock) -> None:
    async with ticking() as (timers, _):
        await trio.sleep(10)
        for when in (0.0, 9.9, 10.0):
            with trio.testing.assert_checkpoints():
                await timers.wheel.until(when)
        assert trio.current_time() == 10


async def test_an_earlier_sleeper_overtakes_and_a_cancelled_one_leaves(autojump_clock: MockClock) -> None:
    woken = []

    async def sleeper(timers: Timers, when: float) -> None:
        await timers.wheel.until(when)
        woken.append(when)

    async with ticking() as (timers, nursery):
        for when in (500.0, 5.0, 50.0):
            nursery.start_soon(sleeper, timers, when)
            await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await timers.wheel.until(50.0)
        await trio.sleep_until(501)
        assert woken == [5.0, 50.0, 500.0]


async def test_named_deadlines_are_set_moved_and_cleared(autojump_clock: MockClock) -> None:
    rung: list[tuple[str, float]] = []

    async with ticking() as (timers, nursery):

        def set_to(key: str, at: float) -> None:
            timers.deadlines.set(key, at, lambda: rung.append((key, trio.current_time())), nursery)

        set_to("kept", 10)
        set_to("earlier", 100)
        set_to("earlier", 5)
        set_to("later", 7)
        set_to("later", 2_000)
        set_to("back and forth", 30)
        set_to("back and forth", 300)
        set_to("back and forth", 20)
        set_to("cleared", 8)
        timers.deadlines.clear("cleared")
        timers.deadlines.clear("never set")
        set_to("again", 9)
        timers.deadlines.clear("again")
        set_to("again", 15)
        set_to("past", -1)
        await trio.sleep(3_000)
        assert rung == [
            ("past", 0),
            ("earlier", 5),
            ("kept", 10),
            ("again", 15),
            ("back and forth", 20),
            ("later", 2_000),
        ]


async def test_what_is_cleared_does_not_stay(autojump_clock: MockClock) -> None:
    async with ticking() as (timers, nursery):
        for n in range(1_000):
            timers.deadlines.set(n, 3_600, lambda: None, nursery)
            timers.deadlines.clear(n)
        for n in range(1_000):  # one connection, a deadline moved with each message
            timers.deadlines.set("idle", 3_600 + n, lambda: None, nursery)
        assert len(timers.deadlines._alarm._heap) <= 1_001
        await trio.sleep(LOOK_SECONDS + 1)
        assert len(timers.deadlines._alarm._heap) == 1
        assert set(timers.deadlines._looks) == {"idle"}


async def test_a_callback_that_raises_crashes_its_own_nursery_only(autojump_clock: MockClock) -> None:
    def boom() -> None:
        raise ZeroDivisionError

    rung = []
    async with ticking() as (timers, nursery):
        with pytest.RaisesGroup(ZeroDivisionError):
            async with trio.open_nursery() as victim:
                timers.deadlines.set("boom", 1, boom, victim)
                timers.deadlines.set("orphan", 2, boom, victim)  # never cleared: its nursery will be gone
                await trio.sleep_forever()
        timers.deadlines.set("other", 3, lambda: rung.append(3), nursery)
        await trio.sleep(5)
        assert rung == [3]
