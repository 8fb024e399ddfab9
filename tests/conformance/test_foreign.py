"""Runs against somebody else's server: what a report says when it goes away, and what is not its business."""

from __future__ import annotations

import attrs
import pytest
import trio
from servers import Good, Memory, One, Serve, spec
from trio.testing import MockClock

from conformance import transcript
from conformance.offer import Features, Foreign, Unavailable
from conformance.report import forms
from conformance.report.data import Report, build
from conformance.runner import run_case
from conformance.suite import Run, Suite
from conformance.target import Endpoint, Target, Unreachable
from conformance.transcript import Either
from conformance.verdict import Result, Selection, judge_all

CORE = frozenset(("CORE",))


@attrs.define
class Mortal:
    """A target that takes so many connections, and then is gone."""

    target: Target
    lives: int
    endpoint: Endpoint = attrs.Factory(Endpoint)

    async def connect(self) -> trio.abc.Stream:
        self.lives -= 1
        if self.lives < 0:
            raise Unreachable("no connection to it: connection refused")
        return await self.target.connect()

    async def stop(self) -> None:
        raise NotImplementedError


async def _play(lives: int, serve: Serve, cases: tuple[str, ...]) -> Run:
    async with trio.open_nursery() as nursery:
        target = Mortal(Memory(nursery, serve), lives)
        suite = Suite(spec(), One(target), Selection(profiles=CORE))
        run = await suite.play([spec().cases[name] for name in cases])
        nursery.cancel_scope.cancel()
    return run


def play(lives: int, *cases: str, serve: Serve | None = None) -> Run:
    return trio.run(_play, lives, serve or Good().serve, cases, clock=MockClock(autojump_threshold=0))


def report_of(run: Run, profiles: frozenset[str] = CORE) -> Report:
    results = judge_all(spec(), run.ledger, Selection(profiles=profiles))
    return build(results, run, Features(), "a foreign server", profiles)


# One connection is for looking whether anybody is there, one for the plain turn.
CASES = ("a-whole-turn", "numbers-start-again", "a-refusal", "three-turns-of-one-conversation")
GONE = "no connection to it: connection refused; the last case that it took part in is numbers-start-again"


def test_a_server_that_goes_away_is_told_once_with_the_case_that_saw_it_last() -> None:
    run = play(4, *CASES)
    assert run.notes == [f"The run was given up: {GONE}"]
    assert [run.cases[name].state for name in CASES[2:]] == ["broken-off", "skipped"]
    report = report_of(run)
    assert report["notes"] == run.notes
    assert forms.console(report).splitlines()[-2] == run.notes[0]
    assert f"**{run.notes[0]}**" in forms.markdown(report, run)


def test_a_server_that_comes_back_is_judged_on() -> None:
    class Restarted(Mortal):
        async def connect(self) -> trio.abc.Stream:
            if self.lives == -1:
                self.lives = 100
            return await super().connect()

    async def main() -> Run:
        async with trio.open_nursery() as nursery:
            target = Restarted(Memory(nursery, Good().serve), 3)
            suite = Suite(spec(), One(target), Selection(profiles=CORE))
            run = await suite.play([spec().cases[name] for name in CASES[:3]])
            nursery.cancel_scope.cancel()
        return run

    run = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert run.notes == []
    assert run.cases["numbers-start-again"].state == "broken-off"
    assert run.cases["a-refusal"].records


def test_without_a_plain_turn_a_note_says_why() -> None:
    broken = Good(change=lambda events: [one for one in events if one["type"] != "response.completed"])
    (note,) = play(100, "a-whole-turn", serve=broken.serve).notes
    assert note.startswith('Not even a plain turn works: <... until {"type":"response.completed"}: nothing')


def test_clauses_that_could_not_run_for_one_reason_are_told_of_together() -> None:
    report = report_of(play(0, *CASES))
    (first,) = [line for line in forms.console(report).splitlines() if line.startswith("could-not-run")]
    assert "clauses: no connection to it: connection refused" in first
    text = forms.markdown(report, Run())
    assert text.count("no connection to it: connection refused") == 2  # the note, and the heap
    assert "- RWS-ORD-001 The server MUST send `response.created` before" in text


def test_a_few_clauses_are_told_of_one_by_one() -> None:
    clauses = [{"verdict": "could-not-run", "reason": "x", "id": str(n)} for n in range(forms.MANY + 1)]
    assert len(forms.alike(clauses)) == 1
    assert len(forms.alike(clauses[:-1])) == forms.MANY
    failed = [{**one, "verdict": "fail"} for one in clauses]
    assert len(forms.alike(failed)) == len(failed)


def test_rules_that_a_server_does_not_claim_are_counted_not_listed() -> None:
    report = report_of(play(100, "a-plain-get"))
    assert "REFERENCE" in {one["profile"] for one in forms.not_well(report)}
    lines = forms.console(report).splitlines()
    assert not any("RWS-HS-016" in line for line in lines)
    assert any(line.startswith("not selected") for line in lines)


def results(profiles: str) -> dict[str, Result]:
    selection = Selection(profiles=frozenset(profiles.split()))
    return {one.clause.id: one for one in judge_all(spec(), Run().ledger, selection)}


@pytest.mark.parametrize(
    ("clause", "profiles", "reason"),
    [
        ("RWS-WRM-010", "CORE WARM", "it is for servers without WARM"),
        ("RWS-CRE-034", "CORE LANES", "it is for servers without LANES"),
        ("RWS-CTX-008", "CORE", "the profile HTTP is not selected"),
    ],
)
def test_a_rule_for_another_kind_of_server_is_not_applicable(clause: str, profiles: str, reason: str) -> None:
    found = results(profiles)[clause]
    assert (found.verdict, found.required, found.reason) == ("not-applicable", False, reason)


@pytest.mark.parametrize(
    ("clause", "profiles"),
    [("RWS-WRM-010", "CORE"), ("RWS-CRE-034", "CORE"), ("RWS-CTX-008", "CORE HTTP")],
)
def test_it_is_required_of_its_own_kind(clause: str, profiles: str) -> None:
    found = results(profiles)[clause]
    assert (found.verdict, found.required) == ("not-exercised", True)
    (case,) = [name for name, case in spec().cases.items() if clause in case.covers]
    assert found.reason == f"nothing judged it, although {case} would have let it show"


async def test_a_configuration_that_is_missing_is_named_with_where_to_say_it() -> None:
    with pytest.raises(Unavailable, match=r'lifetime=2 \(\[configs\."lifetime=2"\] in a features file'):
        await Foreign("ws://x", Features()).target(("lifetime=2",))


def hidden_behind_taste() -> dict[str, str]:
    """clause -> case, where every line that judges it comes after one that may break the case off although
    only the profile REFERENCE asks for what it says."""
    seen: set[str] = set()
    hidden: dict[str, str] = {}
    for case in spec().cases.values():
        behind = False
        for step in case.walk():
            taste = bool(step.tags) and all(spec().clauses[tag].profile == "REFERENCE" for tag in step.tags)
            for tag in step.tags:
                if behind and spec().clauses[tag].profile != "REFERENCE":
                    hidden.setdefault(tag, case.id)
                else:
                    seen.add(tag)
            behind = behind or (taste and (isinstance(step, Either) or step.verb not in ("also", "never")))
    return {name: case for name, case in hidden.items() if name not in seen}


def test_nobody_is_kept_from_being_judged_by_our_taste() -> None:
    # What a server does in which order when it is told to stop: the whole case is about that.
    assert set(hidden_behind_taste()) <= {"RWS-CLS-007"}


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ('& {"response":{"id":7}}', "response.id: expected 7, got "),
        ('& {"response":{"id":7}}', ", in response.created"),
        ('& {"type":"error"}', 'type: expected "error", got "response.created"'),
    ],
)
async def test_a_mismatch_says_in_which_message(
    expected: str, told: str, autojump_clock: trio.abc.Clock
) -> None:
    head = "id: a-case\ncovers: RWS-ORD-001\n"
    create = (
        '> {"type":"response.create","model":"scripted","input":"say: a"}\n< {"type":"response.created"}\n'
    )
    assert told in await detail(f"{head}{create}{expected} [RWS-ORD-001]")


async def test_a_mismatch_says_what_an_error_complains_of(autojump_clock: trio.abc.Clock) -> None:
    text = 'id: a-case\ncovers: RWS-ORD-001\n>text "no JSON"\n< {"type":"response.created"} [RWS-ORD-001]'
    assert (await detail(text)).endswith('type: expected "response.created", got "error" ("no")')


async def detail(text: str) -> str:
    case = transcript.parse("x.md", 1, text.split("\n"))
    async with trio.open_nursery() as nursery:
        outcome = await run_case(case, Memory(nursery, Good().serve))
        nursery.cancel_scope.cancel()
    (found,) = outcome.observations
    return found.detail


async def test_a_case_that_breaks_off_lets_its_turn_end(autojump_clock: trio.abc.Clock) -> None:
    """So what the invariants say of it does not depend on how far the server had come."""
    head = "id: a-case\ncovers: RWS-ORD-003\n"
    create = '> {"type":"response.create","model":"scripted","input":"say: a b"}\n'
    case = transcript.parse("x.md", 1, f'{head}{create}< {{"type":"response.something"}}'.split("\n"))
    async with trio.open_nursery() as nursery:
        outcome = await run_case(case, Memory(nursery, Good(delay=0.05).serve))
        nursery.cancel_scope.cancel()
    assert outcome.broken
    assert any('"response.completed"' in str(record.get("text")) for record in outcome.records)
