"""``bench fairness`` and ``bench isolation``: what one client feels of the others."""

from __future__ import annotations

import json
import selectors
import threading
import time

from .arms import prose
from .report import Chart, Report, Row, middle, quantile
from .servers import OURS, Server, ours, running
from .stream import Paced, Taken, paced
from .wire import READ_BYTES, Broken, Counter, Http, WebSocket, ask, create

BURST_SPEED = "cerebras-4000"
BURST_TOKENS = 400
BURSTS = (8, 64)
HISTORY_BYTES = 1_000_000
ITEM_BYTES = 2_000
PAUSE = 0.05


# --- Fairness. ---


def first_deltas(server: Server, bursts: int) -> list[float]:
    """Ask for so many responses at once; how long each one's first delta took, all read to their end."""
    sockets = [WebSocket.open(server.port).sock for _ in range(bursts)]
    counters, firsts, asked = [Counter() for _ in sockets], [0.0] * bursts, [0.0] * bursts
    message = ask(BURST_TOKENS)
    with selectors.DefaultSelector() as selector:
        for at, sock in enumerate(sockets):
            asked[at] = time.perf_counter()
            sock.sendall(message)
            selector.register(sock, selectors.EVENT_READ, at)
        while selector.get_map():
            for key, _ in selector.select(60.0):
                data, counter = sockets[key.data].recv(READ_BYTES), counters[key.data]
                if counter.feed(data) and not firsts[key.data]:
                    firsts[key.data] = time.perf_counter() - asked[key.data]
                if counter.done or not data:
                    selector.unregister(key.fileobj)
    for sock in sockets:
        sock.close()
    if {counter.deltas for counter in counters} != {BURST_TOKENS}:
        raise Broken(f"a burst among {bursts} did not bring its {BURST_TOKENS} deltas")
    return firsts


def fairness(rounds: int) -> Report:
    """The first delta of a response: alone, and when others are asked for at the same moment."""
    report = Report("fairness")
    report.notes.append(
        f"Responses of {BURST_TOKENS} tokens at {BURST_SPEED}, each on its own connection, all asked for at"
        f" once; first delta: from the create to it, the model's queue included. Rounds: {rounds}."
    )
    found: dict[int, list[float]] = {}
    with running({OURS: ours("--speed", BURST_SPEED)}) as servers:
        for bursts in (1, 1, *BURSTS):  # the first warms up
            again = rounds * (8 if bursts == 1 else 1)
            found[bursts] = [first for _ in range(again) for first in first_deltas(servers[OURS], bursts)]
    rows: list[Row] = [
        {
            "bursts at once": bursts,
            "first delta p50 ms": quantile(firsts, 0.5) * 1e3,
            "p99 ms": quantile(firsts, 0.99) * 1e3,
            "p99 beside quiet": quantile(firsts, 0.99) / quantile(found[1], 0.99),
        }
        for bursts, firsts in found.items()
    ]
    report.tables["First deltas"] = rows
    bars = {f"{row['bursts at once']} at once": row["p99 ms"] for row in rows}
    report.charts.append(Chart("First delta, p99", "ms", bars=bars))
    report.figures["first delta of 64 beside quiet"] = rows[-1]["p99 beside quiet"]
    return report


# --- Isolation. ---


def big_request() -> dict[str, object]:
    """A create whose input is a history of about a megabyte."""
    items = [
        {"role": "user" if number % 2 else "assistant", "content": prose(number, ITEM_BYTES)}
        for number in range(HISTORY_BYTES // ITEM_BYTES)
    ]
    return {**create(""), "input": items, "stream": True, "max_output_tokens": 1}


class Poster(threading.Thread):
    """Posts the big request again and again until it is told to stop."""

    def __init__(self, port: int, big: dict[str, object]) -> None:
        super().__init__(daemon=True)
        self.port, self.big = port, big
        self.halt = threading.Event()
        self.took: list[float] = []

    def run(self) -> None:
        http = Http.open(self.port)
        while not self.halt.is_set():
            start = time.perf_counter()
            last = json.loads(http.post(self.big)[-1])
            if last["type"] != "response.incomplete":
                raise Broken(f"a big request ended with {last['type']}")
            self.took.append(time.perf_counter() - start)
        http.close()


def beside_posts(server: Server, plan: Paced, big: dict[str, object]) -> tuple[Taken, list[float]]:
    """A stream while another client posts."""
    poster = Poster(server.port, big)
    poster.start()
    time.sleep(PAUSE)
    taken = paced(server, plan)
    poster.halt.set()
    poster.join(60)
    return taken, poster.took


def isolation(seconds: float, rounds: int) -> Report:
    """A 1,000-token stream, alone and beside histories of a megabyte."""
    report = Report("isolation")
    report.notes.append(
        f"One stream at 1,000 tokens/s for {seconds:g} s, while another client posts a history of"
        f" {HISTORY_BYTES // 1000} kB after the other over HTTP. Median of {rounds}."
    )
    plan, big = Paced(1, 1_000, seconds), big_request()
    alone: list[Taken] = []
    beside: list[tuple[Taken, list[float]]] = []
    with running({OURS: ours("--speed", "1000", "--ttft", "0")}) as servers:
        for _ in range(rounds):
            alone.append(paced(servers[OURS], plan))
            beside.append(beside_posts(servers[OURS], plan, big))
    rows = [
        _row("alone", alone, []),
        _row("beside big posts", [t for t, _ in beside], [p for _, p in beside]),
    ]
    report.tables["The stream"] = rows
    report.check(all(posts for _, posts in beside), "no big request ended while the stream ran")
    bars = {row["stream"]: row["lag p99 ms"] for row in rows}
    report.charts.append(Chart("Lag of a 1,000-token stream, p99", "ms", bars=bars))
    report.figures["lag p99 ms beside big posts"] = rows[1]["lag p99 ms"]
    return report


def _row(name: str, runs: list[Taken], posts: list[list[float]]) -> Row:
    row: Row = {"stream": name}
    for title, share in (("lag p50 ms", 0.5), ("lag p99 ms", 0.99), ("lag max ms", 1.0)):
        row[title] = middle(quantile(run.lags, share) for run in runs) * 1e3
    row["posts"] = sum(map(len, posts)) if posts else None
    row["post p50 ms"] = middle(one for took in posts for one in took) * 1e3 if posts else None
    return row
