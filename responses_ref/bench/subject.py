"""Our server with the bench's own switches: ``python -m responses_ref.bench.subject JSON``.

The object has the options of ``serve`` by their names, ``stateless`` (each turn does the
whole context's work again) and ``marks``: after which responses to call :func:`mark`.
When it ends it prints, as one JSON line, the work that its pipeline did.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import trio

from responses_ref.model.streamer import profile
from responses_ref.pipeline import Pipeline
from responses_ref.protocol.cache import Prepared
from responses_ref.protocol.items import Item
from responses_ref.protocol.lanes import Turn
from responses_ref.server.app import App
from responses_ref.serving import Options, build, listen

from .peers import mark


@attrs.frozen
class Counted(Pipeline):
    """A pipeline whose work is summed up."""

    totals: Counter[str] = attrs.Factory(Counter)

    def prepare(self, turn: Turn, resolve: Callable[[str], Item | None]) -> Iterator[float | Prepared]:
        for step in super().prepare(turn, resolve):
            if isinstance(step, Prepared):
                self.totals.update({"turns": 1, **step.work})
            yield step


@attrs.define
class Marker:
    """A biller that tells a profiler where a response has ended."""

    marks: frozenset[int]
    bills: int = 0

    async def __call__(self, record: Mapping[str, Any]) -> None:
        self.bills += 1
        if self.bills in self.marks:
            mark()


def main() -> None:
    """Serve until SIGTERM, then say what was done."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    stateless, marks = given.pop("stateless", False), frozenset(given.pop("marks", ()))
    speed = profile(given.pop("speed", "instant"), given.pop("ttft", None))
    server = build(Options(speed=speed, **given), Marker(marks), stateless)
    assert isinstance(server.app, App)
    rooms = server.app.rooms
    counted = Counted(**attrs.asdict(rooms.pipeline, recurse=False))
    server.app = App(attrs.evolve(rooms, pipeline=counted))
    trio.run(listen, server, "127.0.0.1", 0)
    print(json.dumps(counted.totals), flush=True)


if __name__ == "__main__":
    main()
