"""What the commands do: each takes the parsed options and gives an exit code."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from conformance import core, trace
from conformance import diff as differing
from conformance import export as exporting
from conformance import judge as judging
from conformance.invariants import REGISTRY
from conformance.known import Known, read_known
from conformance.offer import Features, Foreign, Offer, read_features, read_profiles
from conformance.report import forms, write
from conformance.report.data import BadReport, Report, build
from conformance.report.data import load as load_report
from conformance.report.matrix import matrix_page
from conformance.specdoc import Spec, load
from conformance.suite import CaseResult, Run, Suite, narrow
from conformance.target import TcpTarget, Unreachable, UsageError, parse_url
from conformance.transcript import Case
from conformance.verdict import Result, Selection, exit_code, judge_all

OWN_JOBS: Final = 4


def run(options: argparse.Namespace) -> int:
    """``run``: play the cases against a server, write the reports, print the sum."""
    spec = load()
    try:
        cases, only = narrow(spec, options.glob)
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    known = read_known(Path(options.known_failures), spec) if options.known_failures else []
    asked = _asked(options)
    if asked.core:
        cases = [case for case in cases if not core.needs_socket(case, asked.features.profiles)]
    progress = Progress(len(cases))
    report, run, results = trio.run(_run, asked, spec, cases, only, known, progress)
    progress.clear()
    if options.report:
        write.directory(Path(options.report), report, run)
    if options.junit:
        Path(options.junit).write_text(forms.junit(report), "utf-8", "replace")
    if options.json:
        print(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        print(forms.console(report))
    return exit_code(results)


@attrs.frozen
class Asked:
    """What the options of ``run`` ask for; neither URL nor core: the reference server inside."""

    url: str | None
    features: Features
    key: str | None
    jobs: int
    core: tuple[str, ...] = ()

    def offer(self, nursery: trio.Nursery) -> Offer:
        if self.url is not None:
            return Foreign(self.url, self.features, self.key)
        if self.core:
            return core.Core(self.core, self.features, nursery)
        from conformance.embedded import Embedded

        return Embedded(self.features, nursery)


async def _run(
    asked: Asked,
    spec: Spec,
    cases: list[Case],
    only: frozenset[str] | None,
    known: list[Known],
    progress: Progress,
) -> tuple[Report, Run, list[Result]]:
    async with trio.open_nursery() as nursery:
        offer, features = asked.offer(nursery), asked.features
        selection = Selection(profiles=features.profiles, scripted=features.scripted, only=only)
        run = await Suite(spec, offer, selection, jobs=asked.jobs, progress=progress).play(cases)
        nursery.cancel_scope.cancel()
    if asked.core:
        selection = attrs.evolve(selection, beyond=core.beyond(spec, run.ledger, features.profiles))
    results = judge_all(spec, run.ledger, selection, known)
    return build(results, run, features, offer.name, features.profiles), run, results


def _asked(options: argparse.Namespace) -> Asked:
    """Understand the options; raises `UsageError`."""
    if options.jobs is not None and options.jobs < 1:
        raise UsageError("--jobs needs a number from 1")
    if options.url is None and options.core is None:
        return Asked(None, _own_features(options), None, options.jobs or OWN_JOBS)
    command = _command(options)
    features = read_features(Path(options.features)) if options.features else Features()
    if options.profiles:
        features = attrs.evolve(features, profiles=read_profiles(options.profiles))
    if options.model:
        features = attrs.evolve(features, model=options.model, scripted=False)
    return Asked(options.url, features, _key(options.api_key_env), options.jobs or 1, command)


def _command(options: argparse.Namespace) -> tuple[str, ...]:
    """The words of ``--core``, none for a URL; raises `UsageError`."""
    if options.core is None:
        parse_url(options.url)
        return ()
    for name, value in (("a URL", options.url), ("--api-key-env", options.api_key_env)):
        if value:
            raise UsageError(f"--core and {name} exclude each other")
    return core.command_of(options.core)


def _own_features(options: argparse.Namespace) -> Features:
    for name in ("features", "model", "api_key_env"):
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} needs a URL")
    from conformance.embedded import landed

    return Features(profiles=read_profiles(options.profiles) if options.profiles else landed())


def _key(variable: str | None) -> str | None:
    if not variable:
        return None
    key = os.environ.get(variable)
    if not key:
        raise UsageError(f"the environment variable {variable} is empty or not set")
    return key


class Progress:
    """One line that is written over, on a terminal only."""

    def __init__(self, total: int) -> None:
        self.total, self.count, self.bad = total, 0, 0
        self.shown = sys.stderr.isatty()

    def __call__(self, result: CaseResult) -> None:
        self.count += 1
        self.bad += result.state != "ran"
        if self.shown:
            text = f"{self.count}/{self.total} cases, {self.bad} not played to their end: {result.case.id}"
            print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


# --- judge ------------------------------------------------------------------------------------------


def judge(options: argparse.Namespace) -> int:
    """``judge``: the invariants over anybody's recording, streamed."""
    spec = load()
    try:
        with open(options.trace, encoding="utf-8", errors="surrogateescape") as lines:
            found = judging.judge(spec, trace.read(lines))
    except OSError as exc:
        raise UsageError(f"{options.trace}: {exc.strerror}") from None
    if not found.records:
        raise UsageError(f"{options.trace}: no record of a trace in it")
    print(json.dumps(_judgement(found), indent=1) if options.json else _findings(spec, found))
    return 1 if any(_counts(spec, found, name) for name in found.broken) else 0


def _counts(spec: Spec, found: judging.Judgement, name: str) -> bool:
    """Whether a broken clause is a failure: a MUST of a profile that the recording claims."""
    clause = spec.clauses[name]
    return clause.must and clause.profile in found.profiles


def _judgement(found: judging.Judgement) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "records": found.records,
        "profiles": sorted(found.profiles),
        "findings": [attrs.asdict(one) for one in sorted(found.findings, key=lambda one: one.line)],
        "held": dict(sorted(found.held.items())),
        "broken": dict(sorted(found.broken.items())),
        "unreadable": [{"line": line, "why": why} for line, why in found.unreadable],
    }


def _findings(spec: Spec, found: judging.Judgement) -> str:
    out = [f"line {line}: not a record: {why}" for line, why in found.unreadable[: judging.KEPT]]
    for one in sorted(found.findings, key=lambda one: (one.line, one.clause)):
        clause = spec.clauses[one.clause]
        mark = "" if _counts(spec, found, one.clause) else f" ({clause.keyword}, {clause.profile}: a warning)"
        out.append(f"line {one.line}: {one.clause}{mark} [{one.conn}]: {one.detail}")
    for name, count in sorted(found.broken.items()):
        out.append(f"{name} broken {count} times: {spec.clauses[name].text}")
    held = len(found.held.keys() - found.broken.keys())
    out.append(f"{found.records} records: {held} clauses held, {len(found.broken)} broken")
    return "\n".join(out)


# --- list -------------------------------------------------------------------------------------------


def list_clauses(options: argparse.Namespace) -> int:
    """``list``: every clause with its fields, the cases and the invariants that judge it."""
    spec = load()
    rows = [_row(spec, name) for name in spec.clauses]
    if options.json:
        print(json.dumps({"schema_version": 1, "clauses": rows}, indent=1, ensure_ascii=False))
        return 0
    for row in rows:
        judged = f"{len(row['cases'])} cases, {row['invariants']} invariants"
        head = f"{row['id']}  {row['keyword']:<10} {row['profile']:<13} {row['role']:<6}"
        print(f"{head} {judged if row['testable'] else row['test']}\n    {row['text']}")
    print(f"{len(rows)} clauses, {len(spec.cases)} cases")
    return 0


def _row(spec: Spec, name: str) -> dict[str, Any]:
    clause = spec.clauses[name]
    shapes = sum(name in table.clauses for table in spec.tables)
    shapes += sum(name in row.clauses for row in spec.errors)
    return {
        "id": name,
        "keyword": clause.keyword,
        "profile": clause.profile,
        "role": clause.role,
        "test": clause.test,
        "reason": clause.reason,
        "provenance": clause.provenance,
        "since": clause.since,
        "place": str(clause.place),
        "text": clause.text,
        "testable": clause.testable,
        "cases": [case.id for case in spec.cases.values() if name in case.covers],
        "invariants": len(REGISTRY.get(name, ())) + shapes,
    }


# --- mutants ----------------------------------------------------------------------------------------


def mutants(options: argparse.Namespace) -> int:
    """``mutants``: clause, mutant, caught by; 0 if each was caught by exactly its clause."""
    from conformance.mutants import run as trying

    if options.machine:
        return _by_machine(options)
    spec = load()
    wanted = trying.chosen(options.glob)
    if not wanted and options.glob:
        raise UsageError(f"-k {options.glob} names no mutant")
    show = (lambda _: None) if options.json else (lambda row: print(_mutant_line(row), flush=True))
    rows = trying.try_all(wanted, full=options.full, progress=show)
    missing = [] if options.glob else trying.without_mutant(spec)
    inexact = [row for row in rows if row.problem]
    if options.json:
        data = {"schema_version": 1, "mutants": [attrs.asdict(row) for row in rows], "without": missing}
        print(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        for name in missing:
            print(f"{name:<13} has no mutant")
        print(
            f"{len(rows) - len(inexact)} exact, {len(inexact)} not, {len(missing)} clauses without a mutant"
        )
    return 1 if inexact or missing else 0


def _by_machine(options: argparse.Namespace) -> int:
    from conformance.mutants import machine

    found = machine.score(load())
    if options.json:
        print(json.dumps({"schema_version": 1, **attrs.asdict(found)}, indent=1, ensure_ascii=False))
    else:
        print(found.told())
    return 0 if found.good else 1


def _mutant_line(row: Any) -> str:
    also = f" (and {', '.join(row.also_fails)}, for a reason)" if row.also_fails and not row.problem else ""
    line = f"{row.clause:<13} {row.mutant:<44} {'exact' + also if not row.problem else row.problem}"
    return "\n".join([line, *(f"{'':<14}{one}" for one in row.evidence)] if row.problem else [line])


# --- diff, export, matrix ---------------------------------------------------------------------------


def diff(options: argparse.Namespace) -> int:
    """``diff``: 0 if two servers answer alike, 1 if not."""
    spec = load()
    first, second = TcpTarget.of(options.a), TcpTarget.of(options.b)
    count = trio.run(_diff, spec, first, second)
    print(f"{count} of {len(differing.cases_for(spec))} cases differ")
    return 1 if count else 0


async def _diff(spec: Spec, first: TcpTarget, second: TcpTarget) -> int:
    count = 0
    for target in (first, second):
        try:
            await trio.aclose_forcefully(await target.connect())
        except Unreachable as exc:
            raise UsageError(str(exc)) from None
    for case in differing.cases_for(spec):
        found = await differing.compare(case, first, second)
        if found is not None:
            count += 1
            print("\n".join([f"--- {found.case}", *found.lines[2:]]), flush=True)
    return count


def export(options: argparse.Namespace) -> int:
    """``export``: the specification as data."""
    for name in exporting.export(load(), Path(options.directory)):
        print(Path(options.directory) / name)
    return 0


def matrix(options: argparse.Namespace) -> int:
    """``matrix``: a page with a column for each report."""
    try:
        reports = [load_report(Path(name)) for name in options.reports]
    except BadReport as exc:
        raise UsageError(str(exc)) from None
    Path(options.output).write_text(matrix_page(reports), "utf-8", "replace")
    return 0
