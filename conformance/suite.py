"""A run: which cases a target can take, playing them, judging their traces, one ledger for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

import attrs
import trio

from conformance import probe, transcript
from conformance.judge import Judge, Judgement
from conformance.offer import SCRIPTED, Config, Needs, Offer, Unavailable, lacking, needs_of
from conformance.runner import run_case
from conformance.session import Outcome, Patience
from conformance.specdoc import PROFILES, Spec
from conformance.target import Refused, Target, Unreachable, UsageError
from conformance.trace import Record, meta
from conformance.transcript import Case
from conformance.verdict import NEEDS_SCRIPT, Evidence, Ledger, Selection

# Seconds of waiting in vain, with not a word from the server in between, after which a run gives up.
GIVE_UP_SECONDS: Final = 20.0
# How often, and how long after one another, a server that was there is looked for.
GONE_TRIES: Final = 4
GONE_SECONDS: Final = 0.5
# How long, and how often, one tries to connect to a server that does not listen yet.
START_SECONDS: Final = 3.0
START_STEP: Final = 0.2
# What is kept of a record after it was judged.
KEPT_TEXT: Final = 4000
KEPT_RECORDS: Final = 400

# Not a case of the specification: without a plain turn, what looks like obedience is an accident.
PLAIN_TURN: Final = transcript.parse(
    "the suite itself",
    1,
    [
        "id: a-plain-turn",
        "covers: RWS-ORD-001",
        '> {"type":"response.create","model":"scripted","input":"say: ready"}',
        '<... until {"type":"response.completed"}',
    ],
)

NO_SCRIPTS: Final = (
    "The target does not play scripts: `say: ready` was not answered with the text `ready`. Cases that need "
    "the scripted model (annex A0) fail for that alone. If a real model answers, judge with --model NAME."
)
NOT_KNOWN: Final = (
    "whether the target has {0} could not be found out ({1}); `profiles` in a features file says it: "
    "without {0} in it the case is played, with it the case does not apply"
)

Progress = Callable[["CaseResult"], None]


@attrs.define
class CaseResult:
    """What became of one case. ``state`` is ran, broken-off, skipped or harness-error."""

    case: Case
    state: str
    reason: str = ""
    seconds: float = 0.0
    records: list[Record] = attrs.Factory(list)
    dropped: int = 0


@attrs.define
class Run:
    """Everything that a run found out."""

    ledger: Ledger = attrs.Factory(Ledger)
    cases: dict[str, CaseResult] = attrs.Factory(dict)
    event_types: Counter[str] = attrs.Factory(Counter)
    error_codes: Counter[str] = attrs.Factory(Counter)
    notes: list[str] = attrs.Factory(list)  # what concerns the whole run, in words for people


def ready(outcome: Outcome) -> bool:
    """Whether the plain turn said what its script says."""
    events = probe.said(outcome)
    whole = {str(event.get("text")) for event in events if event.get("type") == "response.output_text.done"}
    deltas = (event for event in events if event.get("type") == "response.output_text.delta")
    return "ready" in whole | {"".join(str(event.get("delta")) for event in deltas)}


def narrow(spec: Spec, glob: str | None) -> tuple[list[Case], frozenset[str] | None]:
    """The cases, and the clauses to look at, that ``-k`` leaves; raises `UsageError` if it names none."""
    if glob is None:
        return list(spec.cases.values()), None
    clauses = {name for name in spec.clauses if fnmatchcase(name, glob)}
    cases = [
        case
        for case in spec.cases.values()
        if fnmatchcase(case.id, glob) or clauses.intersection(case.covers)
    ]
    if not clauses:
        clauses = {name for case in cases for name in case.covers}
    if not clauses and not cases:
        raise UsageError(f"-k {glob} names no clause and no case")
    return cases, frozenset(clauses)


def applies(spec: Spec, case: Case, selection: Selection) -> bool:
    """Whether a case has anything to say about what is selected."""
    missing = needs_of(case, selection.profiles).profiles - selection.profiles
    watched = any(selection.skips(spec.clauses[name]) is None for name in case.covers if name in spec.clauses)
    return watched and not missing


class Suite:
    """One run over a target."""

    def __init__(
        self,
        spec: Spec,
        offer: Offer,
        selection: Selection,
        *,
        jobs: int = 1,
        progress: Progress | None = None,
    ) -> None:
        self.spec, self.offer, self.selection = spec, offer, selection
        self.jobs = max(1, jobs)
        self.progress = progress or (lambda _: None)
        self.run = Run()
        self.patience = Patience()
        self.present = frozenset(PROFILES) if offer.own_servers else selection.profiles
        self.given_up: str | None = None
        self.last_seen = ""

    async def play(self, cases: Iterable[Case]) -> Run:
        """Play all that apply, and judge them."""
        self.run.ledger.insane = await self.plain_turn()
        if self.run.ledger.insane and not self.given_up:
            self.run.notes.append(f"Not even a plain turn works: {self.run.ledger.insane}")
        playable = [case for case in cases if applies(self.spec, case, self.selection) and self.scripts(case)]
        unclear = await self.find_out(playable)
        for case in playable:
            for profile in sorted(lacking(case) & unclear.keys()):
                self.skip(case, unclear[profile])
        playable = [case for case in playable if not lacking(case) & unclear.keys()]
        asked = [case for case in playable if self.asked_for(case)]
        await self.play_groups(self.grouped(asked))
        # What nobody asked for may end a server, and so must not come before what was asked for.
        await self.play_groups(self.grouped(case for case in playable if not self.asked_for(case)))
        if self.given_up:
            self.run.notes.append(f"The run was given up: {self.given_up}")
        return self.run

    def scripts(self, case: Case) -> bool:
        """Whether the target has the model that a case needs; it is skipped if not."""
        able = self.selection.scripted or SCRIPTED not in case.needs
        if not able:
            self.skip(case, NEEDS_SCRIPT)
        return able

    def asked_for(self, case: Case) -> bool:
        """Whether a case covers a clause of a profile that was selected."""
        clauses = (self.spec.clauses[name] for name in case.covers if name in self.spec.clauses)
        return any(clause.profile in self.selection.profiles for clause in clauses)

    def grouped(self, cases: Iterable[Case]) -> dict[Config, list[Case]]:
        groups: dict[Config, list[Case]] = {}
        for case in cases:
            groups.setdefault(needs_of(case, self.present).config, []).append(case)
        return groups

    async def plain_turn(self) -> str:
        """Try one turn that every server must manage; gives what went wrong."""
        try:
            target = await self.offer.target(())
            await trio.aclose_forcefully(await self.first_connection(target))
        except (Unavailable, Unreachable) as exc:
            self.given_up = str(exc)
            return str(exc)
        outcome = await self.play_case(PLAIN_TURN, target)
        problem = outcome.harness_error or outcome.broken or ""
        if self.selection.scripted and not problem and not ready(outcome):
            self.run.notes.append(NO_SCRIPTS)
        return problem

    async def first_connection(self, target: Target) -> trio.abc.Stream:
        """A server that was started a moment ago does not listen yet."""
        until = trio.current_time() + START_SECONDS
        while True:
            try:
                return await target.connect()
            except Refused:
                if trio.current_time() >= until:
                    raise
            await trio.sleep(START_STEP)

    async def find_out(self, cases: list[Case]) -> dict[str, str]:
        """Which profiles the target has besides those selected, where cases ask for a server without them.

        Gives the profiles of which that cannot be said, each with the reason.
        """
        features, unclear = self.offer.features, {}
        self.present |= features.offered or frozenset()
        self.present |= {name for name in PROFILES if f"without={name.lower()}" in features.configs}
        wanted = frozenset().union(*map(lacking, cases)) - self.present
        for profile in sorted(wanted) if features.offered is None and not self.run.ledger.insane else ():
            try:
                found = await probe.has(await self.offer.target(()), profile)
                self.present |= {profile} if found else frozenset()
            except (Unavailable, Unreachable, probe.Unclear) as exc:
                unclear[profile] = NOT_KNOWN.format(profile.lower(), exc)
        self.run.ledger.present = self.present
        return unclear

    async def play_groups(self, groups: dict[Config, list[Case]]) -> None:
        if not self.offer.own_servers:
            for config, cases in groups.items():
                await self.group(config, cases)
            return
        async with trio.open_nursery() as nursery:
            for config, cases in groups.items():
                nursery.start_soon(self.group, config, cases)

    async def group(self, config: Config, cases: list[Case]) -> None:
        """The cases of one configuration, ``jobs`` at a time."""
        waiting = list(reversed(cases))

        async def work() -> None:
            while waiting:
                await self.one(config, waiting.pop())

        async with trio.open_nursery() as nursery:
            for _ in range(min(self.jobs, len(cases))):
                nursery.start_soon(work)

    async def one(self, config: Config, case: Case) -> None:
        if self.given_up:
            self.skip(case, self.given_up)
            return
        try:
            target = await self.offer.target(config)
        except Unavailable as exc:
            self.skip(case, str(exc))
            return
        except Unreachable as exc:
            self.given_up = str(exc)
            self.skip(case, str(exc))
            return
        outcome = await self.play_case(case, target)
        self.take(outcome, needs_of(case, self.present))
        if outcome.records:
            self.last_seen = case.id
        elif outcome.broken and not config:
            self.given_up = self.given_up or await self.gone(target)
        if self.patience.in_vain > GIVE_UP_SECONDS:
            self.given_up = f"the server said nothing for {GIVE_UP_SECONDS:.0f} s of waiting"

    async def gone(self, target: Target) -> str | None:
        """Why the server cannot be reached any more, or None: it can, or was started again meanwhile."""
        for _ in range(GONE_TRIES):
            try:
                await trio.aclose_forcefully(await target.connect())
                return None
            except Unreachable as exc:
                why = str(exc)
            await trio.sleep(GONE_SECONDS)
        return f"{why}; the last case that it took part in is {self.last_seen}"

    async def play_case(self, case: Case, target: Target) -> Outcome:
        """A case; a fault of the suite itself ends in a harness error of that case only."""
        try:
            return await run_case(case, target, self.patience)
        except Exception as exc:  # the firewall of a run: whatever a server does, the others are judged
            causes = "; ".join(f"{type(one).__name__}: {one}" for one in leaves(exc))
            return Outcome(case, harness_error=causes)

    # --- taking results -----------------------------------------------------------------------------

    def skip(self, case: Case, reason: str) -> None:
        for name in case.covers:
            self.run.ledger.of(name).skipped.append(Evidence(case.id, reason))
        self.done(CaseResult(case, "skipped", reason))

    def take(self, outcome: Outcome, needs: Needs) -> None:
        """Enter an outcome, and what the invariants say of its trace."""
        case, ledger = outcome.case, self.run.ledger
        judged = {one.clause for one in outcome.observations}
        for one in outcome.observations:
            evidence = Evidence(case.id, one.detail, one.line, one.record, kind=one.kind)
            tally = ledger.of(one.clause)
            (tally.held if one.ok else tally.faults).append(evidence)
        judged |= self.judge(outcome, needs)
        reason = outcome.harness_error or outcome.broken
        for name in set(case.covers) - judged if reason else ():
            tally = ledger.of(name)
            where = tally.harness if outcome.harness_error else tally.broken_off
            where.append(Evidence(case.id, str(reason), outcome.broken_line, len(outcome.records) - 1))
        state = "harness-error" if outcome.harness_error else "broken-off" if outcome.broken else "ran"
        kept = [shorten(record) for record in outcome.records[:KEPT_RECORDS]]
        dropped = len(outcome.records) - len(kept)
        self.done(CaseResult(case, state, reason or "", outcome.seconds, kept, dropped))

    def judge(self, outcome: Outcome, needs: Needs) -> set[str]:
        """The invariants over the trace of a case; gives the clauses that they judged."""
        one = Judge(self.spec)
        one.feed(-1, meta(dialects=needs.dialects))
        for line, record in enumerate(outcome.records):
            one.feed(line, record)
        found: Judgement = one.finish()
        self.run.event_types += found.event_types
        self.run.error_codes += found.error_codes
        judged = set()
        for clause in found.held.keys() | found.broken.keys():
            if self.spec.clauses[clause].profile in needs.switched_off:
                continue
            judged.add(clause)
            tally = self.run.ledger.of(clause)
            if not found.broken[clause]:
                tally.held.append(Evidence(outcome.case.id, ""))
        for finding in found.findings:
            if finding.clause in judged:
                evidence = Evidence(
                    outcome.case.id, finding.detail, 0, finding.line, finding.conn, finding.kind
                )
                self.run.ledger.of(finding.clause).faults.append(evidence)
        for fall in found.falls:
            evidence = Evidence(outcome.case.id, f"the suite itself fell: {fall.what}", 0, fall.line)
            for name in (fall.clause,) if fall.clause else outcome.case.covers:
                self.run.ledger.of(name).harness.append(evidence)
        return judged

    def done(self, result: CaseResult) -> None:
        self.run.cases[result.case.id] = result
        self.progress(result)


def leaves(exc: BaseException) -> Iterator[BaseException]:
    """The exceptions themselves, out of all groups around them."""
    if isinstance(exc, BaseExceptionGroup):
        for inner in exc.exceptions:
            yield from leaves(inner)
    else:
        yield exc


def shorten(record: Record) -> Record:
    """A record as it is kept: long texts are cut, and say so."""
    return {key: _cut(value) for key, value in record.items()}


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > KEPT_TEXT:
        return f"{value[:KEPT_TEXT]}… ({len(value)} characters)"
    return value
