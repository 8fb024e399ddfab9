"""Our server with the bench's own switches: ``python -m responses_ref.bench.subject JSON``.

The object has the options of ``serve`` by their names, ``stateless`` (each turn does the
whole context's work again) and ``counted``: the responses to count under callgrind.
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
from responses_ref.server.session import Biller, no_biller
from responses_ref.serving import Options, build, listen

from .callgrind import Responses


@attrs.frozen
class Counted(Pipeline):
    """A pipeline whose work is summed up."""

    totals: Counter[str] = attrs.Factory(Counter)

    def prepare(self, turn: Turn, resolve: Callable[[str], Item | None]) -> Iterator[float | Prepared]:
        for step in super().prepare(turn, resolve):
            if isinstance(step, Prepared):
                self.totals.update({"turns": 1, **step.work})
            yield step


def counting(counted: frozenset[int]) -> Biller:
    """A biller that knows where a response has ended."""
    responses = Responses(counted)

    async def bill(record: Mapping[str, Any]) -> None:
        responses.end()

    return bill


def main() -> None:
    """Serve until SIGTERM, then say what was done."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    stateless, counted = given.pop("stateless", False), frozenset(given.pop("counted", ()))
    options = Options(speed=profile(given.pop("speed", "instant"), given.pop("ttft", None)), **given)
    server = build(options, counting(counted) if counted else no_biller, stateless)
    assert isinstance(server.app, App)
    rooms = server.app.rooms
    pipeline = Counted(**attrs.asdict(rooms.pipeline, recurse=False))
    server.app = App(attrs.evolve(rooms, pipeline=pipeline))
    trio.run(listen, server, options)
    print(json.dumps(pipeline.totals), flush=True)


if __name__ == "__main__":
    main()
