"""``matrix``: many reports side by side; rows in which all servers behave alike are grouped."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from conformance.report.data import Report
from conformance.report.html import page
from conformance.verdict import VERDICTS

Clause = dict[str, Any]


def matrix_page(reports: list[Report]) -> str:
    """One table: a row per group of clauses with the same verdicts, a column per server."""
    names = _names(reports)
    rows = "".join(_group(verdicts, clauses) for verdicts, clauses in grouped(reports))
    heads = "".join(f"<th scope=col>{escape(name)}</th>" for name in names)
    sums = "".join(f"<td>{escape(report['summary']['line'])}</td>" for report in reports)
    body = f"""<h1>Responses over WebSocket: {len(reports)} servers</h1>
<p class="quiet">Clauses that all servers treat alike stand together, the ones with failures first.</p>
<div class="scroll"><table class="matrix">
<thead><tr><th scope=col>clauses</th>{heads}</tr></thead>
<tbody><tr><th scope=row>sum</th>{sums}</tr>{rows}</tbody>
</table></div>"""
    return page("Conformance of several servers", body, {}, script=False)


def grouped(reports: list[Report]) -> list[tuple[tuple[str, ...], list[Clause]]]:
    """(verdicts, one per report; the clauses that have them), worst verdicts first."""
    columns = [{clause["id"]: clause for clause in report["clauses"]} for report in reports]
    every: dict[str, Clause] = {}
    for column in columns:
        every.update({name: clause for name, clause in column.items() if name not in every})
    groups: dict[tuple[str, ...], list[Clause]] = {}
    for name, clause in every.items():
        verdicts = tuple(
            column[name]["verdict"] if name in column else "not-applicable" for column in columns
        )
        if set(verdicts) != {"not-applicable"}:
            groups.setdefault(verdicts, []).append(clause)
    return sorted(groups.items(), key=lambda group: sorted(map(VERDICTS.index, group[0])))


def _names(reports: list[Report]) -> list[str]:
    """The servers' names; one that occurs twice gets a number."""
    names: list[str] = []
    for report in reports:
        name, count = str(report["target"]["name"]), 2
        while name in names:
            name, count = f"{report['target']['name']} ({count})", count + 1
        names.append(name)
    return names


def _sentence(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _group(verdicts: tuple[str, ...], clauses: list[Clause]) -> str:
    cells = "".join(f'<td><span class="v v-{verdict}">{verdict}</span></td>' for verdict in verdicts)
    lines = "".join(
        f'<li><span class="id">{one["id"]}</span> {_sentence(one["text"])}</li>' for one in clauses
    )
    title = clauses[0]["id"] if len(clauses) == 1 else f"{len(clauses)} clauses"
    opened = " open" if len(clauses) <= 3 else ""
    head = f"<details{opened}><summary>{title}</summary><ul>{lines}</ul></details>"
    return f"<tr><th scope=row>{head}</th>{cells}</tr>"
