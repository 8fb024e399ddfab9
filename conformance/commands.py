"""What the smaller commands do: each takes the parsed options and gives an exit code."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import attrs
import trio

from conformance import diff as differing
from conformance import export as exporting
from conformance.invariants import REGISTRY
from conformance.report import write
from conformance.report.data import BadReport
from conformance.report.data import load as load_report
from conformance.report.matrix import matrix_page
from conformance.specdoc import Spec, load
from conformance.suite import narrow
from conformance.target import TcpTarget, Unreachable, UsageError

# --- list -------------------------------------------------------------------------------------------


def list_clauses(options: argparse.Namespace) -> int:
    """``list``: every clause with its fields, the cases and the invariants that judge it."""
    spec = load()
    cases, only = narrow(spec, options.glob)
    rows = [_row(spec, name) for name in spec.clauses if only is None or name in only]
    if options.json:
        print(json.dumps({"schema_version": 1, "clauses": rows}, indent=1, ensure_ascii=False))
        return 0
    for row in rows:
        judged = f"{len(row['cases'])} cases, {row['invariants']} invariants"
        head = f"{row['id']}  {row['keyword']:<10} {row['profile']:<13} {row['role']:<6}"
        print(f"{head} {judged if row['testable'] else row['test']}\n    {row['text']}")
    print(f"{len(rows)} clauses, {len(cases)} cases")
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
    directory = Path(options.directory)
    write.try_directory(directory)
    with write.writing():
        names = exporting.export(load(), directory)
    for name in names:
        print(directory / name)
    return 0


def matrix(options: argparse.Namespace) -> int:
    """``matrix``: a page with a column for each report."""
    try:
        reports = [load_report(Path(name)) for name in options.reports]
    except BadReport as exc:
        raise UsageError(str(exc)) from None
    write.text(Path(options.output), matrix_page(reports))
    return 0
