"""Ports for the tests of ``--core``: the reference's oracle, broken in the way that the first argument says.

Run as a program. Each way is a change to the lines that go out; a port in another language breaks like this.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from responses_ref.oracle import Oracle, answers

Json = dict[str, Any]


def event(out: Json) -> Json:
    found: Json = json.loads(out["text"]) if out["out"] == "send" else {}
    return found


def unnumbered(out: Json) -> Iterator[Json]:
    """Forgets `sequence_number` from the second event of a response on."""
    body = event(out)
    if body.get("sequence_number"):
        del body["sequence_number"]
        out = {**out, "text": json.dumps(body)}
    yield out


def forgetful(out: Json) -> Iterator[Json]:
    """Never says that a response has been completed."""
    if event(out).get("type") != "response.completed":
        yield out


def dies(out: Json) -> Iterator[Json]:
    """Ends at the first delta, with a word on stderr."""
    if event(out).get("type") == "response.output_text.delta":
        sys.exit("panic: index out of range")
    yield out


def hangs(out: Json) -> Iterator[Json]:
    """Says nothing any more when it should have sent a delta."""
    if event(out).get("type") == "response.output_text.delta":
        time.sleep(1000)
    yield out


def babbles(out: Json) -> Iterator[Json]:
    """Writes a line for people."""
    print("now answering")
    yield out


def never_done(out: Json) -> Iterator[Json]:
    """Never says ``deadline``."""
    if out["out"] != "deadline":
        yield out


def endless(out: Json) -> Iterator[Json]:
    """Names a time that no clock can show."""
    yield {**out, "at": 10**400} if out["out"] == "deadline" else out


def stuck(out: Json) -> Iterator[Json]:
    """Is always late for something."""
    yield {**out, "at": 0.0} if out["out"] == "deadline" else out


def refuses(out: Json) -> Iterator[Json]:
    """Takes no line at all."""
    if out["out"] == "deadline":
        yield {"out": "error", "message": "not implemented"}


def elsewhere(out: Json) -> Iterator[Json]:
    """Speaks on a connection that there is not."""
    yield {**out, "conn": "nobody"} if out["out"] == "send" else out


def hangs_up(out: Json) -> Iterator[Json]:
    """Closes instead of completing a response."""
    if event(out).get("type") == "response.completed":
        yield {"out": "close", "conn": out["conn"], "code": 1011, "reason": "enough"}
    elif out["out"] != "close":
        yield out


WAYS: dict[str, Callable[[Json], Iterator[Json]]] = {
    way.__name__: way
    for way in (
        unnumbered,
        forgetful,
        dies,
        hangs,
        babbles,
        never_done,
        endless,
        stuck,
        refuses,
        elsewhere,
        hangs_up,
    )
}


def main(way: Callable[[Json], Iterator[Json]]) -> None:
    for line in answers(Oracle(), sys.stdin):
        for out in way(json.loads(line)):
            print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main(WAYS[sys.argv[1]])
