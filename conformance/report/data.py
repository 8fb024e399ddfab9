"""``report.json``: what a run found out, as data. Every other form of report is made from it.

Its JSON Schema is `report.schema.json` beside this module; ``SCHEMA_VERSION`` goes up with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from conformance import __version__
from conformance.offer import Features
from conformance.report import shape
from conformance.specdoc import SPEC_VERSION
from conformance.suite import CaseResult, Run
from conformance.verdict import VERDICTS, Evidence, Result, summarise

SCHEMA_VERSION: Final = 1
Report = dict[str, Any]


def build(
    results: list[Result], run: Run, features: Features, target: str, profiles: frozenset[str]
) -> Report:
    """The report as a JSON value."""
    return {
        "schema_version": SCHEMA_VERSION,
        "spec_version": SPEC_VERSION,
        "suite_version": __version__,
        "target": {
            "name": target,
            "model": features.model,
            "scripted": features.scripted,
            "limits": features.limits,
        },
        "profiles": sorted(profiles),
        "notes": list(run.notes),
        "summary": attrs.asdict(summarise(results)),
        "clauses": [_clause(result, run) for result in results],
        "cases": [_case(one) for one in run.cases.values()],
        "seen": {"event_types": _counts(run.event_types), "error_codes": _counts(run.error_codes)},
    }


def _clause(result: Result, run: Run) -> dict[str, Any]:
    clause = result.clause
    return {
        "id": clause.id,
        "keyword": clause.keyword,
        "profile": clause.profile,
        "role": clause.role,
        "provenance": clause.provenance,
        "text": clause.text,
        "place": str(clause.place),
        "required": result.required,
        "verdict": result.verdict,
        "kind": result.kind,
        "reason": result.reason,
        "cases": list(result.cases),
        "evidence": [_evidence(one, run) for one in result.evidence],
    }


def _evidence(one: Evidence, run: Run) -> dict[str, Any]:
    case = run.cases.get(one.case)
    place = f"{case.case.place.file}:{one.line}" if case and one.line else ""
    return {"case": one.case, "place": place, "record": one.record, "kind": one.kind, "detail": one.detail}


def _case(one: CaseResult) -> dict[str, Any]:
    return {
        "id": one.case.id,
        "title": one.case.title,
        "place": str(one.case.place),
        "covers": list(one.case.covers),
        "state": one.state,
        "reason": one.reason,
        "seconds": round(one.seconds, 3),
        "records": len(one.records) + one.dropped,
    }


def _counts(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def schema() -> dict[str, Any]:
    """The JSON Schema of a report."""
    text = (Path(__file__).parent / "report.schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


class BadReport(ValueError):
    """A file that is no report of a version that is understood."""


def load(path: Path) -> Report:
    """A report from a file; raises `BadReport`."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise BadReport(f"{path}: {exc or 'nested too deeply'}") from None
    if not isinstance(data, dict) or data.get("schema_version") != SCHEMA_VERSION or "clauses" not in data:
        raise BadReport(f"{path}: no report of schema version {SCHEMA_VERSION}")
    if fault := next(shape.faults(schema(), data), None):
        raise BadReport(f"{path}: {fault}")
    return data


def worst_first(clauses: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Clauses in the order in which somebody wants to read them."""
    return sorted(clauses, key=lambda one: (not one["required"], VERDICTS.index(one["verdict"])))
