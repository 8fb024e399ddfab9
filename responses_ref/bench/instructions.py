"""``bench instructions``: user-space instructions, counted by callgrind.

Such a count hardly depends on what else the machine does, so it is judged even in CI.
Each server runs under callgrind with its client outside, and says itself where a
response ends (:mod:`.callgrind`): what it executes between two ends is the cost of one.
"""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import attrs

from .arms import Arm, Json, Load, OverWebSocket
from .callgrind import OPTIONS, program
from .report import Chart, Report, Row, middle
from .servers import OURS, Server, peer, spawn, subject
from .wire import Broken, WebSocket, ask, stream

YARDSTICK = "trio-websocket"
FEW, MANY = 100, 612  # deltas of two responses: their difference is what a delta costs
ASKED, COUNTED = (FEW, FEW, FEW, MANY, FEW), (3, 4)  # the first ones make what is made on first use
EARLY, LATE = 3, 200  # turns; each with its neighbours, as a median of three
SIZES = (2_000, 8_000)  # bytes a turn
DELTA_RATIO, TURN_RATIO, GROWTH = 0.06, 1.05, 10.0


class NoValgrind(Exception):
    """There is nothing to count with."""


@attrs.frozen
class Profiled:
    """A server under callgrind, and where its counters go."""

    server: Server
    folder: Path

    def costs(self, counted: Sequence[int]) -> dict[int, int]:
        """Stop the server; the instructions of each response that was to be counted."""
        self.server.end()
        files = sorted(self.folder.glob("out.*"), key=lambda path: int(path.suffix[1:]))
        if len(files) != len(counted):
            raise Broken(f"callgrind wrote {len(files)} dumps for {len(counted)} responses")
        return dict(zip(sorted(counted), map(_total, files), strict=True))


def _total(path: Path) -> int:
    with path.open() as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("totals:"))


@contextmanager
def profiled(name: str, command: Sequence[str]) -> Iterator[Profiled]:
    """Run a server under callgrind."""
    valgrind = program()
    if valgrind is None:
        raise NoValgrind("instructions are counted by valgrind on x86-64, which is not there")
    with tempfile.TemporaryDirectory() as folder:
        options = [*OPTIONS, f"--callgrind-out-file={folder}/out"]
        server = spawn(name, [valgrind, *options, *command], core=None)
        try:
            yield Profiled(server, Path(folder))
        finally:
            server.end()


def delta(name: str, command: Sequence[str]) -> Row:
    """What one more delta costs in a response that goes flat out; the command counts COUNTED."""
    with profiled(name, command) as one:
        sock = WebSocket.open(one.server.port).sock
        sock.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20
        )  # a late reader must not cost the server
        got = tuple(stream(sock, ask(count)) for count in ASKED)
        costs = one.costs(COUNTED)
    if got != ASKED:
        raise Broken(f"{name} sent {got} deltas under callgrind, not {ASKED}")
    few, many = (costs[number] for number in COUNTED)
    return {"server": name, "instructions per delta": round((many - few) / (MANY - FEW))}


# --- Turns. ---


OPENING = {"role": "user", "content": "Look around."}  # no script: the model calls its tool each time


def history(load: Load, turn: int) -> list[Json]:
    """The whole input of this turn when nothing is cached; no server is needed to know it."""
    items: list[Json] = [OPENING]
    for number in range(1, turn):
        arguments = json.dumps({"turn": number, "why": "river"})
        call: Json = {"type": "function_call", "call_id": f"call_{number:032}", "name": "look"}
        items += [{**call, "arguments": arguments}, load.tool_output(call, number)]
    return items


def chained(arm: Arm, load: Load) -> None:
    """Have all turns, each with nothing but what is new: a call without its context would be refused."""
    new = [OPENING]
    for number in range(1, LATE + 2):
        call = arm.ask(new)["output"][-1]
        if call["type"] != "function_call":
            raise Broken(f"turn {number} of the chain ended in a {call['type']}")
        new = [load.tool_output(call, number)]


def turns(size: int) -> list[Row]:
    """What the early and the late turns cost, on a chain and with the full history, in one server."""
    load, last = Load(output_bytes=size), LATE + 1
    chain = [turn for here in (EARLY, LATE) for turn in around(here)]
    full = [EARLY, EARLY, LATE, 1]  # the first one makes what is made on first use, the last one waits
    counted = [*chain, last + 2, last + 3]
    with profiled(OURS, subject(json.dumps({"seed": 1, "agent_turns": LATE + 2, "counted": counted}))) as one:
        chained(OverWebSocket(one.server.port, True), load)
        for turn in full:
            OverWebSocket(one.server.port, False).ask(history(load, turn))
        costs = one.costs(counted)
    early, late = (middle(costs[turn] for turn in around(here)) for here in (EARLY, LATE))
    redone_early, redone_late = costs[last + 2], costs[last + 3]
    return [_turns_row(size, "parent id", early, late), _turns_row(size, "full", redone_early, redone_late)]


def around(turn: int) -> list[int]:
    return [turn - 1, turn, turn + 1]


def _turns_row(size: int, kind: str, early: float, late: float) -> Row:
    growth = late / early
    return {
        "bytes a turn": size,
        "history": kind,
        f"turn {EARLY}": early,
        f"turn {LATE}": late,
        "growth": growth,
    }


# --- All of it. ---


def run() -> Report:
    """Count everything, two servers at a time, and judge it.

    Raises:
        NoValgrind: valgrind is not installed.
    """
    report = Report("instructions")
    report.notes.append(
        "User-space instructions under callgrind. A delta: what one more of them costs a response that goes"
        f" flat out: ours from the model's plan to the socket, {YARDSTICK}'s by json.dumps and send_message."
        f" A turn: all from its create to its bill, on a chain the median of it and its two neighbours."
    )
    with ThreadPoolExecutor(2) as both:
        large, small = both.submit(turns, SIZES[1]), both.submit(turns, SIZES[0])
        mine = both.submit(delta, OURS, subject(json.dumps({"seed": 1, "counted": COUNTED})))
        other = both.submit(delta, YARDSTICK, peer(YARDSTICK, json.dumps(COUNTED)))
        deltas, found = [mine.result(), other.result()], [*small.result(), *large.result()]
    ratio = deltas[0]["instructions per delta"] / deltas[1]["instructions per delta"]
    deltas = [{**row, "ratio": ratio if row["server"] == OURS else 1.0} for row in deltas]
    report.tables = {"Per delta": deltas, "Per turn": found}
    report.figures = {"instructions per delta": ratio}
    bars = {row["server"]: float(row["instructions per delta"]) for row in deltas}
    growth = {f"{row['history']}, {row['bytes a turn']} bytes": row["growth"] for row in found}
    report.charts = [
        Chart("User-space instructions per delta", "", bars=bars),
        Chart(f"Instructions of turn {LATE} beside turn {EARLY}", "x", bars=growth),
    ]
    report.check(ratio <= DELTA_RATIO, f"a delta takes {ratio:.4f} of {YARDSTICK}'s instructions")
    for row in found:
        name = f"instructions, {row['history']}, {row['bytes a turn']} bytes"
        report.figures[name] = row["growth"]
        kept = row["history"] != "full"
        holds = row["growth"] <= TURN_RATIO if kept else row["growth"] >= GROWTH
        report.check(holds, f"{name}: turn {LATE} takes {row['growth']:.3f} x turn {EARLY}")
    return report
