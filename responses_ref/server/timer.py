"""One timer for all connections.

A ``trio.sleep_until`` costs about 11 us, its cancel scope included, and epoll rounds
it up to 1 ms anyway.  So all share one task, asleep in one cancel scope whose deadline
moves: :class:`Wheel` wakes the streams of one tick together, :class:`Deadlines` keeps
what no task waits for (a request's head, idle, lifetime, heartbeat).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

import attrs
import trio

Callback = Callable[[], object]
Ring = Callable[[Any, float], None]
LOOK_SECONDS = 60.0  # so long at most does a key that was cleared or moved lie in the heap


async def call(callback: Callback) -> None:
    """Run a plain function as a task: what it raises is its nursery's affair."""
    callback()


@attrs.define(eq=False)
class Alarm:
    """The sleeping task; what it calls must not raise."""

    _heap: list[tuple[float, int, Ring, Any]] = attrs.field(factory=list, init=False)
    _count: int = attrs.field(default=0, init=False)  # so that nothing behind it is ever compared
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def set(self, at: float, ring: Ring, key: Any) -> None:
        """Call ``ring(key, at)`` at ``at``, in ``trio.current_time()`` seconds."""
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, ring, key))
        if at < self._scope.deadline:
            self._scope.deadline = at

    async def run(self) -> None:
        """Sleep and call, for ever."""
        while True:
            deadline = self._heap[0][0] if self._heap else math.inf
            with trio.CancelScope(deadline=deadline) as self._scope:
                await trio.sleep_forever()
            while self._heap and self._heap[0][0] <= trio.current_time():
                at, _, ring, key = heapq.heappop(self._heap)
                ring(key, at)


@attrs.define(eq=False)
class Wheel:
    """Sleepers grouped on a grid of ``step`` seconds; absolute times, so nothing drifts."""

    _alarm: Alarm
    step: float
    _slots: dict[int, trio.lowlevel.ParkingLot] = attrs.field(factory=dict, init=False)

    async def until(self, when: float) -> float:
        """Sleep until the first tick at or after ``when``; the time then. Always a checkpoint."""
        now = trio.current_time()
        if when <= now:
            await trio.lowlevel.checkpoint()
            return now
        slot = math.ceil(when / self.step)
        lot = self._slots.get(slot)
        if lot is None:
            lot = self._slots[slot] = trio.lowlevel.ParkingLot()
            self._alarm.set(slot * self.step, self._wake, slot)
        await lot.park()
        return trio.current_time()

    def _wake(self, slot: int, at: float) -> None:
        self._slots.pop(slot).unpark_all()


@attrs.define(eq=False)
class _Due:
    at: float
    callback: Callback
    nursery: trio.Nursery


@attrs.define(eq=False)
class Deadlines:
    """Named deadlines: set, moved and cleared in passing, most of them never reached."""

    _alarm: Alarm
    _due: dict[Hashable, _Due] = attrs.field(factory=dict, init=False)
    _looks: dict[Hashable, float] = attrs.field(factory=dict, init=False)

    def set(self, key: Hashable, at: float, callback: Callback, nursery: trio.Nursery) -> None:
        """Call ``callback`` at ``at`` unless moved or cleared before.

        It runs as a short task of ``nursery``, so an exception crashes the connection
        that asked for it and not the timer.
        """
        self._due[key] = _Due(at, callback, nursery)
        look = min(at, trio.current_time() + LOOK_SECONDS)
        if look < self._looks.get(key, math.inf):  # else one comes early enough
            self._looks[key] = look
            self._alarm.set(look, self._look, key)

    def clear(self, key: Hashable) -> None:
        """Forget ``key``; unknown keys are fine."""
        self._due.pop(key, None)

    def _look(self, key: Hashable, at: float) -> None:
        if self._looks.get(key) != at:  # an earlier look has replaced this one
            return
        del self._looks[key]
        due = self._due.get(key)
        if due is not None and due.at > trio.current_time():
            self.set(key, due.at, due.callback, due.nursery)
        elif due is not None:
            del self._due[key]
            with suppress(RuntimeError):  # that nursery has ended: nobody is left to be told
                due.nursery.start_soon(call, due.callback)


class Timers:
    """Both timers of a server; ``step`` is the wheel's grid in seconds."""

    def __init__(self, step: float = 0.002) -> None:
        alarm = Alarm()
        self.wheel, self.deadlines, self.run = Wheel(alarm, step), Deadlines(alarm), alarm.run
