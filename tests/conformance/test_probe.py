"""What a target has besides what was selected: found out before the cases, and never guessed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from servers import NULL_SERVERS, Good, Memory, One, Serve, error, spec, turn
from trio.testing import MockClock

from conformance import probe
from conformance.offer import Features
from conformance.suite import NO_SCRIPTS, Run, Suite
from conformance.verdict import Result, Selection, judge_all

CORE = frozenset(("CORE",))
Answer = Callable[[dict[str, Any]], list[dict[str, Any]]]


@attrs.define
class Server(Good):
    """What it has is told by ``answers``: type of the message, or a key in it -> its answer."""

    answers: dict[str, Answer] = attrs.Factory(dict)

    def turn(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        kind = message["type"]
        for key, answer in self.answers.items():
            if key == kind or key in message:
                return answer(message)
        return super().turn({name: value for name, value in message.items() if name != "stream_id"})


def empty(_: dict[str, Any]) -> list[dict[str, Any]]:
    events = turn("resp_w", [])
    done = {**events[-1], "response": {**events[-1]["response"], "output": []}}
    return [events[0], {**done, "sequence_number": 1}]


WARM = Server(answers={"generate": empty})
LANES = Server(answers={"stream_id": lambda message: turn("resp_l", ["ready"], message["stream_id"])})
STEER = Server(answers={"response.steer": lambda _: [{"type": "response.steer.failed"}]})
HAS: dict[str, tuple[str, Serve]] = {"warm": ("WARM", WARM.serve), "lanes": ("LANES", LANES.serve)}
HAS["steer"] = ("STEER", STEER.serve)


async def _has(serve: Serve, profile: str) -> bool:
    async with trio.open_nursery() as nursery:
        found = await probe.has(Memory(nursery, serve), profile)
        nursery.cancel_scope.cancel()
    return found


def has(serve: Serve, profile: str) -> bool:
    return trio.run(partial(_has, serve, profile), clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("name", HAS)
def test_what_a_server_has_is_seen(name: str) -> None:
    profile, serve = HAS[name]
    assert has(serve, profile)


@pytest.mark.parametrize("name", HAS)
def test_what_comes_after_the_end_of_the_probe_s_turn_is_not_its_end(name: str) -> None:
    profile, server = HAS[name][0], {"warm": WARM, "lanes": LANES, "steer": STEER}[name]
    more = {"type": "slug:limits", "left": 5}
    chatty = Server(
        answers={key: partial(_and_more, answer, more) for key, answer in server.answers.items()},
    )
    assert has(chatty.serve, profile)


def _and_more(answer: Answer, more: dict[str, Any], message: dict[str, Any]) -> list[dict[str, Any]]:
    return [*answer(message), more]


@pytest.mark.parametrize("profile", probe.PROBES)
def test_what_a_server_has_not_is_seen(profile: str) -> None:
    assert not has(Server().serve, profile)


def test_a_refusal_that_names_the_field_is_a_no() -> None:
    refusal = error("unknown_parameter")
    refusal["error"]["param"] = "stream_id"
    assert not has(Server(answers={"stream_id": lambda _: [refusal]}).serve, "LANES")


# To refuse `generate` by an error is the answer of a server without warm-up.
ODD = [(name, profile) for name in NULL_SERVERS for profile in probe.PROBES if profile != "WARM"]
ODD += [(name, "WARM") for name in NULL_SERVERS if name != "always_error"]


@pytest.mark.parametrize(("name", "profile"), ODD)
def test_a_server_that_misbehaves_is_not_guessed_about(name: str, profile: str) -> None:
    with pytest.raises(ExceptionGroup) as found:
        has(NULL_SERVERS[name], profile)
    assert found.group_contains(probe.Unclear)


async def _run(serve: Serve, features: Features, cases: tuple[str, ...]) -> Run:
    async with trio.open_nursery() as nursery:
        suite = Suite(spec(), One(Memory(nursery, serve), features), Selection(profiles=CORE))
        run = await suite.play([spec().cases[name] for name in cases])
        nursery.cancel_scope.cancel()
    return run


def run(serve: Serve, *cases: str, features: Features | None = None) -> tuple[Run, dict[str, Result]]:
    played = trio.run(_run, serve, features or Features(), cases, clock=MockClock(autojump_threshold=0))
    results = judge_all(spec(), played.ledger, Selection(profiles=CORE))
    return played, {one.clause.id: one for one in results}


def case_for(clause: str) -> str:
    (name,) = [case.id for case in spec().cases.values() if clause in case.covers]
    return name


@pytest.mark.parametrize(("name", "clause"), [("warm", "RWS-WRM-010"), ("lanes", "RWS-CRE-034")])
def test_a_rule_for_servers_without_it_does_not_apply_to_one_that_has_it(name: str, clause: str) -> None:
    result = run(HAS[name][1], case_for(clause))[1][clause]
    assert (result.verdict, result.reason) == ("not-applicable", f"the target has {name}")


def test_a_server_without_it_is_judged() -> None:
    played, results = run(Server().serve, case_for("RWS-WRM-010"))
    assert played.cases[case_for("RWS-WRM-010")].records
    assert results["RWS-WRM-010"].verdict == "fail"


def odd(_: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**one, "type": one["type"].replace("completed", "failed")} for one in turn("r", ["x"])]


def test_what_is_not_known_could_not_run_and_says_what_to_write() -> None:
    server = Server(answers={"generate": odd})
    result = run(server.serve, case_for("RWS-WRM-010"))[1]["RWS-WRM-010"]
    assert result.verdict == "could-not-run"
    assert "whether the target has warm could not be found out" in result.reason
    assert "`profiles` in a features file" in result.reason


@pytest.mark.parametrize(
    ("offered", "verdict"), [(CORE, "fail"), (frozenset(("CORE", "WARM")), "not-applicable")]
)
def test_a_features_file_is_believed(offered: frozenset[str], verdict: str) -> None:
    features = Features(offered=offered)
    assert (
        run(Server().serve, case_for("RWS-WRM-010"), features=features)[1]["RWS-WRM-010"].verdict == verdict
    )


def test_only_what_a_case_needs_is_asked() -> None:
    seen: list[str] = []

    class Listening(Server):
        def turn(self, message: dict[str, Any]) -> list[dict[str, Any]]:
            seen.append(json.dumps(message))
            return super().turn(message)

    run(Listening().serve, "a-whole-turn")
    assert not any("stream_id" in one or "generate" in one or "steer" in one for one in seen)


def test_a_target_that_plays_no_scripts_is_told_apart() -> None:
    deaf = Server(answers={"input": lambda _: turn("resp_x", ["Hello!"])})
    assert run(deaf.serve, "a-whole-turn")[0].notes == [NO_SCRIPTS]
    assert "--model NAME" in NO_SCRIPTS
    assert run(Server().serve, "a-whole-turn")[0].notes == []


def test_what_nobody_asked_for_is_played_last() -> None:
    """One such case ends servers that are made with some libraries, and all after it is lost."""
    cases = list(spec().cases)
    run_, _ = run(Server().serve, *cases)
    order = [name for name, one in run_.cases.items() if one.state != "skipped"]
    asked = [
        any(spec().clauses[one].profile == "CORE" for one in spec().cases[name].covers) for name in order
    ]
    assert asked == sorted(asked, reverse=True)
    assert not asked[-1]
