"""The recorded vectors: byte-identical when made again, the same story at each level, of use to a port."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance import vectors

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recorded() -> dict[str, vectors.Json]:
    return vectors.record()


def test_the_same_seed_gives_the_same_vectors(recorded: dict[str, vectors.Json]) -> None:
    """Ids, times and words come from the seed; a second recording is the same to the byte."""
    assert json.dumps(vectors.record()) == json.dumps(recorded)


def test_every_level_holds_every_scene(recorded: dict[str, vectors.Json]) -> None:
    """The three files show the same scenes, and each step of the outer level ends with a deadline."""
    scenes = [vector["id"] for vector in recorded["oracle.json"]["vectors"]]
    assert scenes == [vector["id"] for vector in recorded["core.json"]["vectors"]]
    assert {vector["id"].split()[0] for vector in recorded["emitter.json"]["vectors"]} < set(scenes)
    for vector in recorded["oracle.json"]["vectors"]:
        for step in vector["steps"]:
            assert [line["out"] for line in step["out"]].count("deadline") == 1
            assert step["out"][-1]["out"] == "deadline"


def test_core_and_oracle_tell_the_same_story(recorded: dict[str, vectors.Json]) -> None:
    """What the core wants sent is what goes out, event for event."""
    for core, oracle in zip(
        recorded["core.json"]["vectors"], recorded["oracle.json"]["vectors"], strict=True
    ):
        wanted = [event for step in core["steps"] for event in vectors._events(step)]
        sent = [
            json.loads(line["text"])
            for step in oracle["steps"]
            for line in step["out"]
            if line["out"] == "send"
        ]
        assert wanted == sent, core["id"]


def test_a_port_in_another_language(recorded: dict[str, vectors.Json], tmp_path: Path) -> None:
    """The example port makes all events of all emitter vectors, and notices one that is off by a letter."""
    node = shutil.which("node")
    if node is None:
        assert not os.environ.get("REQUIRE_ALL"), "Node is missing"
        pytest.skip("Node is missing")
    emitter = recorded["emitter.json"]
    path = tmp_path / "emitter.json"
    port = [node, str(ROOT / "spec/examples/port.mjs"), str(path)]
    path.write_text(json.dumps(emitter))
    done = subprocess.run(port, capture_output=True, text=True, timeout=60)
    count = len(emitter["vectors"])
    assert (done.stdout, done.returncode) == (f"{count} passed, 0 failed\n", 0)
    emitter["vectors"][0]["events"][4]["delta"] += "!"
    path.write_text(json.dumps(emitter))
    done = subprocess.run(port, capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith(f"{count - 1} passed, 1 failed\n")
    assert done.returncode == 1
