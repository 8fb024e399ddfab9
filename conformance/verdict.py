"""From what was observed to one verdict per clause, and to the exit code (INTERPRETING.md section 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from conformance.known import Known
from conformance.specdoc import PROFILES, Clause, Spec

# Worst first. The two behind them stand beside the order.
ORDER: Final = (
    "harness-error",
    "fail",
    "stale",
    "could-not-run",
    "not-exercised",
    "warn",
    "expected-fail",
    "pass",
)
BESIDE: Final = ("not-judged", "not-applicable")
VERDICTS: Final = ORDER + BESIDE
UNTESTED: Final = ("could-not-run", "not-exercised")


# Pieces of evidence that a report holds for a clause.
KEPT: Final = 5

# Why a case is skipped, and why a clause is not looked at, where more than people have to know it.
NEEDS_SCRIPT: Final = "it needs the scripted model"
LEFT_OUT: Final = "left out by -k"


@attrs.frozen
class Evidence:
    """Where a clause was seen to hold or not. ``record`` counts the records of that case's trace from 0."""

    case: str
    detail: str
    line: int = 0
    record: int = -1
    conn: str = ""
    kind: str = "behaviour"


@attrs.define
class Tally:
    """All that was seen of one clause."""

    held: list[Evidence] = attrs.Factory(list)
    faults: list[Evidence] = attrs.Factory(list)
    broken_off: list[Evidence] = attrs.Factory(list)
    skipped: list[Evidence] = attrs.Factory(list)
    harness: list[Evidence] = attrs.Factory(list)

    @property
    def cases(self) -> list[str]:
        """The cases that judged it."""
        return list(dict.fromkeys(one.case for one in (*self.faults, *self.held)))


# Areas in which a server can obey without being able to answer a plain turn.
WITHOUT_A_TURN: Final = ("RWS-HS-", "RWS-FRM-", "RWS-CLS-", "RWS-HTTP-")


@attrs.define
class Ledger:
    """Tallies by clause id. ``insane``: why not even a plain turn works; empty if it does. ``present``: the
    profiles that the target was found to have, selected or not."""

    tallies: dict[str, Tally] = attrs.Factory(dict)
    insane: str = ""
    present: frozenset[str] = frozenset()

    def of(self, clause: str) -> Tally:
        return self.tallies.setdefault(clause, Tally())


@attrs.frozen(kw_only=True)
class Selection:
    """What a run looks at. ``only``: the clauses that ``-k`` left, None for all; ``beyond``: clauses that
    this kind of target cannot be judged by, and why."""

    profiles: frozenset[str]
    scripted: bool = True
    only: frozenset[str] | None = None
    beyond: Mapping[str, str] = attrs.Factory(dict)

    def skips(self, clause: Clause) -> str | None:
        """Why a clause is not looked at, or None."""
        if self.only is not None and clause.id not in self.only:
            return LEFT_OUT
        if clause.role != "server":
            return f"it is about the {clause.role}"
        if not clause.testable:
            return f"untestable: {clause.reason}"
        if clause.profile not in self.profiles and clause.profile != "REFERENCE":
            return f"the profile {clause.profile} is not selected"
        return self.beyond.get(clause.id)


@attrs.frozen
class Result:
    """The verdict on a clause, and why. ``selected``: its profile is one of those that the run is about."""

    clause: Clause
    verdict: str
    required: bool
    reason: str = ""
    kind: str = ""
    cases: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    selected: bool = True


def judge_all(spec: Spec, ledger: Ledger, selection: Selection, known: Iterable[Known] = ()) -> list[Result]:
    """One result for each clause, in the order of the text."""
    known = list(known)
    results = {one.id: _judge(one, ledger, selection, known) for one in spec.clauses.values()}
    for name, result in results.items():
        if result.verdict == "not-exercised" and (cases := _cases_for(spec, name)):
            reason = f"{result.reason}, although {', '.join(cases[:3])} would have let it show"
            results[name] = attrs.evolve(result, reason=reason)
    if ledger.insane:
        results = {name: _doubt(result, ledger.insane) for name, result in results.items()}
    for name, result in results.items():
        weaker = [other for other in result.clause.refines if _failed(results.get(other))]
        if weaker and result.verdict in ORDER and result.verdict != "harness-error":
            reason = f"it refines {weaker[0]}, which fails"
            results[name] = attrs.evolve(result, verdict="not-judged", required=False, reason=reason)
    return _mark_stale(list(results.values()), known)


def _cases_for(spec: Spec, name: str) -> list[str]:
    return [case.id for case in spec.cases.values() if name in case.covers]


def _doubt(result: Result, insane: str) -> Result:
    """Nothing about events passes on a server that cannot answer a plain turn."""
    if result.verdict != "pass" or result.clause.id.startswith(WITHOUT_A_TURN):
        return result
    return attrs.evolve(result, verdict="could-not-run", reason=f"not even a plain turn works: {insane}")


def _failed(result: Result | None) -> bool:
    return result is not None and result.verdict in ("fail", "expected-fail", "warn")


def _judge(clause: Clause, ledger: Ledger, selection: Selection, known: list[Known]) -> Result:
    selected, tally = clause.profile in selection.profiles, ledger.of(clause.id)
    skipped = selection.skips(clause)
    if skipped:
        return Result(clause, "not-applicable", False, skipped, selected=selected)
    verdict, reason, evidence = _worst(tally, selection)
    if verdict == "fail":
        verdict, reason = _weigh(clause, tally, known, selected)
    unseen = verdict in ("not-exercised", "could-not-run") and not tally.broken_off
    if unseen and (other := _other_server(clause, selection, ledger.present)):
        return Result(clause, "not-applicable", False, other)
    if verdict == "not-exercised" and set(clause.unless) & selection.profiles:
        verdict, reason = "not-judged", f"does not hold where {clause.unless[0]} is spoken"
    if not selected and verdict in ("could-not-run", "not-exercised"):
        verdict, reason = "not-applicable", "the profile REFERENCE is not selected"
    return Result(
        clause,
        verdict,
        _required(clause, tally, verdict, selection),
        reason,
        evidence[0].kind if evidence else "",
        tuple(tally.cases),
        _one_of_each_case(evidence),
        selected,
    )


def _one_of_each_case(evidence: list[Evidence]) -> tuple[Evidence, ...]:
    first = {one.case: one for one in reversed(evidence)}
    return tuple(one for one in evidence if first[one.case] is one)[:KEPT]


def _other_server(clause: Clause, selection: Selection, present: frozenset[str]) -> str:
    """Why a clause, which nothing has judged, is about another server: it needs a profile, or its absence."""
    for token in clause.needs:
        name = token.removeprefix("no-").upper()
        if name not in PROFILES:
            continue
        if not token.startswith("no-"):
            if name not in selection.profiles:
                return f"the profile {name} is not selected"
        elif name in selection.profiles:
            return f"it is for servers without {name}"
        elif name in present:
            return f"the target has {name.lower()}"
    return ""


def _worst(tally: Tally, selection: Selection) -> tuple[str, str, list[Evidence]]:
    if tally.harness:
        return "harness-error", tally.harness[0].detail, tally.harness
    if tally.faults:
        return "fail", tally.faults[0].detail, tally.faults
    if tally.broken_off:
        return "could-not-run", tally.broken_off[0].detail, tally.broken_off
    if tally.held:
        return "pass", "", tally.held
    if tally.skipped:
        return "could-not-run", tally.skipped[0].detail, tally.skipped
    return "not-exercised", "nothing judged it" + ("" if selection.scripted else " (no scripted model)"), []


def _weigh(clause: Clause, tally: Tally, known: list[Known], selected: bool) -> tuple[str, str]:
    """A fault of a SHOULD, or of a REFERENCE clause that was not asked for, is a warning."""
    excused = [
        next((entry for entry in known if entry.names(clause.id, fault.case)), None) for fault in tally.faults
    ]
    if all(excused):
        return "expected-fail", f"known failure: {excused[0].reason}" if excused[0] else ""
    fault = tally.faults[excused.index(None)]
    return ("fail" if clause.must and selected else "warn"), fault.detail


def _required(clause: Clause, tally: Tally, verdict: str, selection: Selection) -> bool:
    if not clause.must or clause.profile not in selection.profiles or verdict in BESIDE:
        return False
    if selection.scripted or verdict not in ("could-not-run", "not-exercised"):
        return True
    only_scripted = bool(tally.skipped) and not tally.broken_off
    only_scripted = only_scripted and all(one.detail == NEEDS_SCRIPT for one in tally.skipped)
    return not (clause.test == "wire+scripted" or only_scripted)


def _mark_stale(results: list[Result], known: list[Known]) -> list[Result]:
    """A known failure of which nothing fails any more is stale: all that it names and that passes."""
    out = {result.clause.id: result for result in results}
    for entry in known:
        named = [one for one in results if one.clause.id in entry.clauses or entry.cases & set(one.cases)]
        if any(one.verdict == "expected-fail" for one in named):
            continue
        for one in named:
            if one.verdict == "pass":
                reason = f"listed as a known failure ({entry.pattern}), but it passes"
                out[one.clause.id] = attrs.evolve(one, verdict="stale", reason=reason)
    return list(out.values())


# --- the sum ----------------------------------------------------------------------------------------


@attrs.frozen
class Summary:
    """Counts of a run. ``profiles`` maps a profile to its counts per verdict; ``not_tested`` counts all
    clauses of the selected profiles that should have been judged and were not, required or not."""

    verdicts: dict[str, int]
    profiles: dict[str, dict[str, int]]
    required: int
    passed: int
    failed: int
    not_run: int
    not_tested: int
    exit: int
    line: str


def summarise(results: list[Result]) -> Summary:
    verdicts: Counter[str] = Counter(result.verdict for result in results)
    profiles: dict[str, Counter[str]] = {}
    for result in results:
        if result.verdict != "not-applicable":
            profiles.setdefault(result.clause.profile, Counter())[result.verdict] += 1
    required = [result for result in results if result.required]
    passed = sum(result.verdict in ("pass", "expected-fail") for result in required)
    failed = sum(result.verdict in ("fail", "stale", "harness-error") for result in required)
    not_run = len(required) - passed - failed
    not_tested = sum(result.selected and result.verdict in UNTESTED for result in results)
    line = f"{passed} passed, {failed} failed, {not_run} could not run, {len(required)} required"
    if not_tested > not_run:
        line += f", {counted(not_tested)} not tested"
    return Summary(
        {name: verdicts[name] for name in VERDICTS},
        {name: dict(counts) for name, counts in profiles.items()},
        len(required),
        passed,
        failed,
        not_run,
        not_tested,
        exit_code(results),
        line if required else _nothing_required(results),
    )


def counted(count: int) -> str:
    return f"{count} clause" if count == 1 else f"{count} clauses"


def _nothing_required(results: list[Result]) -> str:
    """Why a run had nothing to say: what became of the clauses that were asked for."""
    asked = [one for one in results if one.reason != LEFT_OUT]
    reasons = Counter(one.reason.partition(":")[0] or one.verdict for one in asked)
    told = "; ".join(f"{counted(count)}: {reason}" for reason, count in reasons.most_common(3))
    who = "-k leaves nothing" if len(asked) < len(results) else "Nothing is left"
    return f"{who} that is required of this target ({told})"


def exit_code(results: list[Result]) -> int:
    found: set[Any] = {result.verdict for result in results if result.required or result.verdict == "stale"}
    if any(result.verdict == "harness-error" and result.selected for result in results):
        return 4
    if found & {"fail", "stale"}:
        return 1
    if found & {"could-not-run", "not-exercised"} or not found & {"pass", "expected-fail"}:
        return 3
    return 0
