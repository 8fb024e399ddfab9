"""Vectors for ports, recorded from the reference's oracle: three levels of the same scenes.

``oracle``: lines in and lines out, the scripted model inside. ``core``: what the core was told and what it
wanted done, model batches recorded. ``emitter``: batches in, events out, one response each: where to begin.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import attrs

Json = dict[str, Any]
VECTOR_VERSION: Final = 1
SEED: Final = 1
ANSWER_SECONDS: Final = 30
ORACLE: Final = (sys.executable, "-m", "responses_ref", "oracle", "--seed", str(SEED))


@attrs.define
class Scene:
    """One dialogue with the oracle while it is recorded. ``last`` is the newest response in any event."""

    process: subprocess.Popen[str]
    steps: list[Json] = attrs.Factory(list)
    last: Json = attrs.Factory(dict)

    def do(self, **line: Any) -> list[Json]:
        """Say one line, and take what comes until the oracle says when something happens next."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        out: list[Json] = []
        while not out or out[-1]["out"] not in ("deadline", "error"):
            out.append(json.loads(self.process.stdout.readline()))
        self.steps.append({"in": line, "out": out})
        for answer in out:
            if answer["out"] == "send":
                self.last = json.loads(answer["text"]).get("response") or self.last
        return out

    def open(self, conn: str = "a") -> None:
        self.do(do="open", conn=conn, inner=True)

    def send(self, conn: str = "a", **event: Any) -> None:
        self.do(do="receive", conn=conn, text=json.dumps(event))

    def create(self, text: Any, conn: str = "a", **fields: Any) -> None:
        """One ``response.create``, for the scripted model."""
        self.send(conn, type="response.create", model="scripted", input=text, **fields)

    def calls(self) -> list[str]:
        """The call ids in the newest response."""
        return [item["call_id"] for item in self.last["output"] if "call_id" in item]


def record() -> Json:
    """Play all scenes; gives the three files by name."""
    from conformance.vectors.scenes import SCENES

    played = [(name, title, _play(act)) for name, (title, act) in SCENES.items()]
    oracle = [
        {"id": name, "title": title, "steps": [_outer(s) for s in steps]} for name, title, steps in played
    ]
    core = [{"id": name, "title": title, "steps": list(_inner(steps))} for name, title, steps in played]
    emitter = [vector for one in core for vector in emitter_vectors(one)]
    head = {"vector_version": VECTOR_VERSION, "seed": SEED}
    return {
        "oracle.json": {**head, "vectors": oracle},
        "core.json": {**head, "vectors": core},
        "emitter.json": {**head, "vectors": emitter},
    }


def _play(act: Any) -> list[Json]:
    with subprocess.Popen(ORACLE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        scene = Scene(process)
        try:
            act(scene)
        finally:
            if process.stdin:
                process.stdin.close()
            process.wait(ANSWER_SECONDS)
    return scene.steps


def _outer(step: Json) -> Json:
    line = {key: value for key, value in step["in"].items() if key != "inner"}
    return {"in": line, "out": [answer for answer in step["out"] if answer["out"] != "core"]}


def _inner(steps: list[Json]) -> Iterator[Json]:
    for step in steps:
        for answer in step["out"]:
            if answer["out"] == "core":
                yield {key: value for key, value in answer.items() if key != "out"}


# --- One response each: what a port's emitter is given, and what it has to make of it. ---


def emitter_vectors(core: Json) -> Iterator[Json]:
    """The responses of a scene that ran by themselves: no steer, no heartbeat, no pause."""
    turns: dict[tuple[str, int], list[Json]] = {}
    for step in core["steps"]:
        if "turn" in step["with"]:
            turns.setdefault((step["conn"], step["with"]["turn"]), []).append(step)
    for (conn, turn), steps in turns.items():
        vector = _emitter_vector(steps)
        if vector:
            yield {"id": f"{core['id']} {conn}{turn}", **vector}


def _emitter_vector(steps: list[Json]) -> Json | None:
    events = [event for step in steps for event in _events(step)]
    kinds = [event["type"] for event in events]
    batches = [step["with"]["batch"] for step in steps if step["input"] == "model"]
    last = batches[-1][-1]["part"] if batches and batches[-1] else ""
    whole = kinds[:1] == ["response.created"] and kinds.count("response.in_progress") == 1
    whole &= [event.get("sequence_number") for event in events] == list(range(len(events)))
    if not whole or last not in ("Finished", "Failed") or "response.done" in kinds:
        return None
    end = events[-1]["response"]
    return {
        "response": events[0]["response"],
        "stream_id": events[0].get("stream_id"),
        "ids": [identity for step in steps for identity in step["ids"]][1:],
        "sealed": _sealed(end),
        "batches": batches,
        "completed_at": end["completed_at"],
        "usage": end["usage"],
        "events": events,
    }


def _sealed(response: Json) -> dict[str, str]:
    """Encrypted reasoning by item id: opaque, so a port is told what it is."""
    items = response["output"]
    return {
        item["id"]: item["encrypted_content"]
        for item in items
        if item.get("encrypted_content") and item["type"] == "reasoning"
    }


def _events(step: Json) -> Iterator[Json]:
    for action in step["actions"]:
        if action["action"] == "Send":
            yield from action.get("events", [action.get("event")])
