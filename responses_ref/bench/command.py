"""``responses-ref bench``: run benchmarks, print what they found, and judge it.

Exit code 0: every arm did its work, and the instruction ratios hold. 1: a count was
wrong. 2: asked for wrongly. 3: something needed is not installed. Times are reported
beside their goals and never judged by the exit code: a busy machine is not a fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from . import agent_loop, fairness, goals, instructions, memory, stream
from .arms import Load
from .machine import CLIENT_CORE, described, pin
from .plot import svg
from .relay import Distance
from .report import Report, table
from .servers import CannotStart
from .wire import Broken

WRONG, USAGE, MISSING = 1, 2, 3

Bench = Callable[[bool], Report]
BENCHES: dict[str, Bench] = {
    "agent-loop": lambda quick: agent_loop.run(agent_loop.QUICK if quick else agent_loop.FULL),
    "stream": lambda quick: stream.run(stream.QUICK if quick else stream.FULL),
    "fairness": lambda quick: fairness.fairness(1 if quick else 5),
    "isolation": lambda quick: fairness.isolation(1 if quick else 3, 1 if quick else 5),
    "memory": lambda quick: memory.run(200 if quick else 1_000),
    "instructions": lambda quick: instructions.run(),
}
ALL = "all"


@attrs.frozen
class Axes:
    """One setting of ``agent-loop`` of the caller's own; None leaves the default."""

    turns: int | None = None
    bytes: int | None = None
    tps: float | None = None
    ttft: float | None = None
    tool_seconds: float | None = None
    rtt: float | None = None
    bandwidth: float | None = None
    classify_ns_per_byte: float | None = None
    hops: int | None = None
    hop_latency: float | None = None
    rounds: int | None = None

    def scene(self) -> agent_loop.Scene | None:
        """The setting, or nothing when none was asked for."""
        given = {name: value for name, value in attrs.asdict(self).items() if value is not None}
        if not given:
            return None
        names = {"turns": "turns", "bytes": "output_bytes", "tool_seconds": "tool_seconds"}
        load = Load(**{names[name]: given.pop(name) for name in names if name in given})
        far = {name: given.pop(name) for name in ("rtt", "bandwidth") if name in given}
        return agent_loop.Scene("yours", load, Distance(**{"rtt": 0.02, **far}), **given)


def run(
    bench: str, quick: bool = False, json_file: Path | None = None, plot_file: Path | None = None, **axes: Any
) -> int:
    """Run one benchmark or all; the exit code."""
    scene = Axes(**axes).scene()
    if scene is not None and bench != "agent-loop":
        return _complain(USAGE, "only agent-loop has axes")
    for path in filter(None, (json_file, plot_file)):
        try:
            path.write_text("")
        except OSError:
            return _complain(USAGE, f"cannot write {path}")
    chosen = BENCHES if bench == ALL else {bench: BENCHES[bench]}
    if scene is not None:
        chosen = {bench: lambda _: agent_loop.run([scene])}
    machine = described()
    print(" ".join(f"{name} {value}" for name, value in machine.items()), flush=True)
    pin(CLIENT_CORE)
    reports, missing = _measure(chosen, quick)
    figures = {name: value for report in reports for name, value in report.figures.items()}
    verdicts = goals.judged(figures, quick, every=bench == ALL)
    if verdicts:
        print("\n== goals ==", *table(verdicts), sep="\n")
    if json_file is not None:
        head = {"machine": machine, "quick": quick, "goals": verdicts, "figures": figures}
        found = {report.name: report.data() for report in reports}
        json_file.write_text(json.dumps({**head, "benchmarks": found}, indent=1) + "\n")
    if plot_file is not None:
        plot_file.write_text(svg(chart for report in reports for chart in report.charts))
    wrong = any(report.faults for report in reports)
    return WRONG if wrong else MISSING if missing else 0


def _measure(chosen: Mapping[str, Bench], quick: bool) -> tuple[list[Report], bool]:
    """Run them one after the other; whether one of them could not be run."""
    reports, missing = list[Report](), False
    for name, measure in chosen.items():
        report = _guarded(name, measure, quick)
        if report is None:
            missing = True
        else:
            reports.append(report)
            print(f"\n{report.text()}", flush=True)
    return reports, missing


def _complain(code: int, why: str) -> int:
    print(f"responses-ref bench: {why}", file=sys.stderr)
    return code


def _guarded(name: str, measure: Bench, quick: bool) -> Report | None:
    """A benchmark's report; None when it needs what is not installed. A server's misbehaviour is a fault."""
    try:
        return measure(quick)
    except instructions.NoValgrind as error:
        _complain(MISSING, str(error))
        return None
    except (Broken, CannotStart, OSError) as error:
        return Report(name, faults=[str(error)])
