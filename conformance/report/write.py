"""Writes a report in all its forms into a directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance.report import forms, html
from conformance.report.data import Report
from conformance.suite import Run
from conformance.trace import dump, meta


def directory(path: Path, report: Report, run: Run) -> None:
    """``report.json``, ``.md``, ``.html``, ``junit.xml``, ``badge.json`` and ``traces/CASE.jsonl``."""
    traces = path / "traces"
    traces.mkdir(parents=True, exist_ok=True)
    write_json(path / "report.json", report)
    write_json(path / "badge.json", forms.badge(report))
    (path / "report.md").write_text(forms.markdown(report, run), "utf-8", "replace")
    (path / "report.html").write_text(html.report_page(report, run), "utf-8", "replace")
    (path / "junit.xml").write_text(forms.junit(report), "utf-8", "replace")
    for name, case in run.cases.items():
        if case.records:
            lines = dump([meta(case=name, profiles=report["profiles"], dropped=case.dropped), *case.records])
            text = "\n".join(lines) + "\n"
            (traces / f"{name}.jsonl").write_text(text, "utf-8", "surrogatepass")


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8", "replace")
