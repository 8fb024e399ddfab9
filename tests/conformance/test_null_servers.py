"""Servers that are worth nothing pass only what they really do, and are done with within a minute."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from odd import ODD, places, replaced
from servers import NULL_SERVERS, Good, Memory, Serve, spec
from trio.testing import MockClock

from conformance.invariants.base import Says
from conformance.invariants.framing import StringType
from conformance.offer import Config, Features, Unavailable
from conformance.state import Event
from conformance.suite import Suite
from conformance.target import Target
from conformance.verdict import Result, Selection, judge_all, summarise

# What a server that says nothing of use may really meet: the handshake, and frames.
ALLOWED = ("RWS-HS-", "RWS-FRM-", "RWS-CLS-", "RWS-LIM-012")


class MemoryOffer:
    """One small server, in the default configuration only."""

    features = Features()
    name = "a small server"
    own_servers = False

    def __init__(self, nursery: trio.Nursery, serve: Serve) -> None:
        self._target = Memory(nursery, serve)

    async def target(self, config: Config) -> Target:
        if config:
            raise Unavailable(f"it has no configuration {config}")
        return self._target


async def run(serve: Serve) -> tuple[list[Result], float]:
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        selection = Selection(profiles=frozenset(("CORE",)))
        made = await Suite(spec(), MemoryOffer(nursery, serve), selection).play(spec().cases.values())
        nursery.cancel_scope.cancel()
    return judge_all(spec(), made.ledger, selection), trio.current_time() - began


@pytest.mark.parametrize("name", NULL_SERVERS)
def test_a_server_that_is_worth_nothing(name: str) -> None:
    results, seconds = trio.run(run, NULL_SERVERS[name], clock=MockClock(autojump_threshold=0))
    passed = [result.clause.id for result in results if result.required and result.verdict == "pass"]
    assert [one for one in passed if not one.startswith(ALLOWED)] == []
    summary = summarise(results)
    assert summary.exit in (1, 3)
    assert summary.passed + summary.failed + summary.not_run == summary.required > 100
    assert seconds < 60


def test_a_server_ten_times_slower_fails_nothing_but_what_a_quick_one_fails() -> None:
    quick, _ = trio.run(run, Good().serve, clock=MockClock(autojump_threshold=0))
    slow, _ = trio.run(run, Good(delay=0.05).serve, clock=MockClock(autojump_threshold=0))
    failed = [{one.clause.id for one in results if one.verdict == "fail"} for results in (quick, slow)]
    assert failed[1] <= failed[0]


class Odd:
    """Puts one odd value after another into one field after another of what a good server sends."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def __call__(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        place = self.random.randrange(len(events))
        path = self.random.choice(list(places(events[place])))
        return replaced(events, (place, *path), self.random.choice(ODD))


@pytest.mark.parametrize("seed", range(3))
def test_values_of_any_type_are_faults_of_the_server_not_of_the_suite(seed: int) -> None:
    results, _ = trio.run(run, Good(Odd(seed)).serve, clock=MockClock(autojump_threshold=0))
    assert [one for one in results if one.verdict == "harness-error"] == []
    assert summarise(results).failed > 10


def test_a_fall_of_an_invariant_is_a_harness_error_of_its_clause(monkeypatch: pytest.MonkeyPatch) -> None:
    def falls(one: StringType, event: Event) -> Says:
        raise KeyError("oh")

    monkeypatch.setattr(StringType, "see", falls)
    results, _ = trio.run(run, Good().serve, clock=MockClock(autojump_threshold=0))
    fallen = {one.clause.id: one.reason for one in results if one.verdict == "harness-error"}
    assert fallen == {"RWS-FRM-003": "the suite itself fell: KeyError: 'oh'"}
    assert summarise(results).exit == 4
