"""Every server of the bench sends what is asked for; and the smallest of each benchmark."""

from __future__ import annotations

import json
import os

import pytest

from responses_ref.bench import fairness, memory, stream
from responses_ref.bench.machine import asleep, cpu_seconds, private_bytes
from responses_ref.bench.servers import OURS, PEERS, CannotStart, ours, peer, running, spawn, subject
from responses_ref.bench.stream import Paced, paced
from responses_ref.bench.wire import WebSocket, ask
from responses_ref.bench.wire import stream as read

COMMANDS = {name: ours() if name == OURS else peer(name) for name in (OURS, *PEERS)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_server_sends_the_deltas_that_are_asked_for(name: str) -> None:
    with running({name: COMMANDS[name]}) as servers:
        server = servers[name]
        with WebSocket.open(server.port).sock as sock:
            assert [read(sock, ask(count)) for count in (1, 700)] == [1, 700]
            assert read(sock, ask(5, 500.0)) == 5
        assert 0 < server.cpu() < 60
        assert private_bytes(server.process.pid) > 1_000_000


def test_a_paced_run_gives_an_account() -> None:
    plan = Paced(3, 200, 0.2)
    with running({OURS: ours("--speed", "200", "--ttft", "0")}) as servers:
        taken = paced(servers[OURS], plan)
    assert len(taken.lags) == plan.streams * plan.tokens
    assert min(taken.lags) == 0
    assert 0 < taken.rate <= 1
    assert taken.cpu > 0


def test_work_is_told_when_the_subject_ends() -> None:
    server = spawn("subject", subject(json.dumps({"seed": 1})))
    try:
        with WebSocket.open(server.port).sock as sock:
            assert read(sock, ask(7)) == 7
    finally:
        work = server.end()
    assert json.loads(work) == {"turns": 1, "items": 1, "characters": 9, "tokens": 4, "lookups": 1}


def test_a_server_that_does_not_come_up_is_an_error() -> None:
    with pytest.raises(CannotStart, match="the server x did not start"):
        spawn("x", ours("--speed", "no-such-speed"))


def test_a_run_of_streams_that_is_all_small() -> None:
    size = stream.Size(300, 1, (Paced(2, 500, 0.1),))
    report = stream.run(size)
    assert report.faults == []
    names = [OURS, *PEERS]
    assert [[row["server"] for row in rows] for rows in report.tables.values()] == [names, names]
    assert {f"flat out beside {name}" for name in names[1:]} <= set(report.figures)


def test_the_largest_number_that_fits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(plan: Paced, rounds: int, names: list[str], grid: float) -> list[dict[str, object]]:
        fits = plan.streams <= 20
        return [{"server": names[0], "% of the rate": 100.0 if fits else 60.0, "lag p99 ms": 3.0}]

    monkeypatch.setattr(stream, "paced_table", table)
    best, tried = stream.most("x", [10, 20, 30, 40], 1.0, 0.002)
    assert best == 20
    assert [row["streams"] for row in tried] == [10, 20, 30]


def test_bursts_and_big_posts_bring_all_that_they_ask_for() -> None:
    with running({OURS: ours("--speed", "4000", "--ttft", "0")}) as servers:
        firsts = fairness.first_deltas(servers[OURS], 3)
        taken, posts = fairness.beside_posts(servers[OURS], Paced(1, 4_000, 0.5), fairness.big_request())
    assert len(firsts) == 3
    assert min(firsts) > 0
    assert len(taken.lags) == 2_000
    assert posts


def test_memory_counts_what_is_open() -> None:
    report = memory.run(200)
    assert report.faults == []
    (rows,) = report.tables.values()
    assert rows[0]["server"] == OURS
    assert all(row["idle KB/connection"] > 1 for row in rows)


def test_the_kernel_counts_this_process() -> None:
    before = cpu_seconds(os.getpid())
    assert sum(number * number for number in range(300_000)) > 0
    assert cpu_seconds(os.getpid()) >= before > 0


def test_a_loop_that_only_sleeps_takes_some_of_a_core() -> None:
    assert 0 < asleep(0.01, 0.1) < 1
