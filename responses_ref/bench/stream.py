"""``bench stream``: what a token costs on its way out, flat out and paced, beside other libraries."""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterable, Mapping, Sequence

import attrs

from .machine import allow_files, asleep
from .report import Chart, Report, Row, middle, quantile
from .servers import OURS, PEERS, Server, missing, ours, peer, running
from .wire import READ_BYTES, Broken, Counter, WebSocket, ask, stream

NAIVE = "trio-websocket"
GRID = 0.002  # seconds, as `serve` has it
STALL_SECONDS = 60.0
SETTLE_SECONDS = 0.002  # the kernel's accounts come a moment after the last event


@attrs.frozen
class Paced:
    """So many streams at so many tokens a second, for so long."""

    streams: int
    tps: float
    seconds: float

    @property
    def tokens(self) -> int:
        return max(2, round(self.tps * self.seconds))

    @property
    def name(self) -> str:
        return f"{self.streams} x {self.tps:g}"

    def said(self) -> str:
        return f"{self.name} tokens/s for {self.seconds:g} s"


@attrs.frozen
class Taken:
    """What one paced run took. ``lags``: seconds that each event came later than its stream's best one."""

    cpu: float  # seconds an event
    core: float  # share of a core
    rate: float  # share of the asked one
    lags: list[float]


# --- Flat out. ---


def flat_out(servers: Mapping[str, Server], tokens: int, rounds: int, report: Report) -> dict[str, float]:
    """CPU seconds an event, the median over the rounds; one response at a time, on a kept connection."""
    sockets = {name: WebSocket.open(server.port).sock for name, server in servers.items()}
    costs: dict[str, list[float]] = {name: [] for name in servers}
    for turn in range(rounds + 1):  # the first warms up
        for name, server in servers.items():
            before = server.cpu()
            got = stream(sockets[name], ask(tokens))
            time.sleep(SETTLE_SECONDS)
            report.check(got == tokens, f"flat out, {name}: {got} deltas, not {tokens}")
            if turn:
                costs[name].append((server.cpu() - before) / tokens)
    for sock in sockets.values():
        sock.close()
    return {name: middle(values) for name, values in costs.items()}


def flat_table(costs: Mapping[str, float]) -> list[Row]:
    return [
        {
            "server": name,
            "us/event": cost * 1e6,
            "events/s/core": round(1 / cost),
            "ours is faster": f"{cost / costs[OURS]:.1f} x",
        }
        for name, cost in costs.items()
    ]


# --- Paced. ---


@attrs.define
class Watch:
    """What the client saw of all streams of one run."""

    server: Server
    plan: Paced
    counters: list[Counter] = attrs.field()
    arrivals: list[list[tuple[float, int]]] = attrs.field()
    started: tuple[float, float, int] | None = None  # when all streams ran: clock, CPU, events before

    @counters.default
    def _counters(self) -> list[Counter]:
        return [Counter() for _ in range(self.plan.streams)]

    @arrivals.default
    def _arrivals(self) -> list[list[tuple[float, int]]]:
        return [[] for _ in range(self.plan.streams)]

    def feed(self, at: int, data: bytes) -> bool:
        """Count what came on one stream; false when it has ended."""
        if new := self.counters[at].feed(data):
            self.arrivals[at].append((time.perf_counter(), new))
        if self.started is None and all(self.arrivals):
            self.started = (time.perf_counter(), self.server.cpu(), self.events)
        return bool(data) and not self.counters[at].done

    @property
    def events(self) -> int:
        return sum(counter.deltas for counter in self.counters)

    def taken(self) -> Taken:
        """The account of the run, from when all of its streams were under way."""
        time.sleep(SETTLE_SECONDS)
        plan = self.plan
        if self.started is None or {counter.deltas for counter in self.counters} != {plan.tokens}:
            raise Broken(f"{self.server.name} lost deltas in {plan.said()}")
        clock, cpu, before = self.started
        spent = self.server.cpu() - cpu
        rates = [held(one, plan) for one in self.arrivals]
        late = [lag for one in self.arrivals for lag in lags(one, plan.tps)]
        wall = time.perf_counter() - clock
        return Taken(spent / (self.events - before), spent / wall, sum(rates) / len(rates), late)


def paced(server: Server, plan: Paced) -> Taken:
    """Have all streams at once."""
    sockets = [WebSocket.open(server.port).sock for _ in range(plan.streams)]
    watch, message = Watch(server, plan), ask(plan.tokens, plan.tps)
    with selectors.DefaultSelector() as selector:
        for at, sock in enumerate(sockets):
            sock.sendall(message)
            selector.register(sock, selectors.EVENT_READ, at)
        while selector.get_map():
            ready = selector.select(STALL_SECONDS)
            if not ready:
                raise Broken(f"{server.name} went silent in {plan.said()}")
            for key, _ in ready:
                if not watch.feed(key.data, sockets[key.data].recv(READ_BYTES)):
                    selector.unregister(key.fileobj)
    for sock in sockets:
        sock.close()
    return watch.taken()


def held(arrivals: Sequence[tuple[float, int]], plan: Paced) -> float:
    """The share of its rate that a stream really had; bursts at its ends do not count."""
    took = arrivals[-1][0] - arrivals[0][0]
    return min(1.0, (plan.tokens - arrivals[0][1]) / plan.tps / took) if took else 1.0


def lags(arrivals: Iterable[tuple[float, int]], tps: float) -> list[float]:
    """How much later than due each event came, if the stream's promptest event came in time."""
    late, number = list[float](), 0
    for at, new in arrivals:
        late += [at - (number + step) / tps for step in range(new)]
        number += new
    best = min(late)
    return [one - best for one in late]


def paced_row(name: str, runs: Sequence[Taken]) -> Row:
    return {
        "server": name,
        "us/event": middle(run.cpu for run in runs) * 1e6,
        "% of a core": middle(run.core for run in runs) * 100,
        "% of the rate": middle(run.rate for run in runs) * 100,
        "lag p50 ms": middle(quantile(run.lags, 0.5) for run in runs) * 1e3,
        "lag p99 ms": middle(quantile(run.lags, 0.99) for run in runs) * 1e3,
    }


def paced_table(plan: Paced, rounds: int, names: Sequence[str], grid: float = GRID) -> list[Row]:
    """Each of these servers with the same streams, the rounds interleaved."""
    mine = ours("--speed", f"{plan.tps:g}", "--ttft", "0", "--grid", f"{grid:g}")
    runs: dict[str, list[Taken]] = {name: [] for name in names}
    with running({name: mine if name == OURS else peer(name) for name in names}) as servers:
        for _ in range(rounds):
            for name, server in servers.items():
                runs[name].append(paced(server, plan))
    return [paced_row(name, runs[name]) for name in names]


# --- How many fit. ---


def fits(row: Row) -> bool:
    """Whether streams of that number are served as asked."""
    return bool(row["% of the rate"] >= 97 and row["lag p99 ms"] <= 25)


def most(name: str, candidates: Iterable[int], seconds: float, grid: float) -> tuple[int, list[Row]]:
    """The largest of these numbers of 1,000-token streams that one core serves; all that were tried."""
    best, tried = 0, list[Row]()
    for streams in candidates:
        row = {"streams": streams, **paced_table(Paced(streams, 1_000, seconds), 1, [name], grid)[0]}
        tried.append(row)
        if not fits(row):
            break
        best = streams
    return best, tried


# --- All of it. ---

NOTES = (
    "Server on core 0, client on core 1 (raw sockets). us/event: CPU of the server's process, user and"
    " system. Flat out it is that of a whole response, request and planning included: ours is `serve --speed"
    " instant`; trio-websocket makes each event by json.dumps and sends it by send_message; the others send"
    " one ready event over and over. Paced it counts from when all streams are under way: ours is `serve"
    " --speed TPS`; all others make each event by json.dumps and sleep to its time, trio-websocket's by"
    " sleep_until. Lag: how much later than due an event came, beside its stream's promptest one. Nobody"
    " compresses."
)


@attrs.frozen
class Size:
    """How much of it."""

    tokens: int
    rounds: int
    paced: tuple[Paced, ...]
    steps: tuple[int, ...] = ()  # numbers of streams to try on the naive server
    seconds: float = 2.0


QUICK = Size(4_000, 1, (Paced(10, 1_000, 0.5), Paced(1, 4_000, 0.5), Paced(10, 65, 0.5)))
FULL = Size(
    20_000, 5, (Paced(50, 1_000, 2), Paced(1, 4_000, 2), Paced(50, 65, 3)), tuple(range(10, 61, 5))
)  # fmt: skip


def run(size: Size) -> Report:
    """Measure it all."""
    allow_files(4_096)
    report = Report("stream", [NOTES], missing=missing())
    names = [OURS, *(name for name in PEERS if name not in report.missing)]
    commands = {name: ours("--speed", "instant") if name == OURS else peer(name) for name in names}
    with running(commands) as servers:
        costs = flat_out(servers, size.tokens, size.rounds, report)
    report.tables[f"Flat out, {size.tokens} events a response, median of {size.rounds}"] = flat_table(costs)
    report.figures |= {f"flat out beside {name}": costs[name] / costs[OURS] for name in names[1:]}
    report.charts.append(Chart("Flat out", "us/event", bars={n: cost * 1e6 for n, cost in costs.items()}))
    for plan in size.paced:
        found = paced_table(plan, size.rounds, names)
        report.tables[f"{plan.said()}, median of {size.rounds}"] = found
        report.figures |= paced_figures(plan, found)
        bars = {row["server"]: row["us/event"] for row in found}
        report.charts.append(Chart(plan.said(), "us/event", bars=bars))
    if size.steps and NAIVE in names:
        capacity(report, size)
    floor = asleep(GRID, size.seconds)
    report.notes.append(f"A Trio loop that only sleeps 2 ms at a time takes {floor:.1%} of a core here.")
    return report


def capacity(report: Report, size: Size) -> None:
    """How many streams fit on a core: the naive server's number, then multiples of it on ours."""
    base, tried = most(NAIVE, size.steps, size.seconds, GRID)
    best, mine = most(OURS, [base * times for times in (8, 12, 14, 16, 18)], size.seconds, 0.005)
    report.tables["1,000-token streams on one core (ours at --grid 0.005)"] = [*tried, *mine]
    if base:
        report.figures["streams beside the naive server"] = best / base


def paced_figures(plan: Paced, rows: Sequence[Row]) -> dict[str, float]:
    """What the goals ask of a paced run."""
    mine = rows[0]
    found = {f"{plan.name}: beside {row['server']}": mine["us/event"] / row["us/event"] for row in rows[1:]}
    names = {"% of a core": "core", "% of the rate": "rate", "lag p99 ms": "lag p99 ms"}
    return found | {f"{plan.name}: {name}": mine[column] for column, name in names.items()}
