"""A lane among others is the same lane alone: its events are equal up to ids, and to how they interleave."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import attrs
from core_bench import Bench, Event, call, create, message, output, steer
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_ref.protocol.batch import BatchPart, Failed, Finished, ItemDone, ItemStarted, Piece
from responses_ref.protocol.lanes import Turn
from responses_ref.protocol.settings import Settings

CREATES = ["new", "next", "wrong", "stored", "answer"]
BATCHES: dict[str, list[BatchPart]] = {
    "say": [Piece("x", "output_text")],
    "end": [*message("ok"), Finished()],
    "call": [*call(), Finished()],
    "fail": [Failed("server_error", "It broke.")],
    "cut": [Finished("max_output_tokens")],
}


@attrs.define
class Client:
    """One lane's client: it goes on as soon as its lane lets it."""

    bench: Bench
    name: str | None
    todo: list[str]
    creates: int = 0

    def __attrs_post_init__(self) -> None:
        self.todo = [*self.todo, *["end"] * sum(word in CREATES or word == "steer" for word in self.todo)]

    def ready(self) -> bool:
        """Whether its next step can be taken: the model goes on where a turn plays, or none waits."""
        waits = any(turn.lane.name == self.name for turn in self.bench.core.lanes.waiting)
        return bool(self.todo) and (self.todo[0] in CREATES or self._turn() is not None or not waits)

    def go(self) -> None:
        word, turn = self.todo.pop(0), self._turn()
        if word in CREATES:
            self._create(word)
        elif turn is not None and word == "steer":
            self.bench.send(steer(turn.live.response.id, "steer"))
        elif turn is not None:
            self.bench.say(*self._fitting(turn, word), turn=turn)

    def _turn(self) -> Turn | None:
        return next((turn for turn in self.bench.playing if turn.lane.name == self.name), None)

    def _fitting(self, turn: Turn, word: str) -> list[BatchPart]:
        """Close what is open before anything else is said."""
        opened = turn.live.item is not None
        if word == "say":
            return BATCHES[word] if opened else [ItemStarted("message"), *BATCHES[word]]
        if word == "fail":
            return BATCHES[word]
        return [*([ItemDone()] if opened else []), *BATCHES[word]]

    def _create(self, word: str) -> None:
        self.creates += 1
        ended = [
            event["response"] for event in self.events() if "response" in event and event["response"]["usage"]
        ]
        newest = ended[-1] if ended else {"id": "resp_0", "output": []}
        due = [output(item["call_id"]) for item in newest["output"] if item["type"] == "function_call"]
        parent = None if word in ("new", "stored") else newest["id"]
        said: Any = {"wrong": [5], "answer": due}.get(word, f"number {self.creates}")
        lane = {} if self.name is None else {"stream_id": self.name}
        self.bench.send(create(said, previous_response_id=parent, store=word == "stored", **lane))

    def events(self) -> list[Event]:
        return [event for event in self.bench.events if event.get("stream_id") == self.name]


def _renamed(events: Iterable[Event]) -> list[Event]:
    """The events with ids in the order in which they appear."""
    names: dict[str, str] = {}
    pattern = re.compile(r"\b(resp|msg|fc|call|steer)_[1-9]\d*\b")
    text = json.dumps(list(events))
    return json.loads(pattern.sub(lambda found: names.setdefault(found[0], f"{found[1]}#{len(names)}"), text))


def _alone(name: str | None, todo: list[str], slots: int) -> list[Event]:
    bench = Bench(Settings(max_in_flight=slots))
    client = Client(bench, name, todo)
    while client.todo:
        assert client.ready()
        client.go()
    return _renamed(client.events())


todos = st.lists(st.sampled_from([*CREATES, *BATCHES, "steer"]), max_size=10)


@settings(max_examples=max(200, settings().max_examples))
@given(scripts=st.lists(todos, min_size=2, max_size=4), slots=st.sampled_from([1, 2, 16]), data=st.data())
def test_a_lane_among_others(scripts: list[list[str]], slots: int, data: st.DataObject) -> None:
    """Whatever the others do, and however few slots there are, a lane sees what it would see alone."""
    bench = Bench(Settings(max_in_flight=slots))
    names = [None, "a", "b", "c"]
    clients = [Client(bench, name, todo) for name, todo in zip(names, scripts, strict=False)]
    while ready := [client for client in clients if client.ready()]:
        data.draw(st.sampled_from(ready)).go()
    assert not any(client.todo for client in clients)
    for client, todo in zip(clients, scripts, strict=True):
        assert _renamed(client.events()) == _alone(client.name, todo, slots)
