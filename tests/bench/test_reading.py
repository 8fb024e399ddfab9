"""What the bench's own client and its arithmetic see: everything, once."""

from __future__ import annotations

import json
import socket
import threading
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_ref.bench import goals
from responses_ref.bench.plot import svg
from responses_ref.bench.report import Chart, Report, middle, quantile, shown, table
from responses_ref.bench.stream import Paced, held, lags
from responses_ref.bench.wire import Broken, Counter, WebSocket, connect, frame, upgraded
from responses_ref.server.framing import frame as server_frame

DELTA = b'{"type":"response.output_text.delta","item_id":"msg_1","delta":" a","sequence_number":%d}'
COMPLETED = b'{"type":"response.completed","sequence_number":9,"response":{}}'


@given(st.integers(0, 30), st.lists(st.integers(0, 10_000), max_size=60))
def test_deltas_are_counted_over_all_cuts(count: int, cuts: list[int]) -> None:
    data = b"".join(server_frame(DELTA % number) for number in range(count)) + server_frame(COMPLETED)
    ends = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    counter, done = Counter(), []
    for start, end in pairwise(ends):
        counter.feed(data[start:end])
        done.append(counter.done)
    assert counter.deltas == count
    assert done[-1]
    assert not any(done[:-1]) or data[: ends[-2]].find(b'"response.completed"') >= 0


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536, 200_000])
def test_messages_of_every_size_are_read_whole(size: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        data = server_frame(bytes(size)) + server_frame(b"next")
        sender = threading.Thread(target=theirs.sendall, args=(data,))
        sender.start()
        reader = WebSocket(ours)
        assert reader.receive() == bytes(size)
        assert reader.receive() == b"next"
        sender.join(20)
        assert reader.received == len(data)


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_client_frames_are_masked_and_say_their_size(size: int) -> None:
    data = frame(bytes(size))
    assert data[0] == 0x81
    assert data[1] & 0x80
    head = {True: 6, False: 8 if size < 65_536 else 14}[size < 126]
    assert len(data) == head + size


def test_a_refused_upgrade_is_no_upgrade() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
        with pytest.raises(Broken, match="503"):
            upgraded(ours)


def test_a_server_that_hangs_up_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = connect(listener.getsockname()[1])
        listener.accept()[0].close()
        with client, pytest.raises((Broken, ConnectionError)):
            upgraded(client)


# --- Arithmetic. ---


def test_the_promptest_event_is_in_time() -> None:
    """Events due every 100 ms, the second 30 ms late; two that come together are both looked at."""
    late = lags([(7.0, 1), (7.13, 1), (7.3, 2)], tps=10)
    assert late == pytest.approx([0, 0.03, 0.1, 0.0])


def test_the_rate_that_was_held() -> None:
    plan = Paced(1, 10, 1.0)
    exact = [(number / 10, 1) for number in range(10)]
    assert held(exact, plan) == pytest.approx(1.0)
    assert held([(2 * at, new) for at, new in exact], plan) == pytest.approx(0.5)


def test_medians_and_quantiles() -> None:
    assert middle([3, 1, 2]) == 2
    assert middle([4, 1, 2, 3]) == 2
    assert [quantile(range(100), share) for share in (0, 0.5, 0.99, 1)] == [0, 50, 99, 99]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("as it is", "as it is"),
        (1234, "1234"),
        (0.0, "0.00"),
        (0.04567, "0.0457"),
        (0.5, "0.500"),
        (3.14159, "3.14"),
        (45.678, "45.7"),
        (4567.8, "4,568"),
    ],
)
def test_three_digits_of_a_number(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_table_has_a_line_for_each_row() -> None:
    lines = table([{"name": "a", "n": 1.0}, {"name": "longer", "n": None}])
    assert lines == ["name       n", "a       1.00", "longer     -"]


def test_a_fault_is_noted_unless_it_holds() -> None:
    report = Report("x")
    report.check(True, "not this")
    report.check(False, "this")
    assert report.faults == ["this"]
    assert "WRONG: this" in report.text()


# --- Goals. ---


def test_a_goal_is_reached_on_the_right_side_of_its_bound() -> None:
    for goal in goals.GOALS:
        bound = goal.most if goal.most is not None else goal.least
        assert bound is not None
        assert goal.reached(bound)
        worse = bound * 1.01 if goal.most is not None else bound * 0.99
        assert not goal.reached(worse)


def test_what_is_required_says_so() -> None:
    assert {goal.number for goal in goals.GOALS if goal.required} == {3, 5, 7}
    assert {goal.number for goal in goals.GOALS} == set(range(1, 9))


def test_verdicts() -> None:
    figures = {"instructions per delta": 0.07, "handshake beside trio-websocket": 0.4}

    def verdicts(quick: bool, every: bool) -> dict[str, str]:
        return {row["goal"]: row["verdict"] for row in goals.judged(figures, quick, every)}

    assert verdicts(quick=False, every=False) == {
        "user instructions per delta": "MISSED",
        "CPU of a handshake": "reached",
    }
    assert verdicts(quick=True, every=False)["CPU of a handshake"] == "not judged in a quick run"
    assert verdicts(quick=True, every=False)["user instructions per delta"] == "MISSED"
    assert len(verdicts(quick=False, every=True)) == len(goals.GOALS)


# --- Pictures. ---


def test_a_picture_stands_alone_and_is_readable_on_both_grounds() -> None:
    lines = {"A & B": [(1, 2.0), (2, 4.0)], "<C>": [(1, 0.0), (2, -1.0)]}
    text = svg([Chart("Lines", "ms", series=lines, x="turn"), Chart("Bars", "s", bars={"x": 0.0, "y": 2.5})])
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    shapes = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert shapes.count("path") == 1 + len(lines)
    said = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"A & B", "<C>", "2.50 s"} <= set(said)
    assert "prefers-color-scheme: dark" in text
    assert "href" not in text
    assert "url(" not in text


def test_a_report_survives_json() -> None:
    report = Report("x", tables={"t": [{"a": 1, "b": None}]}, figures={"f": 0.5})
    assert json.loads(json.dumps(report.data()))["tables"] == {"t": [{"a": 1, "b": None}]}
