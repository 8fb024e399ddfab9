"""Each arm of the agent loop against a server of its own, and that a wrong count is seen."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from responses_ref.bench import agent_loop
from responses_ref.bench.agent_loop import Run, Scene, Turn, check, goes_on, near, play, rows
from responses_ref.bench.arms import WAYS, Load, OverHttp, OverWebSocket, Way, prose
from responses_ref.bench.plot import svg
from responses_ref.bench.report import Report
from responses_ref.bench.wire import Broken

SCENE = Scene("small", Load(turns=8, output_bytes=2_000, tokens=20), tps=0, ttft=0.0)
BY_LETTER = {way.letter: way for way in WAYS}


@pytest.fixture(scope="module")
def runs() -> dict[str, list[Run]]:
    return {way.letter: [play(way, SCENE)] for way in WAYS}


def faults(runs: dict[str, list[Run]]) -> list[str]:
    report = Report("x")
    check(report, SCENE, runs)
    return report.faults


def test_every_arm_does_its_own_work(runs: dict[str, list[Run]]) -> None:
    assert faults(runs) == []


def test_what_is_sent_and_read_again_is_what_its_name_says(runs: dict[str, list[Run]]) -> None:
    sent = {letter: mine[0].sent for letter, mine in runs.items()}
    read = {letter: mine[0].work["characters"] for letter, mine in runs.items()}
    assert min(sent[letter] for letter in "ABD") > 2.5 * max(
        sent["C cold"], sent["C warm"], sent["E"], sent["F"]
    )
    assert read["A"] == read["B"] == read["C cold"] == read["D"] > 2.5 * read["E"]
    assert read["C warm"] == read["E"] == read["F"]
    assert {letter: mine[0].work["lookups"] for letter, mine in runs.items() if letter in "EF"} == {
        "E": 1,
        "F": 1,
    }


def lost(run: Run) -> Run:
    return attrs.evolve(run, chained=run.chained - 1)


def read_twice(run: Run) -> Run:
    return attrs.evolve(run, work={**run.work, "items": run.work["items"] + 1})


def cold(run: Run) -> Run:
    return attrs.evolve(run, turns=[attrs.evolve(turn, cached=0) for turn in run.turns])


def again(run: Run) -> Run:
    return attrs.evolve(run, connections=run.connections + 1)


def skipped(run: Run) -> Run:
    return attrs.evolve(run, work={**run.work, "turns": run.work["turns"] - 1})


@pytest.mark.parametrize("change", [lost, read_twice, cold, again, skipped])
def test_a_wrong_count_is_a_fault(runs: dict[str, list[Run]], change: Callable[[Run], Run]) -> None:
    assert len(faults({**runs, "E": [change(runs["E"][0])]})) == 1


def test_an_arm_that_redoes_nothing_is_a_fault(runs: dict[str, list[Run]]) -> None:
    cached = attrs.evolve(runs["B"][0], work={**runs["B"][0].work, "characters": 1})
    assert any("hardly more" in fault for fault in faults({**runs, "B": [cached]}))


def test_a_row_for_each_arm_and_a_picture(runs: dict[str, list[Run]]) -> None:
    found = rows(SCENE, runs)
    assert [row["arm"] for row in found] == [way.letter for way in WAYS]
    assert {row["chained"] for row in found} == {"8/8"}
    assert svg(agent_loop.charts(SCENE, runs)).count('class="line"') == len(WAYS)


# --- The parts of it. ---


def test_the_context_shows_in_what_comes_next() -> None:
    load = Load(turns=3)
    call = {"type": "function_call", "arguments": '{"turn":2}'}
    assert goes_on(call, 2, load)
    assert not goes_on(call, 1, load)
    assert not goes_on({"type": "message"}, 2, load)
    assert goes_on({"type": "message"}, 3, load)


def test_figures_of_a_turn_are_those_of_its_neighbourhood() -> None:
    turns = [Turn(number, 0.0, 0) for number in (1, 2, 30, 4, 5)]
    assert near(turns, 3, "overhead") == 4
    assert near(turns, 5, "overhead") == 5
    assert near(turns, 6, "overhead") is None


def test_the_model_s_own_time_is_no_overhead() -> None:
    assert Scene("x", tps=100, ttft=0.5).model_seconds(11) == pytest.approx(0.6)
    assert Scene("x", tps=0, ttft=0.0).model_seconds(50) == 0


def test_tool_output_is_as_long_as_asked_and_the_same_again() -> None:
    assert len(prose(1, 8_000)) == 8_000
    assert prose(1, 100) == prose(1, 100) != prose(2, 100)


class Fake(OverWebSocket):
    """A server that answers as it likes."""

    def exchange(self, fields: dict[str, object]) -> dict[str, object]:
        return {"id": "resp_2", "previous_response_id": None, "output": []}


def test_a_chain_that_names_no_parent_is_broken() -> None:
    arm = Fake(0, True)
    arm.ask([{"role": "user", "content": "a"}])
    with pytest.raises(Broken, match="parent"):
        arm.ask([{"role": "user", "content": "b"}])


@pytest.mark.parametrize(
    "make", [lambda port: OverHttp(port, False), lambda port: OverWebSocket(port, False)]
)
def test_a_turn_that_fails_is_broken(server, make) -> None:
    arm = make(server.port)
    with pytest.raises(Broken):
        arm.ask([{"role": "user", "content": "fail: server_error"}])
    arm.close()


def test_ways_are_told_apart() -> None:
    assert len(BY_LETTER) == len(WAYS) == 7
    assert [way.letter for way in WAYS if way.grows] == ["A", "B", "D"]
    assert isinstance(WAYS[0], Way)


def test_services_before_the_model_are_waited_for() -> None:
    """Each turn passes all of them; a lower bound holds on any machine."""
    scene = attrs.evolve(SCENE, load=Load(turns=3, output_bytes=100), hops=4, hop_latency=0.05)
    turns = play(WAYS[-1], scene).turns
    assert all(turn.overhead > 0.2 for turn in turns)
