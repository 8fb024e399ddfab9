"""Pages for people: a report, and a trace drawn as two swim-lanes. One self-contained file each."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from conformance.report.data import Report, worst_first
from conformance.suite import Run
from conformance.trace import Record

# What a page holds of a trace; the whole is in the traces beside it.
TRACE_RECORDS: Final = 120
TRACE_TEXT: Final = 1200
QUIET_TEXT: Final = 300


@cache
def asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


def page(title: str, body: str, data: dict[str, Any], *, script: bool = True) -> str:
    """A whole HTML document; ``data`` is what its script draws from."""
    # `</script>` inside of a string would end the element.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    draw = f'<script type="application/json" id="data">{text}</script>\n<script>{asset("page.js")}</script>'
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{asset("page.css")}</style>
</head>
<body>
{body}
{draw if script else ""}
</body>
</html>
"""


def report_page(report: Report, run: Run) -> str:
    """``report.html``."""
    target = report["target"]["name"]
    summary = report["summary"]
    body = f"""<h1>Responses over WebSocket: {escape(target)}</h1>
<p class="sum">{escape(summary["line"])}</p>
<p class="quiet">{_about(report)}</p>
{_notes(report)}
{_totals(summary["profiles"])}
<div class="filters" role="search">
<input id="search" type="search" placeholder="words, or an id" aria-label="search">
{_select("verdict", "every verdict", {one["verdict"] for one in report["clauses"]})}
{_select("profile", "every profile", {one["profile"] for one in report["clauses"]})}
<label><input id="required" type="checkbox"> required only</label>
<span id="count" class="quiet" role="status"></span>
</div>
<div id="clauses" class="clauses"></div>
<noscript>{_plain(report)}</noscript>"""
    clauses = worst_first(report["clauses"])
    return page(f"{target}: {summary['line']}", body, {"clauses": clauses, "traces": _traces(report, run)})


def _about(report: Report) -> str:
    profiles = ", ".join(report["profiles"])
    return escape(f"spec {report['spec_version']}, suite {report['suite_version']}, profiles {profiles}")


def _notes(report: Report) -> str:
    return "".join(f'<p class="note">{escape(note)}</p>' for note in report.get("notes", ()))


def _totals(profiles: dict[str, dict[str, int]]) -> str:
    out = []
    for name, counts in profiles.items():
        parts = ", ".join(
            f'<span class="v v-{verdict}">{count} {verdict}</span>'
            for verdict, count in sorted(counts.items())
        )
        out.append(f"<li><b>{escape(name)}</b> {parts}</li>")
    return f'<ul class="totals">{"".join(out)}</ul>'


def _select(name: str, every: str, values: set[str]) -> str:
    options = "".join(f"<option>{escape(value)}</option>" for value in sorted(values))
    return f'<select id="{name}" aria-label="{name}"><option value="">{every}</option>{options}</select>'


def _plain(report: Report) -> str:
    rows = "".join(
        f"<li><b>{escape(one['verdict'])}</b> <code>{one['id']}</code> {escape(one['text'])}</li>"
        for one in worst_first(report["clauses"])
    )
    return f"<ul>{rows}</ul>"


def _traces(report: Report, run: Run) -> dict[str, Any]:
    """The traces that the evidence points into; those of passing clauses with short texts."""
    bad: set[str] = set()
    used: dict[str, None] = {}
    for clause in report["clauses"]:
        for one in clause["evidence"]:
            used[one["case"]] = None
            if clause["verdict"] != "pass":
                bad.add(one["case"])
    out = {}
    for name in used:
        case = run.cases.get(name)
        if case is not None and case.records:
            limit = TRACE_TEXT if name in bad else QUIET_TEXT
            kept = [_short(record, limit) for record in case.records[:TRACE_RECORDS]]
            out[name] = {"records": kept, "dropped": len(case.records) - len(kept) + case.dropped}
    return out


def _short(record: Record, limit: int) -> Record:
    """A record with long strings cut; JSON stays JSON, so that it can be folded open."""
    text = record.get("text")
    if isinstance(text, str) and len(text) > limit:
        try:
            cut = json.dumps(_prune(json.loads(text)), ensure_ascii=False)
        except (ValueError, RecursionError):
            cut = text
        record = {**record, "text": cut if len(cut) <= 2 * limit else f"{cut[: 2 * limit]}…"}
    return record


_LEFT_OUT: Final = frozenset(
    ("tools", "text", "reasoning", "metadata", "temperature", "top_p", "truncation", "top_logprobs",
     "presence_penalty", "frequency_penalty", "parallel_tool_calls", "tool_choice", "service_tier", "user",
     "background", "max_output_tokens", "max_tool_calls", "safety_identifier", "prompt_cache_key",
     "instructions")
)  # fmt: skip


def _prune(value: Any, key: str = "") -> Any:
    """The response object without what a reader of a trace never looks for; long strings cut."""
    if isinstance(value, dict):
        left_out = _LEFT_OUT if key == "response" else ()
        kept = {name: _prune(inner, name) for name, inner in value.items() if name not in left_out}
        return {**kept, "…": "shortened"} if len(kept) < len(value) else kept
    if isinstance(value, list):
        return [_prune(inner) for inner in value[:20]]
    return f"{value[:200]}…" if isinstance(value, str) and len(value) > 200 else value
