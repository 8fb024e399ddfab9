"""The emulated distance, driven by a clock of the test's own."""

from __future__ import annotations

import json
import socket
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_ref.bench.relay import FIRST_WINDOW, SEGMENT, Distance, Line
from responses_ref.bench.servers import spawn

RTT = 0.1
NEVER = float("inf")


def arrivals(line: Line, until: float = 60.0) -> list[tuple[float, bytes]]:
    """All that comes out of the line, each piece with its time: the line says itself when to look."""
    found, now = [], 0.0
    while (now := max(line.next(), now)) <= until:
        line.move(now)
        found += [(now, data) for data in line.take(now)]
    return found


def sent(data: bytes, distance: Distance, opens: float = 0.0) -> list[tuple[float, bytes]]:
    line = Line(distance, opens)
    line.put(data, 0.0)
    return arrivals(line)


def test_a_byte_takes_half_a_round_trip() -> None:
    assert sent(b"x", Distance(RTT)) == [(pytest.approx(RTT / 2), b"x")]


def test_the_first_bytes_wait_for_the_set_up() -> None:
    assert sent(b"x", Distance(RTT), opens=2 * RTT) == [(pytest.approx(2.5 * RTT), b"x")]


def test_the_window_grows_by_what_is_acknowledged() -> None:
    """Ten segments in the first round trip, twenty in the second, and so on."""
    windows = 3
    data = bytes(FIRST_WINDOW * (2**windows - 1))
    by_round: dict[int, int] = {}
    for at, piece in sent(data, Distance(RTT)):
        trip = round((at - RTT / 2) / RTT)
        by_round[trip] = by_round.get(trip, 0) + len(piece)
    assert by_round == {trip: FIRST_WINDOW * 2**trip for trip in range(windows)}


def test_a_kept_connection_keeps_its_window_and_loses_it_when_idle() -> None:
    line = Line(Distance(RTT), 0.0)
    line.put(bytes(4 * FIRST_WINDOW), 0.0)
    arrivals(line)
    grown = line.window
    assert grown > 2 * FIRST_WINDOW
    line.put(b"x", line.free + 0.2)
    assert line.window >= grown
    arrivals(line)
    line.put(b"x", line.free + 30)
    assert line.window == FIRST_WINDOW


def test_the_line_sends_no_faster_than_its_bandwidth() -> None:
    size = 10 * SEGMENT
    last = sent(bytes(size), Distance(RTT, bandwidth=100_000))[-1][0]
    assert last == pytest.approx(size / 100_000 + RTT / 2)


@given(st.lists(st.binary(min_size=1, max_size=40_000), max_size=6), st.floats(0, 0.3))
def test_nothing_is_lost_and_nothing_overtakes(messages: list[bytes], opens: float) -> None:
    line = Line(Distance(RTT, bandwidth=1_000_000), opens)
    for message in messages:
        line.put(message, 0.0)
    line.put(b"", 0.0)
    pieces = [piece for _, piece in arrivals(line)]
    assert b"".join(pieces) == b"".join(messages)
    assert pieces[-1] == b""
    assert line.next() == NEVER


def test_real_connections_pass_it_both_ways_and_end() -> None:
    """An echo behind the relay: connect and a round trip take no less than the distance says."""
    with socket.create_server(("127.0.0.1", 0)) as echo:
        distance = json.dumps({"rtt": 0.05, "setup_rtts": 2})
        command = [sys.executable, "-m", "responses_ref.bench.relay", str(echo.getsockname()[1]), distance]
        relay = spawn("relay", command, core=None)
        try:
            start = time.monotonic()
            with socket.create_connection(("127.0.0.1", relay.port), 20) as client:
                client.sendall(b"over there")
                behind, _ = echo.accept()
                with behind:
                    behind.settimeout(20)
                    behind.sendall(behind.recv(100))
                    assert client.recv(100) == b"over there"
                    assert time.monotonic() - start >= 3 * 0.05
                assert client.recv(100) == b""
        finally:
            relay.process.kill()
            relay.end()
