"""Writes a report in all its forms into a directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from conformance.report import forms, html
from conformance.report.data import Report
from conformance.suite import Run
from conformance.target import UsageError
from conformance.trace import dump, meta


def directory(path: Path, report: Report, run: Run) -> None:
    """``report.json``, ``.md``, ``.html``, ``junit.xml``, ``badge.json`` and ``traces/CASE.jsonl``."""
    traces = path / "traces"
    with writing():
        traces.mkdir(parents=True, exist_ok=True)
    text(path / "report.json", _json(report))
    text(path / "badge.json", _json(forms.badge(report)))
    text(path / "report.md", forms.markdown(report, run))
    text(path / "report.html", html.report_page(report, run))
    text(path / "junit.xml", forms.junit(report))
    for name, case in run.cases.items():
        if case.records:
            lines = dump([meta(case=name, profiles=report["profiles"], dropped=case.dropped), *case.records])
            text(traces / f"{name}.jsonl", "\n".join(lines) + "\n", "surrogatepass")


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


@contextmanager
def writing() -> Iterator[None]:
    """What cannot be written is the user's to mend: `UsageError`."""
    try:
        yield
    except OSError as exc:
        raise UsageError(f"{exc.filename}: cannot be written: {(exc.strerror or str(exc)).lower()}") from None


def text(path: Path, what: str, errors: str = "replace") -> None:
    """A file with that text; raises `UsageError`."""
    with writing():
        path.write_text(what, "utf-8", errors)


def try_directory(path: Path) -> None:
    """Make a directory and see whether files can be made in it; raises `UsageError`."""
    with writing():
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            pass


def try_file(path: Path) -> None:
    """See whether a file can be written, and leave it as it was; raises `UsageError`."""
    there = path.exists()
    with writing():
        path.open("ab").close()
        if not there:
            path.unlink()
