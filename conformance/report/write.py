"""Writes a report in all its forms."""

from __future__ import annotations

from pathlib import Path

from conformance.report.data import Report, worst_first
from conformance.suite import Run


def console(report: Report) -> str:
    """The text for a terminal: what is not well first, then totals, and the sum as the last line."""
    out = []
    for clause in worst_first(report["clauses"]):
        if clause["verdict"] in ("pass", "not-applicable", "expected-fail"):
            continue
        if clause["verdict"] == "not-judged" and not clause["reason"].startswith("it refines"):
            continue
        out.append(f"{clause['verdict']:<14} {clause['id']}  {clause['text']}")
        first = clause["evidence"][0] if clause["evidence"] else None
        where = f"{first['case']} {first['place']}: " if first else ""
        out.append(f"               {where}{clause['reason'][:600]}")
    for profile, counts in report["summary"]["profiles"].items():
        parts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        out.append(f"{profile:<14} {parts}")
    return "\n".join([*out, report["summary"]["line"]])


def directory(path: Path, report: Report, run: Run) -> None:
    """All forms of a report into a directory."""
    raise NotImplementedError


def junit(path: Path, report: Report) -> None:
    raise NotImplementedError
