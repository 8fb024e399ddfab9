"""The judge keeps what is open, and of what is closed only ids up to a bound; it never keeps the records."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from servers import spec, turn

from conformance import judge, state
from conformance.judge import Judge
from conformance.state import Item, Lane, Part, Request, Response, Seen
from conformance.trace import read

KEPT = (Response, Item, Part, Request, Lane)


def records(turns: int) -> Iterator[dict[str, Any]]:
    for number in range(turns):
        create = {"type": "response.create", "model": "m", "input": "say: a b"}
        yield {"t": 0.0, "conn": "a", "dir": "c2s", "kind": "text", "text": json.dumps(create)}
        for event in turn(f"resp_{number}", ["a", " b"]):
            yield {"t": 0.0, "conn": "a", "dir": "s2c", "kind": "text", "text": json.dumps(event)}


def kept(one: Judge) -> Counter[str]:
    """How many objects of the state there are, reachable from a judge."""
    gc.collect()
    found, todo, seen = Counter[str](), [one], {id(one)}
    while todo:
        for inner in gc.get_referents(todo.pop()):
            if id(inner) not in seen and not isinstance(inner, type):
                seen.add(id(inner))
                todo.append(inner)
                if isinstance(inner, KEPT):
                    found[type(inner).__name__] += 1
    return found


def judged(turns: int) -> Judge:
    one = Judge(spec())
    for line, record in enumerate(records(turns), 1):
        one.feed(line, record)
    return one


def test_what_is_kept_does_not_grow_with_closed_responses() -> None:
    few, many = kept(judged(3)), kept(judged(300))
    assert few == many
    assert few["Response"] == few["Lane"] == 1
    assert few["Item"] == few["Part"] == few["Request"] == 0


def test_an_open_response_is_kept() -> None:
    """The control: the count above would see a response that is not let go."""
    one = judged(3)
    whole = len(list(records(1)))
    for record in list(records(4))[-whole:-1]:
        one.feed(1, record)
    found = kept(one)
    assert (found["Response"], found["Item"], found["Part"]) == (2, 1, 1)


def test_ids_are_forgotten_beyond_a_bound() -> None:
    seen = Seen(limit=3)
    assert [seen.add(name) for name in "abcda"] == [True, True, True, True, True]
    assert [seen.add(name) for name in "cda"] == [False, False, False]
    assert len(seen._known) == len(seen._order) == 3
    assert state.SEEN_LIMIT <= 20_000


def test_findings_are_counted_beyond_a_bound() -> None:
    one = Judge(spec())
    for line in range(100):
        body = json.dumps({"type": "response.done", "response": {"id": "r"}})
        one.feed(line, {"t": 0.0, "conn": "a", "dir": "s2c", "kind": "text", "text": body})
    found = one.finish()
    assert found.broken["RWS-ORD-005"] == 100
    assert sum(one.clause == "RWS-ORD-005" for one in found.findings) == judge.KEPT


class Line(str):
    """A line of a file that can be watched."""

    alive = 0

    def __new__(cls, text: str) -> Line:
        Line.alive += 1
        return super().__new__(cls, text)

    def __del__(self) -> None:
        Line.alive -= 1


def test_a_file_is_read_as_a_stream() -> None:
    most = 0

    def lines() -> Iterator[str]:
        nonlocal most
        for record in records(50):
            yield Line(json.dumps(record))
            most = max(most, Line.alive)

    found = judge.judge(spec(), read(lines()))
    assert found.records > 400
    assert most <= 2
