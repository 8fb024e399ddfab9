"""``bench agent-loop``: the same conversation, had in each of the ways that :mod:`.arms` knows."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import attrs

from .arms import WAYS, Load, Way
from .machine import CLIENT_CORE
from .relay import Distance
from .report import Chart, Report, Row, middle
from .servers import Server, spawn, subject

SHOWN_TURNS = (3, 20, 98)
SETTLE_SECONDS = 0.002  # the server's bill and the kernel's accounts come a moment after the last event


@attrs.frozen
class Scene:
    """One setting of all axes. ``tps`` 0 is as fast as the server can."""

    name: str
    load: Load = attrs.Factory(Load)
    distance: Distance = attrs.Factory(Distance)
    tps: float = 1_000
    ttft: float = 0.05
    classify_ns_per_byte: float = 0.0
    hops: int = 0  # services before the model, of ``hop_latency`` seconds each
    hop_latency: float = 0.0
    rounds: int = 1
    letters: tuple[str, ...] = tuple(way.letter for way in WAYS)

    def said(self) -> str:
        """The setting in words."""
        load, far = self.load, self.distance
        line = f"{far.bandwidth * 8 / 1e6:g} Mbit/s" if far.bandwidth else "any bandwidth"
        return (
            f"{load.turns} turns, {load.output_bytes} bytes a tool output, {load.tool_seconds:g} s a tool,"
            f" {self.tps:g} tokens/s after {self.ttft * 1e3:g} ms, RTT {far.rtt * 1e3:g} ms, {line},"
            f" {far.setup_rtts} RTTs to connect, classifier {self.classify_ns_per_byte:g} ns/byte,"
            f" {self.hops} hops of {self.hop_latency * 1e3:g} ms, rounds: {self.rounds}"
        )

    def model_seconds(self, tokens: int) -> float:
        """What the model alone takes for a turn."""
        return self.ttft + ((tokens - 1) / self.tps if self.tps else 0.0)


@attrs.frozen
class Turn:
    """What one turn took: seconds on the client's clock beyond the model's, and the server's CPU seconds."""

    overhead: float
    cpu: float
    cached: int


@attrs.frozen
class Run:
    """One conversation in one way."""

    total: float
    turns: list[Turn]
    connections: int
    sent: int
    received: int
    chained: int  # turns that went on where the one before had stopped
    work: dict[str, int]


def play(way: Way, scene: Scene) -> Run:
    """Have the conversation once, with a server and a line of its own."""
    names = ("ttft", "classify_ns_per_byte", "hops", "hop_latency")
    options: dict[str, Any] = {name: getattr(scene, name) for name in names}
    options |= {"speed": f"{scene.tps:g}" if scene.tps else "instant", **way.server}
    server = spawn(way.letter, subject(json.dumps(options)))
    command = [sys.executable, "-m", "responses_ref.bench.relay", str(server.port)]
    relay = spawn("relay", [*command, json.dumps(attrs.asdict(scene.distance))], CLIENT_CORE)
    work = "{}"
    try:
        run = converse(way, scene, server, relay.port)
    finally:
        relay.process.kill()
        relay.end()
        work = server.end()
    return attrs.evolve(run, work=json.loads(work))


def converse(way: Way, scene: Scene, server: Server, port: int) -> Run:
    """The client's side of it."""
    arm, load = way.make(port), scene.load
    new, turns, chained, said = [load.opening()], list[Turn](), 0, 0
    began, idle = time.monotonic(), 0.0
    for number in range(1, load.turns + 1):
        cpu, start = server.cpu(), time.monotonic()
        response = arm.ask(new)
        took = time.monotonic() - start
        last = response["output"][-1]
        time.sleep(SETTLE_SECONDS)
        tokens = response["usage"]["output_tokens"] - (said if way.letter == "F" else 0)
        said = response["usage"]["output_tokens"]
        cached = response["usage"]["input_tokens_details"]["cached_tokens"]
        turns.append(Turn(took - scene.model_seconds(tokens), server.cpu() - cpu, cached))
        chained += goes_on(last, number, load)
        idle += time.monotonic() - start - took
        if number < load.turns:
            new = [load.tool_output(last, number)]
            time.sleep(load.tool_seconds)
    total = time.monotonic() - began - idle
    arm.close()
    return Run(total, turns, arm.connections, arm.sent, arm.received, chained, {})


def goes_on(last: dict[str, Any], number: int, load: Load) -> bool:
    """Whether a turn said what only a server with the whole context can know: the script's next line."""
    if number == load.turns:
        return bool(last["type"] == "message")
    return bool(last["type"] == "function_call" and json.loads(last["arguments"])["turn"] == number)


def measure(scene: Scene) -> dict[str, list[Run]]:
    """Every way of the scene, the rounds interleaved."""
    runs: dict[str, list[Run]] = {}
    for _ in range(scene.rounds):
        for way in WAYS:
            if way.letter in scene.letters:
                runs.setdefault(way.letter, []).append(play(way, scene))
    return runs


def near(turns: Sequence[Turn], number: int, field: str) -> float | None:
    """The median of the three turns around this one; nothing where the run is too short."""
    if number > len(turns):
        return None
    first = min(number - 2, len(turns) - 3)
    return middle(getattr(turn, field) for turn in turns[first : first + 3])


def rows(scene: Scene, runs: dict[str, list[Run]]) -> list[Row]:
    """A table line for each way: medians over the rounds."""
    found = []
    for way in WAYS:
        if way.letter not in runs:
            continue
        mine = runs[way.letter]
        row: Row = {"arm": way.letter, "": way.label, "total s": middle(run.total for run in mine)}
        for field, title, unit in (("overhead", "over ms", 1e3), ("cpu", "cpu ms", 1e3)):
            for number in SHOWN_TURNS:
                seen = [near(run.turns, number, field) for run in mine]
                values = [value * unit for value in seen if value is not None]
                if values:
                    row[f"{title} t{number}"] = middle(values)
        first = mine[0]
        row |= {"sent KB": first.sent / 1e3, "connects": first.connections}
        row |= {name: first.work.get(name) for name in ("items", "tokens", "lookups")}
        row["chained"] = f"{first.chained}/{scene.load.turns}"
        found.append(row)
    return found


def check(report: Report, scene: Scene, runs: dict[str, list[Run]]) -> None:
    """Every arm must have done its own work, and no other's: counts, never times."""
    turns = scene.load.turns
    for way in WAYS:
        for run in runs.get(way.letter, []):
            where, work = f"{scene.name}, arm {way.letter}", run.work
            report.check(run.chained == turns, f"{where}: {run.chained} of {turns} turns went on")
            report.check(
                work.get("turns") == turns, f"{where}: the server prepared {work.get('turns')} turns"
            )
            sent = turns * turns if way.grows else turns
            report.check(work.get("items") == sent, f"{where}: {work.get('items')} items read, not {sent}")
            opened = turns if way.letter == "A" else 1
            report.check(run.connections == opened, f"{where}: {run.connections} connections, not {opened}")
            warm = all(
                turn.cached for turn in run.turns[1:]
            )  # a paused response's usage is one for all turns
            report.check(
                way.letter == "F" or warm != way.redone, f"{where}: cached tokens do not fit its kind"
            )
    characters = {letter: mine[0].work.get("characters", 0) for letter, mine in runs.items()}
    for redone, done in (("A", "E"), ("B", "E"), ("C cold", "C warm"), ("D", "E")):
        if {redone, done} <= characters.keys() and turns >= 8:
            more = characters[redone] > 3 * characters[done]
            report.check(more, f"{scene.name}: arm {redone} reads hardly more than arm {done}")


def charts(scene: Scene, runs: dict[str, list[Run]]) -> list[Chart]:
    labels = {way.letter: f"{way.letter}: {way.label}" for way in WAYS}
    lines = {
        labels[letter]: [
            (turn, middle(run.turns[turn - 1].overhead for run in mine) * 1e3)
            for turn in range(1, scene.load.turns + 1)
        ]
        for letter, mine in runs.items()
    }
    totals = {labels[letter]: middle(run.total for run in mine) for letter, mine in runs.items()}
    title = f"{scene.name}: {scene.load.turns} turns, RTT {scene.distance.rtt * 1e3:g} ms"
    return [
        Chart(f"Overhead of each turn, {title}", "ms", series=lines, x="turn"),
        Chart(f"The whole loop, {title}", "s", bars=totals),
    ]


FAR = Distance(rtt=0.02)
QUICK = (Scene("quick", Load(turns=8, output_bytes=4_000, tokens=30), FAR, tps=2_000, ttft=0.01),)
HEAVY = 800.0  # ns a byte: a classifier that a real service might run
FULL = (
    Scene("20 turns", Load(), FAR, rounds=5),
    Scene(
        "20 turns, heavy classifier",
        Load(),
        FAR,
        classify_ns_per_byte=HEAVY,
        rounds=5,
        letters=("B", "C warm", "E"),
    ),
    Scene(
        "20 turns, heavy classifier, four services",
        Load(),
        FAR,
        classify_ns_per_byte=HEAVY,
        hops=4,
        hop_latency=0.005,
        rounds=3,
        letters=("B", "C warm"),
    ),
    Scene("100 turns", Load(turns=100, output_bytes=2_000), FAR),
    Scene("100 turns on one machine", Load(turns=100, output_bytes=8_000), tps=0, ttft=0.0),
)


def run(scenes: Sequence[Scene]) -> Report:
    """Play the scenes one after the other."""
    report = Report("agent-loop")
    report.notes.append(
        "The distance is emulated by a relay: delay, bandwidth, connection set-up, slow start (relay.py)."
        " over: milliseconds of a turn beyond the model's own; cpu: the server's, streaming included;"
        " items, tokens, lookups: what its pipeline did in all; chained: turns that went on with the script."
    )
    for scene in scenes:
        runs = measure(scene)
        report.tables[f"{scene.name}: {scene.said()}"] = rows(scene, runs)
        check(report, scene, runs)
        if not report.charts:
            report.charts = charts(scene, runs)
        report.figures |= figures(scene, runs)
    return report


def figures(scene: Scene, runs: dict[str, list[Run]]) -> dict[str, float]:
    """What goal 8 is judged by: how much less time E takes."""
    total = {letter: middle(run.total for run in mine) for letter, mine in runs.items()}
    if scene.name == "20 turns":
        warm = abs(total["E"] / total["C warm"] - 1)
        return {"loop E faster than A": 1 - total["E"] / total["A"], "loop E beside C warm": warm}
    if scene.classify_ns_per_byte and {"B", "E"} <= total.keys():
        return {"loop E faster than B, heavy": 1 - total["E"] / total["B"]}
    return {}
