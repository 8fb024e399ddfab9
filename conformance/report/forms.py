"""The small forms of a report: Markdown, JUnit XML, a badge, and the text for a terminal."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final
from xml.etree import ElementTree

from conformance.report.data import Report, worst_first
from conformance.suite import Run
from conformance.trace import Record
from conformance.verdict import BESIDE, UNTESTED, counted

TRACE_LINES: Final = 10
# More clauses than this that could not run for one reason are told of together.
MANY: Final = 5
_QUIET: Final = frozenset(("pass", "not-applicable", "expected-fail"))
# Verdict -> element in JUnit. What is required and could not run is an error there: for many readers, a
# skipped test is green. The others say that they were skipped, else they would count as passed.
_JUNIT: Final = {
    "fail": "failure",
    "stale": "failure",
    "harness-error": "error",
    "could-not-run": "error",
    "not-exercised": "error",
}
_SKIPPED: Final = (*UNTESTED, *BESIDE)


_ABOUT_PROFILES: Final = re.compile(r"^the profile \w+ is not")


def not_well(report: Report) -> list[dict[str, Any]]:
    """What somebody has to look at, the worst first."""
    return [
        one
        for one in worst_first(report["clauses"])
        if one["verdict"] not in _QUIET
        and not (one["verdict"] == "not-judged" and not one["reason"].startswith("it refines"))
    ]


def console(report: Report, *, written: bool = True) -> str:
    """The text for a terminal: what is not well, totals, and the sum as the last line.

    What concerns the whole run stands at both ends, for nobody scrolls. ``written``: there is a report to
    look in.
    """
    where, notes = "in the report" if written else "use --report DIR to see them", report.get("notes", ())
    asked = [one for one in not_well(report) if _asked_for(one, report)]
    out = [*notes, *(line for clauses in alike(asked) for line in _on_console(clauses, where))]
    if others := len(not_well(report)) - len(asked):
        out.append(f"{'not selected':<14} {others} clauses of other profiles: {where}")
    for profile, counts in report["summary"]["profiles"].items():
        out.append(f"{profile:<14} {_counts(counts)}")
    out += [f"{'not applicable':<14} {count}: {reason}" for reason, count in left_out(report)]
    return "\n".join([*out, *notes, report["summary"]["line"]])


def _asked_for(clause: dict[str, Any], report: Report) -> bool:
    """A fault of the suite itself is never only counted."""
    return clause["profile"] in report["profiles"] or clause["verdict"] == "harness-error"


def alike(clauses: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The same, with those together that could not run for one and the same reason, if they are many."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in clauses:
        groups.setdefault((one["verdict"], one["reason"]), []).append(one)
    out = []
    for (verdict, _), group in groups.items():
        together = len(group) > MANY and verdict in ("could-not-run", "not-exercised")
        out += [group] if together else [[one] for one in group]
    return out


def _on_console(clauses: list[dict[str, Any]], report: str) -> list[str]:
    first = clauses[0]
    if len(clauses) > 1:
        names = " ".join(one["id"] for one in clauses[:MANY])
        head = f"{first['verdict']:<14} {len(clauses)} clauses: {first['reason'][:600]}"
        return [head, f"{'':<15}{names} and {len(clauses) - MANY} more: {report}"]
    where = _where(first)
    head = f"{first['verdict']:<14} {first['id']}  {first['text']}"
    return [head, f"{'':<15}{where + ': ' if where else ''}{first['reason'][:600]}"]


def left_out(report: Report) -> list[tuple[str, int]]:
    """Why clauses are not applicable, and how many for each reason."""
    found = (one["reason"] for one in report["clauses"] if one["verdict"] == "not-applicable")
    return Counter(
        _ABOUT_PROFILES.sub("its profile is not", one).partition(":")[0] for one in found
    ).most_common()


def _where(clause: dict[str, Any]) -> str:
    first = clause["evidence"][0] if clause["evidence"] else None
    return f"{first['case']} {first['place']}".strip() if first else ""


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))


def markdown(report: Report, run: Run) -> str:
    """``report.md``: failures first, each with its sentence and ten lines of the trace."""
    summary = report["summary"]
    out = [
        f"# {report['target']['name']}",
        "",
        f"**{summary['line']}** (spec {report['spec_version']}, suite {report['suite_version']})",
        "",
        *(line for note in report.get("notes", ()) for line in (f"**{note}**", "")),
        "| profile | |",
        "|---|---|",
        *(f"| {name} | {_counts(counts)} |" for name, counts in summary["profiles"].items()),
        *(f"| not applicable | {count}: {reason} |" for reason, count in left_out(report)),
    ]
    for clauses in alike(not_well(report)):
        out += _in_markdown(clauses[0], run) if len(clauses) == 1 else _together(clauses)
    return "\n".join(out) + "\n"


def _together(clauses: list[dict[str, Any]]) -> list[str]:
    reason = _fenced(clauses[0]["reason"], "text")
    head = ["", f"## {clauses[0]['verdict']}: {len(clauses)} clauses", "", reason, ""]
    return [*head, *(f"- {one['id']} {one['text']}" for one in clauses)]


def _in_markdown(clause: dict[str, Any], run: Run) -> list[str]:
    out = ["", f"## {clause['verdict']}: {clause['id']}", "", f"> {clause['text']}", ""]
    out += [f"{clause['keyword']} · {clause['profile']} · {clause['provenance']} · {clause['place']}", ""]
    out += [_fenced(clause["reason"], "text")] if clause["reason"] else []
    for one in clause["evidence"][:1]:
        lines = excerpt(run.cases[one["case"]].records, one["record"]) if one["case"] in run.cases else []
        if lines:
            out += ["", f"`{one['case']}` {one['place']}", "", _fenced("\n".join(lines), "text")]
    return out


def _fenced(text: str, info: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{text}\n{fence}"


def excerpt(records: list[Record], marked: int) -> list[str]:
    """Up to ten lines of a trace, ending a little behind the record that matters."""
    if not records:
        return []
    marked = min(marked if marked >= 0 else len(records) - 1, len(records) - 1)
    end = min(len(records), marked + 3)
    start = max(0, end - TRACE_LINES)
    return [_line(record, place == marked) for place, record in enumerate(records[start:end], start)]


def _line(record: Record, here: bool) -> str:
    arrow = ">" if record["dir"] == "c2s" else "<"
    fields = {name: value for name, value in record.items() if name not in ("t", "conn", "dir", "kind")}
    if record["kind"] == "text":
        what = record["text"]
    else:
        what = f"{record['kind']} {json.dumps(fields, ensure_ascii=False)}"
    mark = "*" if here else " "
    return f"{mark}{record['t']:8.3f} {record['conn']} {arrow} {what[:160]}{'…' if len(what) > 160 else ''}"


def junit(report: Report) -> str:
    """JUnit XML: a test case per clause of the selected profiles, and per clause that was judged besides."""
    suites: dict[str, list[dict[str, Any]]] = {}
    for clause in report["clauses"]:
        if clause["verdict"] != "not-applicable" or clause["profile"] in report["profiles"]:
            suites.setdefault(clause["profile"], []).append(clause)
    root = ElementTree.Element("testsuites", name=report["target"]["name"])
    for profile, clauses in suites.items():
        kinds = [_junit_kind(one) for one in clauses]
        suite = ElementTree.SubElement(root, "testsuite", name=profile, tests=str(len(clauses)))
        suite.set("failures", str(kinds.count("failure")))
        suite.set("errors", str(kinds.count("error")))
        suite.set("skipped", str(kinds.count("skipped")))
        for clause in clauses:
            _junit_case(suite, clause)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _junit_kind(clause: dict[str, Any]) -> str | None:
    verdict = clause["verdict"]
    if clause["required"] or verdict in ("stale", "harness-error"):
        return _JUNIT.get(verdict)
    return "skipped" if verdict in _SKIPPED else None


def _junit_case(suite: ElementTree.Element, clause: dict[str, Any]) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=clause["profile"], name=clause["id"])
    kind = _junit_kind(clause)
    text = _xml(f"{clause['text']}\n{clause['reason']}\n{_where(clause)}")
    if kind == "skipped":
        message = f"{clause['verdict']}: {clause['reason']}"
        ElementTree.SubElement(case, kind, message=_xml(message)[:500])
    elif kind:
        found = ElementTree.SubElement(
            case, kind, type=clause["verdict"], message=_xml(clause["reason"])[:500]
        )
        found.text = text
    elif clause["verdict"] != "pass":
        ElementTree.SubElement(case, "system-out").text = f"{clause['verdict']}: {text}"


def _xml(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def badge(report: Report) -> dict[str, Any]:
    """For shields.io: always the counts, never a bare "passing"."""
    summary = report["summary"]
    message = f"{summary['passed']}/{summary['required']} required"
    if summary["failed"]:
        message += f", {summary['failed']} failed"
    if summary["not_run"]:
        message += f", {summary['not_run']} not run"
    if summary["not_tested"] > summary["not_run"]:
        message += f", {counted(summary['not_tested'])} not tested"
    good = "yellowgreen" if summary["not_tested"] else "brightgreen"
    color = {0: good, 1: "red", 3: "orange"}.get(summary["exit"], "lightgrey")
    return {
        "schemaVersion": 1,
        "label": f"RWS {report['spec_version']} {'+'.join(report['profiles']).lower()}",
        "message": message,
        "color": color,
    }
