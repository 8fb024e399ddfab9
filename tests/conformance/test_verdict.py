"""From observations to verdicts, sums and exit codes, as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.known import Known, read_known
from conformance.places import Place
from conformance.specdoc import Clause, Spec
from conformance.target import UsageError
from conformance.transcript import Case
from conformance.verdict import NEEDS_SCRIPT, Evidence, Ledger, Result, Selection, judge_all, summarise

CORE = Selection(profiles=frozenset(("CORE",)))


def clause(name: str = "RWS-ORD-001", **fields: object) -> Clause:
    given = {"keyword": "MUST", "profile": "CORE", "role": "server", "test": "wire", **fields}
    return Clause(id=name, text="It MUST.", since="0.1", provenance="chosen", place=Place("x", 1), **given)


def results(
    *clauses: Clause, selection: Selection = CORE, known: tuple[Known, ...] = (), **seen: list[str]
) -> dict[str, Result]:
    """``seen`` maps held, faults, broken_off, skipped or harness to the ids of clauses."""
    ledger = Ledger()
    for what, names in seen.items():
        for name in names:
            getattr(ledger.of(name), what).append(Evidence("a-case", f"{what} of {name}"))
    spec = Spec(clauses={one.id: one for one in clauses})
    return {one.clause.id: one for one in judge_all(spec, ledger, selection, known)}


ONE = "RWS-ORD-001"
# what was seen -> (verdict, required, exit code)
SEEN: list[tuple[dict[str, list[str]], str, bool, int]] = [
    ({"held": [ONE]}, "pass", True, 0),
    ({}, "not-exercised", True, 3),
    ({"skipped": [ONE]}, "could-not-run", True, 3),
    ({"skipped": [ONE], "held": [ONE]}, "pass", True, 0),
    ({"broken_off": [ONE], "held": [ONE]}, "could-not-run", True, 3),
    ({"faults": [ONE], "held": [ONE], "broken_off": [ONE]}, "fail", True, 1),
    ({"harness": [ONE], "faults": [ONE]}, "harness-error", True, 4),
]


@pytest.mark.parametrize(("seen", "verdict", "required", "code"), SEEN)
def test_the_worst_wins(seen: dict[str, list[str]], verdict: str, required: bool, code: int) -> None:
    found = results(clause(), **seen)[ONE]
    assert (found.verdict, found.required) == (verdict, required)
    assert summarise([found]).exit == code


@pytest.mark.parametrize(
    ("fields", "seen", "verdict"),
    [
        ({"keyword": "SHOULD"}, "faults", "warn"),
        ({"keyword": "SHOULD NOT"}, "held", "pass"),
        ({"profile": "REFERENCE"}, "faults", "warn"),
        ({"profile": "REFERENCE"}, "held", "pass"),
        ({"profile": "REFERENCE"}, "skipped", "not-applicable"),
        ({"profile": "LANES"}, "faults", "not-applicable"),
        ({"role": "client", "test": "client"}, "faults", "not-applicable"),
        ({"test": "untestable", "reason": "nobody sees it"}, "held", "not-applicable"),
    ],
)
def test_who_is_judged_by_what(fields: dict[str, object], seen: str, verdict: str) -> None:
    found = results(clause(**fields), **{seen: [ONE]})[ONE]
    assert (found.verdict, found.required) == (verdict, False)


def test_nothing_required_that_passes_is_no_success() -> None:
    assert summarise(list(results(clause(keyword="SHOULD"), held=[ONE]).values())).exit == 3


def test_a_refined_clause_is_not_judged_where_the_weaker_one_fails() -> None:
    strong = clause("RWS-ORD-002", refines=(ONE,))
    found = results(clause(), strong, faults=[ONE, "RWS-ORD-002"])
    assert found["RWS-ORD-002"].verdict == "not-judged"
    assert summarise(list(found.values())).required == 1
    found = results(clause(), strong, held=[ONE], faults=["RWS-ORD-002"])
    assert found["RWS-ORD-002"].verdict == "fail"


def test_unless_excuses_only_what_nothing_judged() -> None:
    selection = Selection(profiles=frozenset(("CORE", "APPEND")))
    one = clause(unless=("APPEND",))
    assert results(one, selection=selection)[ONE].verdict == "not-judged"
    assert results(one, selection=selection, faults=[ONE])[ONE].verdict == "fail"
    assert results(one)[ONE].verdict == "not-exercised"


def test_with_a_real_model_what_needs_a_script_is_not_required() -> None:
    selection = Selection(profiles=frozenset(("CORE",)), scripted=False)
    scripted = clause("RWS-ORD-002", test="wire+scripted")
    ledger = Ledger()
    for name in (ONE, "RWS-ORD-002"):
        ledger.of(name).skipped.append(Evidence("a-case", NEEDS_SCRIPT))
    spec = Spec(clauses={one.id: one for one in (clause(), scripted)})
    found = {one.clause.id: one for one in judge_all(spec, ledger, selection)}
    assert [one.required for one in found.values()] == [False, False]
    assert [one.verdict for one in found.values()] == ["could-not-run"] * 2
    found = results(clause(), scripted, selection=selection)
    assert [one.required for one in found.values()] == [True, False]


def test_with_a_real_model_what_needs_only_a_configuration_stays_required() -> None:
    selection = Selection(profiles=frozenset(("CORE",)), scripted=False)
    found = results(clause(), selection=selection, skipped=[ONE])[ONE]
    assert (found.verdict, found.required) == ("could-not-run", True)


def test_a_fault_of_the_suite_in_a_profile_that_is_not_selected_decides_nothing() -> None:
    other = clause("RWS-ORD-002", profile="REFERENCE")
    found = list(results(clause(), other, held=[ONE], harness=["RWS-ORD-002"]).values())
    assert [one.verdict for one in found] == ["pass", "harness-error"]
    assert summarise(found).exit == 0


def known(pattern: str, clauses: set[str], cases: set[str] | None = None) -> Known:
    return Known(pattern, "as it is", 1, frozenset(clauses), frozenset(cases or ()))


def test_a_known_failure_is_expected_and_a_stale_one_is_not_well() -> None:
    found = results(clause(), known=(known("RWS-*", {ONE}),), faults=[ONE])
    assert (found[ONE].verdict, summarise(list(found.values())).exit) == ("expected-fail", 0)
    found = results(clause(), known=(known("RWS-*", {ONE}),), held=[ONE])
    assert (found[ONE].verdict, summarise(list(found.values())).exit) == ("stale", 1)


def test_a_known_failure_of_a_case_excuses_only_that_case() -> None:
    entry = known("a-case", set(), {"a-case"})
    assert results(clause(), known=(entry,), faults=[ONE])[ONE].verdict == "expected-fail"
    other = known("another", set(), {"another"})
    assert results(clause(), known=(other,), faults=[ONE])[ONE].verdict == "fail"


def test_an_entry_of_which_something_fails_is_not_stale() -> None:
    two = clause("RWS-ORD-002")
    found = results(
        clause(), two, known=(known("*", {ONE, "RWS-ORD-002"}),), faults=[ONE], held=["RWS-ORD-002"]
    )
    assert [one.verdict for one in found.values()] == ["expected-fail", "pass"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RWS-ORD-001", "has no reason"),
        ("RWS-ORD-001 #", "has no reason"),
        ("RWS-XXX-* # why", "names no clause and no case"),
    ],
)
def test_a_malformed_known_failure_is_a_usage_error(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"# a comment\n\n{text}\n")
    with pytest.raises(UsageError, match=f"known:3: .*{words}"):
        read_known(tmp_path / "known", Spec(clauses={ONE: clause()}))


def test_known_failures_may_name_cases(tmp_path: Path) -> None:
    (tmp_path / "known").write_text("a-* # slow\nRWS-ORD-* # wrong\n")
    case = Case("a-case", Place("x", 1), (ONE,), ())
    found = read_known(tmp_path / "known", Spec(clauses={ONE: clause()}, cases={"a-case": case}))
    assert [(one.pattern, one.reason, set(one.clauses), set(one.cases)) for one in found] == [
        ("a-*", "slow", set(), {"a-case"}),
        ("RWS-ORD-*", "wrong", {ONE}, set()),
    ]


def test_without_a_plain_turn_only_handshake_and_framing_pass() -> None:
    ledger, names = Ledger(insane="nothing came"), ("RWS-ORD-001", "RWS-FRM-001", "RWS-HS-001")
    for name in names:
        ledger.of(name).held.append(Evidence("a-case", ""))
    spec = Spec(clauses={name: clause(name) for name in names})
    found = {one.clause.id: one for one in judge_all(spec, ledger, CORE)}
    assert [found[name].verdict for name in names] == ["could-not-run", "pass", "pass"]
    assert "not even a plain turn works: nothing came" in found[ONE].reason


def test_the_sum() -> None:
    names = [f"RWS-ORD-00{number}" for number in range(1, 6)]
    clauses = [clause(name) for name in names] + [clause("RWS-HTTP-001", profile="HTTP")]
    found = list(results(*clauses, held=names[:2], faults=names[2:3], skipped=names[3:4]).values())
    summary = summarise(found)
    assert summary.line == "2 passed, 1 failed, 2 could not run, 5 required"
    assert summary.profiles == {"CORE": {"pass": 2, "fail": 1, "could-not-run": 1, "not-exercised": 1}}
    assert (summary.verdicts["not-applicable"], summary.exit) == (1, 1)


def test_the_sum_tells_how_much_nobody_looked_at() -> None:
    found = list(results(clause(), clause("RWS-ORD-002", keyword="SHOULD"), held=[ONE]).values())
    summary = summarise(found)
    assert summary.line == "1 passed, 0 failed, 0 could not run, 1 required, 1 clause not tested"
    assert (summary.not_run, summary.not_tested, summary.exit) == (0, 1, 0)


def test_the_sum_of_nothing_is_a_sentence() -> None:
    selection = Selection(profiles=frozenset(("CORE",)), only=frozenset(("RWS-LAN-001",)))
    found = results(clause(), clause("RWS-LAN-001", profile="LANES"), selection=selection, held=[ONE])
    assert summarise(list(found.values())).line == (
        "-k leaves nothing that is required of this target (1 clause: the profile LANES is not selected)"
    )
