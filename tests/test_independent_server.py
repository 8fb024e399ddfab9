"""The suite as a new user meets it: an empty directory, and a server written from the text.

The report alone has to say what that server lacks, and nothing wrong of what it does right.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest

from conformance.specdoc import load

SERVER = Path(__file__).parent / "independent_server.py"
COMMAND = Path(sys.executable).parent / "responses-conformance"
FEATURES = 'profiles = ["core", "warm"]\n'

# What the server lacks -> (what was expected, what came), as the report has to tell it.
GAPS: dict[str, tuple[str, str]] = {
    "RWS-CRE-010": (
        '"status":400,"error":{"param":"<id>"}',
        'type: expected "error", got "response.created"',
    ),
    "RWS-CRE-012": ('{"type":"error"', 'expected "error", got "response.created"'),
    "RWS-CRE-013": ('{"type":"error"', 'expected "error", got "response.created"'),
    "RWS-ITM-025": ('[{"text":"seen"}]', """got "error" ("There is no call 'call_"""),
    "RWS-ITM-027": ("item.encrypted_content: expected <id>", "got nothing, in response.output_item.done"),
    "RWS-CAC-004": ('"code":"previous_response_not_found"', "got nothing, in response.completed"),
    "RWS-CAC-005": ('"code":"previous_response_not_found"', "got nothing, in response.completed"),
    "RWS-WRM-009": ("response.output: expected <len:0>", 'got [{"id": "message_'),
}
# What could not be judged -> why.
NOT_JUDGED: dict[str, str] = {
    "RWS-HS-002": "does not offer the configuration api-key",
    "RWS-HS-003": "does not offer the configuration api-key",
    "RWS-FRM-007": "does not offer the configuration max-message=65536",
    "RWS-FRM-008": "does not offer the configuration max-message=65536",
    "RWS-LIM-001": "does not offer the configuration lifetime=2",
    "RWS-LIM-002": "does not offer the configuration lifetime=2",
    "RWS-LIM-003": "does not offer the configuration lifetime=2",
    "RWS-LIM-004": "does not offer the configuration lifetime=2",
    "RWS-ORD-017": 'expected "response.reasoning_summary_part.added", got "response.content_part.added"',
    "RWS-ORD-018": 'expected "response.reasoning_summary_part.added", got "response.content_part.added"',
    "RWS-ITM-015": "nothing judged it, although items-sealed-reasoning would have let it show",
    "RWS-ITM-029": "it refines RWS-ITM-025, which fails",
}


@attrs.frozen
class Run:
    """What the user has afterwards: an exit code, what was printed, and a directory."""

    code: int
    out: str
    files: Path
    report: dict[str, Any]

    def clauses(self, *verdicts: str) -> dict[str, dict[str, Any]]:
        return {one["id"]: one for one in self.report["clauses"] if one["verdict"] in verdicts}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("empty")
    (place / "features.toml").write_text(FEATURES)
    server = subprocess.Popen(
        [sys.executable, str(SERVER)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout
        url = server.stdout.readline().strip()
        arguments = ["run", url, "--features", "features.toml", "--report", "out"]
        done = subprocess.run(
            [str(COMMAND), *arguments], cwd=place, capture_output=True, text=True, timeout=120, check=False
        )
        assert server.poll() is None, "the server has died"
    finally:
        server.kill()
        server.communicate()
    assert "Traceback" not in done.stdout + done.stderr
    report = json.loads((place / "out" / "report.json").read_text("utf-8"))
    return Run(done.returncode, done.stdout, place / "out", report)


@cache
def sentence(name: str) -> str:
    return load().clauses[name].text


def sections(run: Run) -> dict[str, str]:
    """The parts of report.md by the id in their heading."""
    text = (run.files / "report.md").read_text("utf-8")
    parts = (part.partition("\n") for part in text.split("\n## ")[1:])
    return {head.rpartition(" ")[2]: body for head, _, body in parts}


def test_it_shares_nothing_with_the_reference() -> None:
    text = SERVER.read_text("utf-8")
    assert "responses_ref" not in text
    assert "import conformance" not in text
    assert len(text.splitlines()) <= 250


def test_what_it_does_right_passes_and_what_it_lacks_fails(run: Run) -> None:
    assert set(run.clauses("fail")) == set(GAPS)
    open_ones = {
        name
        for name, one in run.clauses("could-not-run", "not-exercised", "not-judged").items()
        if one["keyword"].startswith("MUST") and one["profile"] in run.report["profiles"]
    }
    assert open_ones == set(NOT_JUDGED)
    assert len([one for one in run.clauses("pass").values() if one["required"]]) > 120
    assert run.code == 1
    assert run.report["notes"] == []


def test_each_gap_is_named_with_its_sentence_what_was_expected_and_what_came(run: Run) -> None:
    parts = sections(run)
    for name, (expected, came) in GAPS.items():
        assert f"> {sentence(name)}" in parts[name]
        told = run.clauses("fail")[name]["reason"]
        assert expected in told
        assert came in told
        assert told in parts[name]
        trace = parts[name].split("```")[3].strip().splitlines()[1:]
        assert sum(line.startswith("*") for line in trace) == 1, name
        assert f"fail           {name}  {sentence(name)}" in run.out


def test_what_could_not_be_judged_says_why(run: Run) -> None:
    found = run.clauses("could-not-run", "not-exercised", "not-judged")
    for name, why in NOT_JUDGED.items():
        assert why in found[name]["reason"], name
        assert why in run.out


def test_the_traces_beside_the_report_show_the_conversations(run: Run) -> None:
    case = run.clauses("fail")["RWS-CAC-004"]["evidence"][0]
    lines = (run.files / "traces" / f"{case['case']}.jsonl").read_text("utf-8").splitlines()
    marked = json.loads(lines[case["record"] + 1])  # the first line is about the file
    assert json.loads(marked["text"])["type"] == "response.completed"


def test_the_last_line_is_the_sum(run: Run) -> None:
    summary = run.report["summary"]
    assert run.out.splitlines()[-1] == summary["line"]
    assert summary["failed"] == len(GAPS)
