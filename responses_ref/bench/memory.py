"""``bench memory``: what a connection costs that does nothing, and what its handshake costs."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

import attrs

from .machine import allow_files, private_bytes
from .report import Chart, Report, Row, middle
from .servers import OURS, PEERS, Server, missing, ours, peer, running
from .wire import UPGRADE, ask, connect, stream, upgraded

WARM_UP = 20  # connections that make the server load and allocate what all share
TOKENS = 20
SPARE_FILES, ROUNDS = 200, 5
TOGETHER = 20
SETTLE_SECONDS = 0.2  # for the timers of handshakes, and the kernel's accounts
NAIVE = "trio-websocket"


def opened(server: Server, count: int, at_once: int = 1) -> list[socket.socket]:
    """Connect and upgrade, so many clients at the same time."""
    sockets = []
    for _ in range(0, count, at_once):
        clients = [connect(server.port) for _ in range(at_once)]
        for client in clients:
            client.sendall(UPGRADE)
        for client in clients:
            upgraded(client)
        sockets += clients
    return sockets


@attrs.define
class Held:
    """One server's open connections, and what it was like before them."""

    server: Server
    warm: list[socket.socket]
    base: int
    sockets: list[socket.socket] = attrs.Factory(list)
    handshakes: dict[int, list[float]] = attrs.Factory(dict)  # CPU seconds each, by how many came at once

    @classmethod
    def warmed_up(cls, server: Server) -> Held:
        warm = opened(server, WARM_UP)
        for sock in warm:
            stream(sock, ask(TOKENS))
        time.sleep(SETTLE_SECONDS)
        return cls(server, warm, private_bytes(server.process.pid))

    def open(self, count: int, at_once: int) -> None:
        """Open some more."""
        before = self.server.cpu()
        self.sockets += opened(self.server, count, at_once)
        time.sleep(SETTLE_SECONDS)
        self.handshakes.setdefault(at_once, []).append((self.server.cpu() - before) / count)

    def each(self) -> float:
        """Bytes a connection beyond the base."""
        return (private_bytes(self.server.process.pid) - self.base) / len(self.sockets)

    def close(self) -> None:
        for sock in (*self.warm, *self.sockets):
            sock.close()


def row(name: str, held: Held, report: Report) -> Row:
    """Look at a server before and after each connection has had one short response."""
    idle = held.each()
    got = [stream(sock, ask(TOKENS)) for sock in held.sockets]
    report.check(set(got) == {TOKENS}, f"memory, {name}: not every connection brought its deltas")
    time.sleep(SETTLE_SECONDS)
    active = held.each()
    held.close()
    return {
        "server": name,
        "base MB": held.base / 1e6,
        "idle KB/connection": idle / 1024,
        "after a response": active / 1024,
        "handshake us": middle(held.handshakes[TOGETHER]) * 1e6,
        "one by one us": middle(held.handshakes[1]) * 1e6,
    }


def run(count: int) -> Report:
    """Open so many connections to each server, in rounds that take turns."""
    report = Report("memory", missing=missing())
    names = [OURS, *(name for name in PEERS if name not in report.missing)]
    room = allow_files((count + WARM_UP) * len(names) + SPARE_FILES) - SPARE_FILES
    share = min(count, room // len(names) - WARM_UP) // (ROUNDS * TOGETHER) * TOGETHER - TOGETHER
    report.notes.append(
        f"{ROUNDS * (share + TOGETHER)} connections. Private memory of the process; the kernel's socket"
        f" buffers are not in it. After a response: each connection has had one of {TOKENS} tokens, and ours"
        f" still knows it. Handshake: user and system CPU of accepting and upgrading, {TOGETHER} clients at"
        f" once, as when they all come back after a fault, and one by one; medians of {ROUNDS} rounds."
    )
    with running({name: ours() if name == OURS else peer(name) for name in names}) as servers:
        held = {name: Held.warmed_up(server) for name, server in servers.items()}
        for _ in range(ROUNDS):
            for one in held.values():
                one.open(share, TOGETHER)
                one.open(TOGETHER, 1)
        rows = [row(name, one, report) for name, one in held.items()]
    report.tables["Connections"] = rows
    for column, unit in (("idle KB/connection", "KB"), ("handshake us", "us")):
        report.charts.append(Chart(column, unit, bars={row["server"]: row[column] for row in rows}))
    by_name: Mapping[str, Row] = {row["server"]: row for row in rows}
    if NAIVE in by_name:
        mine, other = by_name[OURS], by_name[NAIVE]
        for column, figure in (("idle KB/connection", "idle memory"), ("handshake us", "handshake")):
            report.figures[f"{figure} beside {NAIVE}"] = mine[column] / other[column]
    return report
