"""The command: what it prints, what it writes, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from responses_ref.bench import command, instructions, servers
from responses_ref.bench.arms import Load
from responses_ref.bench.report import Chart, Report
from responses_ref.bench.wire import Broken
from responses_ref.cli import main


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Report]:
    """Benchmarks that take no time: what each is to find, by its name."""
    found = {
        "stream": Report(
            "stream", figures={"flat out beside aiohttp": 4.0}, charts=[Chart("c", "s", bars={"x": 1.0})]
        ),
        "instructions": Report("instructions", figures={"instructions per delta": 0.05}),
    }
    benches = {name: (lambda quick, name=name: found[name]) for name in found}
    monkeypatch.setattr(command, "BENCHES", benches)
    monkeypatch.setattr(command, "pin", lambda core: None)
    return found


def test_all_runs_all_and_writes_it_down(
    fakes: dict[str, Report], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, picture = tmp_path / "found.json", tmp_path / "found.svg"
    assert command.run("all", json_file=written, plot_file=picture) == 0
    data = json.loads(written.read_text())
    assert set(data["benchmarks"]) == {"stream", "instructions"}
    assert data["figures"] == {"flat out beside aiohttp": 4.0, "instructions per delta": 0.05}
    assert picture.read_text().startswith("<svg")
    printed = capsys.readouterr().out
    assert "== stream ==" in printed
    assert printed.count("reached\n") == 2
    assert "not measured" in printed


def test_one_is_only_that_one(fakes: dict[str, Report], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run("stream") == 0
    printed = capsys.readouterr().out
    assert "== instructions ==" not in printed
    assert "not measured" not in printed


def test_a_wrong_count_is_exit_code_1(fakes: dict[str, Report], capsys: pytest.CaptureFixture[str]) -> None:
    fakes["stream"].faults.append("a delta was lost")
    assert command.run("all") == 1
    assert "WRONG: a delta was lost" in capsys.readouterr().out


def test_a_server_that_misbehaves_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def misbehave(quick: bool) -> Report:
        raise Broken("the server closed the connection")

    monkeypatch.setattr(command, "BENCHES", {"stream": misbehave})
    assert command.run("stream") == 1
    assert "WRONG: the server closed the connection" in capsys.readouterr().out


def test_without_valgrind_there_is_a_word_and_exit_code_3(
    fakes: dict[str, Report], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(command.BENCHES, "instructions", lambda quick: instructions.run())
    assert command.run("all") == 3
    printed = capsys.readouterr()
    assert "valgrind" in printed.err
    assert "== stream ==" in printed.out


def test_a_missing_peer_is_named_and_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(servers.PEERS, "picows", "no_such_module")
    assert "picows" in servers.missing()
    report = Report("x", missing=["picows"])
    assert "not installed, so not compared: picows" in report.text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench"], "the following arguments are required: bench"),
        (["bench", "everything"], "invalid choice: 'everything'"),
        (["bench", "stream", "--turns", "5"], "only agent-loop has axes"),
        (["bench", "agent-loop", "--turns", "2"], "must be from 3 to 500"),
        (["bench", "agent-loop", "--rtt", "-1"], "must be a number, 0 or more"),
        (["bench", "stream", "--json", "no/such/folder/x.json"], "cannot write no/such/folder/x.json"),
    ],
)
def test_asked_for_wrongly(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert said in capsys.readouterr().err


def test_axes_make_a_scene() -> None:
    assert command.Axes().scene() is None
    scene = command.Axes(
        turns=5, bytes=100, tool_seconds=0.1, rtt=0.5, bandwidth=1e6, tps=50, rounds=2, hops=3
    ).scene()
    assert scene is not None
    assert scene.load == Load(turns=5, output_bytes=100, tool_seconds=0.1)
    assert (scene.distance.rtt, scene.distance.bandwidth) == (0.5, 1e6)
    assert (scene.tps, scene.ttft, scene.rounds, scene.hops) == (50, 0.05, 2, 3)


def test_a_loop_of_one_s_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way: servers, relay, arms, table."""
    flags = {"turns": 3, "bytes": 500, "tps": 0.0, "ttft": 0.0, "rtt": 0.001}
    assert command.run("agent-loop", json_file=tmp_path / "x.json", **flags) == 0
    printed = capsys.readouterr().out
    assert printed.count("3/3") == 7
