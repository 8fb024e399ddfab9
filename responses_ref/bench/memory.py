"""``bench memory``: what a connection costs that does nothing, and what its handshake costs."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

from .machine import allow_files, private_bytes
from .report import Chart, Report, Row
from .servers import OURS, PEERS, Server, missing, ours, peer, running
from .wire import ask, connect, stream, upgrade

WARM_UP = 20  # connections that make the server load and allocate what all share
TOKENS = 20
SPARE_FILES = 200
NAIVE = "trio-websocket"


def opened(server: Server, count: int) -> list[socket.socket]:
    sockets = []
    for _ in range(count):
        sock = connect(server.port)
        upgrade(sock)
        sockets.append(sock)
    return sockets


def measure(name: str, server: Server, count: int, report: Report) -> Row:
    """Open the connections, have one short response on each, and look at the process in between."""
    warm = opened(server, WARM_UP)
    for sock in warm:
        stream(sock, ask(TOKENS))
    time.sleep(0.1)
    base, cpu = private_bytes(server.process.pid), server.cpu()
    sockets = opened(server, count)
    time.sleep(0.2)  # timers of the handshakes, and the kernel's accounts
    handshake = (server.cpu() - cpu) / count
    idle = private_bytes(server.process.pid) - base
    got = [stream(sock, ask(TOKENS)) for sock in sockets]
    time.sleep(0.2)
    active = private_bytes(server.process.pid) - base
    report.check(got == [TOKENS] * count, f"memory, {name}: not every connection brought its deltas")
    for sock in (*warm, *sockets):
        sock.close()
    return {
        "server": name,
        "base MB": base / 1e6,
        "idle KB/connection": idle / 1024 / count,
        "after a response": active / 1024 / count,
        "handshake us": handshake * 1e6,
    }


def run(count: int) -> Report:
    """Measure each server alone: one after the other, with so many connections."""
    report = Report("memory", missing=missing())
    count = min(count, allow_files(count + SPARE_FILES) - SPARE_FILES)
    report.notes.append(
        f"{count} connections. Private memory of the process; the kernel's socket buffers are not in it."
        f" After a response: each connection has had one of {TOKENS} tokens, and ours still knows it."
        " Handshake: user and system CPU of accepting and upgrading."
    )
    rows = []
    for name in (OURS, *(name for name in PEERS if name not in report.missing)):
        with running({name: ours() if name == OURS else peer(name)}) as servers:
            rows.append(measure(name, servers[name], count, report))
    report.tables["Connections"] = rows
    for column, unit in (("idle KB/connection", "KB"), ("handshake us", "us")):
        report.charts.append(Chart(column, unit, bars={row["server"]: row[column] for row in rows}))
    by_name: Mapping[str, Row] = {row["server"]: row for row in rows}
    if NAIVE in by_name:
        mine, other = by_name[OURS], by_name[NAIVE]
        for column, figure in (("idle KB/connection", "idle memory"), ("handshake us", "handshake")):
            report.figures[f"{figure} beside {NAIVE}"] = mine[column] / other[column]
    return report
