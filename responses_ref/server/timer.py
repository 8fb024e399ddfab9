"""One timer for all connections.

A ``trio.sleep_until`` costs about 11 us, a cancel scope each included, and epoll
rounds it up to 1 ms anyway.  So sleepers share: :class:`Wheel` wakes all streams of
one tick together, :class:`Deadlines` keeps what no task waits for (idle, lifetime,
heartbeat).  Each is one task asleep in one cancel scope whose deadline moves.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable
from contextlib import suppress

import attrs
import trio

Callback = Callable[[], None]


@attrs.define(eq=False)
class Wheel:
    """Sleepers grouped on a grid of ``step`` seconds; absolute times, so nothing drifts."""

    step: float = 0.002
    _slots: dict[int, trio.lowlevel.ParkingLot] = attrs.field(factory=dict, init=False)
    _order: list[int] = attrs.field(factory=list, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    async def until(self, when: float) -> None:
        """Sleep until the first tick at or after ``when`` (``trio.current_time()`` seconds)."""
        if when <= trio.current_time():
            await trio.lowlevel.checkpoint()
            return
        slot = math.ceil(when / self.step)
        lot = self._slots.get(slot)
        if lot is None:
            lot = self._slots[slot] = trio.lowlevel.ParkingLot()
            heapq.heappush(self._order, slot)
            self._scope.deadline = min(self._scope.deadline, slot * self.step)
        await lot.park()

    async def run(self) -> None:
        """Wake who is due, for ever."""
        while True:
            deadline = self._order[0] * self.step if self._order else math.inf
            with trio.CancelScope(deadline=deadline) as self._scope:
                await trio.sleep_forever()
            # Compared as the deadline was made: dividing the time by the step may round a due slot away.
            while self._order and self._order[0] * self.step <= trio.current_time():
                self._slots.pop(heapq.heappop(self._order)).unpark_all()


@attrs.frozen
class _Due:
    at: float
    callback: Callback
    nursery: trio.Nursery


async def call(callback: Callback) -> None:
    """Run a plain function as a task: what it raises is its nursery's affair."""
    callback()


@attrs.define(eq=False)
class Deadlines:
    """Named deadlines: set, moved and cleared in passing, most of them never reached."""

    _due: dict[Hashable, _Due] = attrs.field(factory=dict, init=False)
    _heap: list[tuple[float, int, Hashable]] = attrs.field(factory=list, init=False)
    _count: int = attrs.field(default=0, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def set(self, key: Hashable, at: float, callback: Callback, nursery: trio.Nursery) -> None:
        """Call ``callback`` at ``at`` unless moved or cleared before.

        It runs as a short task of ``nursery``, so an exception crashes the connection
        that asked for it and not the timer.  Whoever sets a key clears it in time.
        """
        before = self._due.get(key)
        self._due[key] = _Due(at, callback, nursery)
        if before is None or at < before.at:
            self._push(at, key)

    def clear(self, key: Hashable) -> None:
        """Forget ``key``; unknown keys are fine."""
        self._due.pop(key, None)

    def _push(self, at: float, key: Hashable) -> None:
        if len(self._heap) > 2 * len(self._due) + 64:  # mostly leftovers of cleared and moved keys
            self._heap = [(due.at, i, name) for i, (name, due) in enumerate(self._due.items())]
            heapq.heapify(self._heap)
        self._count += 1  # keys need no order among themselves
        heapq.heappush(self._heap, (at, self._count, key))
        self._scope.deadline = min(self._scope.deadline, at)

    async def run(self) -> None:
        """Fire what is due, for ever."""
        while True:
            deadline = self._heap[0][0] if self._heap else math.inf
            with trio.CancelScope(deadline=deadline) as self._scope:
                await trio.sleep_forever()
            while self._heap and self._heap[0][0] <= trio.current_time():
                self._fire(heapq.heappop(self._heap)[2])

    def _fire(self, key: Hashable) -> None:
        due = self._due.get(key)
        if due is None:
            return
        if due.at > trio.current_time():  # moved back meanwhile: only now is that worth an entry
            self._push(due.at, key)
            return
        del self._due[key]
        with suppress(RuntimeError):  # that nursery has ended: nobody is left to be told
            due.nursery.start_soon(call, due.callback)


class Timers:
    """Both timers of a server; ``step`` is the wheel's grid in seconds."""

    def __init__(self, step: float = 0.002) -> None:
        self.wheel, self.deadlines = Wheel(step), Deadlines()

    async def run(self) -> None:
        """Run both, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.wheel.run)
            nursery.start_soon(self.deadlines.run)
