"""Reports: every form says the same, and none can be misread."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import trio
from odd import ODD, places, replaced
from servers import Good, Memory
from trio.testing import MockClock

from conformance.cli import main
from conformance.offer import Config, Features
from conformance.report import forms, html, shape, write
from conformance.report.data import BadReport, Report, build, load, schema
from conformance.report.matrix import grouped, matrix_page
from conformance.specdoc import Spec
from conformance.specdoc import load as load_spec
from conformance.suite import Run, Suite
from conformance.target import Target
from conformance.verdict import Result, Selection, judge_all


class Offer:
    features = Features()
    name = "<a> & server"
    own_servers = False

    def __init__(self, target: Target) -> None:
        self._target = target

    async def target(self, config: Config) -> Target:
        return self._target


async def play(spec: Spec) -> Run:
    """A few cases against a small server whose numbers step by two."""
    names = ("a-whole-turn", "a-refusal", "numbers-start-again")
    change = lambda events: [{**one, "sequence_number": 2 * n} for n, one in enumerate(events)]  # noqa: E731
    async with trio.open_nursery() as nursery:
        offer = Offer(Memory(nursery, Good(change=change).serve))
        selection = Selection(profiles=frozenset(("CORE",)))
        run = await Suite(spec, offer, selection).play([spec.cases[name] for name in names])
        nursery.cancel_scope.cancel()
    return run


@cache
def made() -> tuple[Report, Run, list[Result]]:
    spec = load_spec()
    run = trio.run(play, spec, clock=MockClock(autojump_threshold=0))
    results = judge_all(spec, run.ledger, Selection(profiles=frozenset(("CORE",))))
    return build(results, run, Features(), Offer.name, frozenset(("CORE",))), run, results


def failing() -> dict[str, Any]:
    (found,) = [one for one in made()[0]["clauses"] if one["id"] == "RWS-SEQ-002"]
    return found


def test_a_report_fits_its_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(made()[0], schema())


def test_a_failure_carries_its_sentence_and_where_it_was_seen() -> None:
    clause = failing()
    assert clause["verdict"] == "fail"
    assert "one greater" in clause["text"]
    assert clause["kind"] == "order"
    run = made()[1]
    for one in clause["evidence"]:
        record = run.cases[one["case"]].records[one["record"]]
        assert record["dir"] == "s2c"
        assert "sequence_number" in record["text"]


def test_a_report_can_be_written_and_read_again(tmp_path: Path) -> None:
    report, run, _ = made()
    write.directory(tmp_path / "new" / "dir", report, run)
    assert load(tmp_path / "new" / "dir" / "report.json") == json.loads(json.dumps(report))
    names = {path.name for path in (tmp_path / "new" / "dir").iterdir()}
    assert names == {"report.json", "report.md", "report.html", "junit.xml", "badge.json", "traces"}
    lines = (tmp_path / "new" / "dir" / "traces" / "a-whole-turn.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["kind"] == "meta"
    assert len(lines) == len(run.cases["a-whole-turn"].records) + 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 99, "clauses": []}'])
def test_what_is_no_report_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(BadReport, match=r"x\.json"):
        load(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("target",), {}, "the report.target lacks name"),
        (("target", "name"), 3, "the report.target.name must be of type string, and is 3"),
        (("target", "scripted"), 1, "the report.target.scripted must be of type boolean"),
        (("target", "model"), 1, "the report.target.model must be of type string or null"),
        (("summary",), None, "the report.summary must be of type object, and is null"),
        (("summary", "exit"), 2, "the report.summary.exit must be one of [0, 1, 3, 4]"),
        (("summary", "passed"), -1, "the report.summary.passed must be at least 0"),
        (("summary", "profiles", "CORE"), {"pass": "x"}, "CORE.pass must be of type integer"),
        (("clauses",), 3, "the report.clauses must be of type array, and is 3"),
        (("clauses", 1), "x", "the report.clauses[1] must be of type object"),
        (("clauses", 0, "verdict"), "good", "the report.clauses[0].verdict must be one of"),
        (("clauses", 0, "id"), "SEQ-1", "the report.clauses[0].id must be like ^RWS-"),
    ],
)
def test_a_report_of_another_shape_is_refused_by_its_place(
    path: tuple[Any, ...], value: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.json").write_text(json.dumps(replaced(made()[0], path, value)))
    with pytest.raises(SystemExit, match="2"):
        main(["matrix", str(tmp_path / "x.json"), "-o", str(tmp_path / "x.html")])
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_what_is_checked_of_a_report_is_what_its_schema_says() -> None:
    """For each place of a report and each odd value: we say what a validator of all of it says."""
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    small = {**made()[0], "clauses": made()[0]["clauses"][:1], "cases": made()[0]["cases"][:1]}
    for path in places(small):
        for value in ODD:
            changed = replaced(small, path, value)
            assert any(shape.faults(schema(), changed)) == (not validator.is_valid(changed)), (path, value)


def test_markdown_has_the_failures_first_with_ten_lines_of_the_trace() -> None:
    text = forms.markdown(made()[0], made()[1])
    assert text.index("## fail: RWS-") < text.index("## not-exercised")
    part = text.partition("## fail: RWS-SEQ-002")[2].partition("\n## ")[0]
    assert "> The server MUST give each later event" in part
    trace = part.split("```")[3].strip().split("\n")[1:]
    assert 1 < len(trace) <= forms.TRACE_LINES
    assert sum(line.startswith("*") for line in trace) == 1


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert forms._fenced("a ``` b", "text").startswith("````text\n")


def test_junit_counts_what_is_required_and_could_not_run_as_an_error_and_nothing_untested_as_passed() -> None:
    root = ElementTree.fromstring(forms.junit(made()[0]))
    kinds = {one.get("name"): [child.tag for child in one] for one in root.iter("testcase")}
    selected = [one for one in made()[0]["clauses"] if one["profile"] == "CORE"]
    for clause in selected:
        if clause["verdict"] in ("could-not-run", "not-exercised", "not-judged", "not-applicable"):
            assert kinds[clause["id"]] == ["error" if clause["required"] else "skipped"]
    (suite,) = [one for one in root if one.get("name") == "CORE"]
    assert int(suite.get("failures", "0")) == len(suite.findall(".//failure")) > 0
    assert int(suite.get("errors", "0")) == len(suite.findall(".//error")) > 0
    assert int(suite.get("skipped", "0")) == len(suite.findall(".//skipped")) > 0
    assert int(suite.get("tests", "0")) == len(suite.findall("testcase"))
    (case,) = [one for one in suite if one.get("name") == "RWS-SEQ-002"]
    failure = case.find("failure")
    assert failure is not None
    assert "2 after 0" in str(failure.get("message"))


def test_xml_cannot_be_broken_by_what_a_server_says() -> None:
    assert forms._xml("a\x00\ud800b\uffffc") == "a\ufffd\ufffdb\ufffdc"


def test_the_badge_never_says_a_bare_passing() -> None:
    badge = forms.badge(made()[0])
    summary = made()[0]["summary"]
    assert badge["message"].startswith(f"{summary['passed']}/{summary['required']} required, ")
    assert "failed" in badge["message"]
    assert "not run" in badge["message"]
    assert badge["color"] == "red"


def test_the_console_ends_with_the_sum() -> None:
    assert forms.console(made()[0]).endswith(made()[0]["summary"]["line"])


def test_what_was_not_tested_spoils_the_badge() -> None:
    summary = {"passed": 72, "required": 72, "failed": 0, "not_run": 0, "not_tested": 0, "exit": 0}
    report = {**made()[0], "summary": summary}
    assert forms.badge(report)["color"] == "brightgreen"
    badge = forms.badge({**report, "summary": {**summary, "not_tested": 85}})
    assert badge["message"] == "72/72 required, 85 clauses not tested"
    assert badge["color"] == "yellowgreen"


def test_a_note_stands_at_the_top_of_every_form() -> None:
    report = {**made()[0], "notes": ["Something odd."]}
    assert forms.console(report).splitlines()[0] == "Something odd."
    text = forms.markdown(report, made()[1])
    assert text.index("**Something odd.**") < text.index("| profile |")
    page = html.report_page(report, made()[1])
    assert page.index("Something odd.") < page.index('class="totals"')


def test_a_fault_of_the_suite_is_printed_by_name_whatever_was_selected() -> None:
    report = json.loads(json.dumps(made()[0]))
    (clause,) = [one for one in report["clauses"] if one["id"] == "RWS-HS-016"]
    assert clause["profile"] not in report["profiles"]
    clause["verdict"] = "harness-error"
    assert any(line.startswith("harness-error  RWS-HS-016") for line in forms.console(report).splitlines())


def page() -> str:
    return html.report_page(made()[0], made()[1])


def test_the_page_stands_alone_and_escapes_what_it_shows() -> None:
    text = page()
    assert "&lt;a&gt; &amp; server" in text
    assert "<a> & server" not in text.partition('<script type="application/json"')[0]
    for outside in ('src="http', 'href="http', "@import", "url("):
        assert outside not in text
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert {one["id"] for one in json.loads(data)["clauses"]} == {one["id"] for one in made()[0]["clauses"]}


def test_a_script_cannot_be_ended_by_what_a_server_says() -> None:
    record = {"t": 0, "conn": "a", "dir": "s2c", "kind": "text", "text": "</script><script>alert(1)</script>"}
    text = html.page("x", "", {"records": [record]})
    assert text.count("</script>") == 2
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["records"] == [record]


def test_the_matrix_groups_clauses_that_all_servers_treat_alike() -> None:
    report = made()[0]
    other = json.loads(json.dumps(report))
    for clause in other["clauses"]:
        if clause["id"] == "RWS-SEQ-002":
            clause["verdict"] = "pass"
    groups = grouped([report, other])
    assert groups[0][0][0] == "fail"
    assert [
        [one["id"] for one in clauses] for verdicts, clauses in groups if verdicts == ("fail", "pass")
    ] == [["RWS-SEQ-002"]]
    text = matrix_page([report, other])
    assert text.count("<th scope=col>") == 3
    assert "(2)" in text
