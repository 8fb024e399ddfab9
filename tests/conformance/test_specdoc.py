"""Reading the specification: what is understood, and that each fault is named with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import transcript
from conformance.places import Malformed, SpecError
from conformance.specdoc import Spec, load, read, requirements_text
from conformance.tables import Choice, Named, read_type
from conformance.transcript import Either, Repeat
from conformance.verbs import Step

CLAUSE = """**[RWS-ORD-001]** The server MUST begin with `response.created`,
and with nothing else.
`CORE · server · wire · since 0.1 · documented · seeds: F01 E03`
"""


def parse(tmp_path: Path, text: str, cases: str = "") -> tuple[Spec, list[str]]:
    (tmp_path / "spec").mkdir()
    (tmp_path / "cases").mkdir()
    (tmp_path / "spec" / "10-a.md").write_text(text)
    (tmp_path / "cases" / "b.md").write_text(cases)
    return read(tmp_path / "spec", tmp_path / "cases")


def test_a_clause(tmp_path: Path) -> None:
    spec, problems = parse(tmp_path, CLAUSE)
    assert problems == []
    clause = spec.clauses["RWS-ORD-001"]
    assert clause.text == "The server MUST begin with `response.created`, and with nothing else."
    assert (clause.keyword, clause.profile, clause.test, clause.seeds) == (
        "MUST",
        "CORE",
        "wire",
        ("F01", "E03"),
    )
    assert str(clause.place) == "spec/10-a.md:1"
    assert clause.must
    assert clause.testable


def test_clauses_in_fences_and_quotations_are_no_clauses(tmp_path: Path) -> None:
    text = CLAUSE + "\n> **[RWS-ORD-009]** quoted\n\n```\n**[RWS-ORD-008]** shown\n```\n"
    spec, problems = parse(tmp_path, text)
    assert (list(spec.clauses), problems) == (["RWS-ORD-001"], [])


TABLE = "\n**Fields of {}**\n\n| field | type | presence |\n|---|---|---|\n| a | {} | always |\n"
FIELDS = "`CORE · server · wire · since 0.1 · documented`"
FAULTS = {
    "no field line": (
        "**[RWS-ORD-001]** The server MUST.\n\ntext",
        "10-a.md:1: RWS-ORD-001 has no line of fields",
    ),
    "two keywords": (
        f"**[RWS-ORD-001]** It MUST and SHOULD.\n{FIELDS}",
        "exactly one keyword, found: MUST, SHOULD",
    ),
    "no keyword": (f"**[RWS-ORD-001]** It `MUST`.\n{FIELDS}", "found: none"),
    "no full stop": (f"**[RWS-ORD-001]** It MUST\n{FIELDS}", "full stop"),
    "no area": (f"**[RWS-XYZ-001]** It MUST.\n{FIELDS}", "no such area"),
    "twice": (CLAUSE + "\n" + CLAUSE, "10-a.md:5: RWS-ORD-001 is already used at spec/10-a.md:1"),
    "profile": (CLAUSE.replace("CORE", "CORES"), "'CORES' is none of"),
    "too few fields": (CLAUSE.replace(" · since 0.1 · documented · seeds: F01 E03", ""), "needs profile"),
    "untestable without reason": (CLAUSE.replace("· wire", "· untestable"), "needs a reason"),
    "unknown option": (CLAUSE.replace("seeds:", "seed:"), "cannot read the field"),
    "refines nothing": (CLAUSE.replace("seeds: F01 E03", "refines: RWS-ORD-999"), "refines RWS-ORD-999"),
    "a MAY": (CLAUSE.replace("MUST", "MAY"), "nothing can break it"),
    "a client's": (CLAUSE.replace("· server", "· client"), "about clients"),
    "open fence": (CLAUSE + "\n```\nx", "10-a.md:5: a fenced block is not closed"),
    "caption without table": (CLAUSE + "\n**Fields of `x`**\n\ntext\n", "no table with rows"),
    "unknown type": (
        CLAUSE + TABLE.format("`response.x`", "nothing").replace("**\n", "** [RWS-ORD-001]\n"),
        "10-a.md:9: no table or union is called 'nothing'",
    ),
    "bad type": (CLAUSE + TABLE.format("`x`", "array of"), "10-a.md:9: a type ends too early"),
    "unused table": (CLAUSE + TABLE.format("`thing`", "string"), "nothing uses this table"),
    "no clause for an event": (CLAUSE + TABLE.format("`response.x`", "string"), "needs the id of the clause"),
    "unknown clause": (
        CLAUSE + TABLE.format("`x`", "string").replace("**\n", "** [RWS-ORD-777]\n"),
        "RWS-ORD-777 does not exist",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_prose_is_named_with_its_place(name: str, tmp_path: Path) -> None:
    text, words = FAULTS[name]
    _, problems = parse(tmp_path, text)
    assert len(problems) == 1
    assert words in problems[0]
    assert problems[0].startswith("spec/10-a.md:")


HEAD = "id: a-case\ncovers: RWS-ORD-001\n"
BAD_LINES = {
    "x 1": "line 3: no verb: x 1",
    "> {": "line 3: not JSON",
    "> {} {}": "line 3: unexpected after the JSON value: {}",
    '< "<foo>"': "line 3: there is no matcher <foo>",
    "> {} [RWS-ORD-001]": "line 3: a line that sends cannot be tagged",
    "< {} [RWS-ORD-002]": "line 3: the tag RWS-ORD-002 is not in `covers:`",
    '> {"a":"$r"}': "line 3: $r is used but never bound",
    '< {"a":"x ${r}"}': "line 3: $r is used but never bound",
    "~ soon": "line 3: 'soon' is no number of seconds",
    "& {}": "line 3: `&` needs a tag",
    "= close 99": "line 3: '99' is no close code",
    "<http 2000 {}": "line 3: '2000' is no status",
    '>frame {"op":"text","oops":1}': "line 3: no field of a frame: oops",
    ">frame {}": "line 3: `op` is one of",
    "end": "line 3: `end` outside of a block",
    "repeat x\n= open\nend": "line 3: `repeat` needs a count",
    "either\n= open\nor\n= open\nend": "line 4: a branch begins with",
    "repeat 2\n= open": "line 4: a block is not closed by `end`",
    "repeat 2\nrepeat 2\n= open\nend\nend": "line 4: `repeat` inside of `repeat`",
    "": "line 1: the transcript does nothing",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_malformed_line_is_named(line: str) -> None:
    with pytest.raises(Malformed) as caught:
        transcript.parse("x.md", 1, (HEAD + line).split("\n"))
    assert f"line {caught.value.line}: {caught.value}".startswith(BAD_LINES[line])


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("covers: RWS-ORD-001", "has no `id:`"),
        ("id: x", "has no `covers:`"),
        ("id: X y\ncovers: RWS-ORD-001", "is no case id"),
        ("id: x\nid: y\ncovers: RWS-ORD-001", "stands there twice"),
        ("id: x\ncovers: ORD-001", "is no clause id"),
    ],
)
def test_a_malformed_header_is_named(head: str, words: str) -> None:
    with pytest.raises(Malformed) as caught:
        transcript.parse("x.md", 1, f"{head}\n= open".split("\n"))
    assert words in str(caught.value)


def test_a_transcript_in_the_prose_names_file_and_line(tmp_path: Path) -> None:
    block = f"```transcript\n{HEAD}> nonsense\n```\n"
    _, problems = parse(tmp_path, CLAUSE + "\n" + block, "text\n\n" + block.replace("a-case", "b-case"))
    assert [one.split(": ")[0] for one in problems] == ["spec/10-a.md:8", "cases/b.md:6"]


def test_a_case_is_checked_against_the_clauses(tmp_path: Path) -> None:
    untestable = CLAUSE.replace("ORD-001", "ORD-002").replace("· wire", "· untestable: nobody sees it")
    block = "```transcript\nid: {}\ncovers: {}\n= open\n```\n"
    cases = block.format("a", "RWS-ORD-999") + block.format("b", "RWS-ORD-002")
    _, problems = parse(tmp_path, CLAUSE + untestable, cases)
    assert "covers RWS-ORD-999, which does not exist" in problems[0]
    assert "said to be untestable" in problems[1]


def test_verbs_blocks_continuations_and_tags() -> None:
    text = (
        HEAD
        + """# a comment
@b > {"type":"x",
   "y":1}
@b <... until {"z":"$z"} within 2.5 [RWS-ORD-001]
either [RWS-ORD-001]
< {"a":1}
or
= close 1001|eof
end
repeat 3
<http 4xx {"e":1} {"allow":"<str>"}
~ 0.5
end
"""
    )
    case = transcript.parse("x.md", 10, text.split("\n"))
    send, until, either, repeat = case.steps
    assert isinstance(send, Step)
    assert (send.conn, send.verb, send.value, send.line) == ("b", "send", {"type": "x", "y": 1}, 13)
    assert isinstance(until, Step)
    assert (until.verb, until.within, until.tags) == ("until", 2.5, ("RWS-ORD-001",))
    assert isinstance(either, Either)
    assert [branch[0].verb for branch in either.branches if isinstance(branch[0], Step)] == [
        "expect",
        "ended",
    ]
    assert isinstance(repeat, Repeat)
    answer = repeat.body[0]
    assert isinstance(answer, Step)
    assert (repeat.times, answer.words, answer.extra) == (3, ("4xx",), {"allow": "<str>"})
    assert [step.line for step in case.walk()] == [13, 15, 16, 17, 19, 22, 23]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("string or null", "string or null"),
        ("`response`", "response"),
        ("array of `part` or null", "array of part or null"),
        ('"a" or "b c"', '"a" or "b c"'),
        ("array of (integer or string)", "array of integer or string"),
        ("map of array of any", "map of array of any"),
        ("true or 3 or -1.5", "true or 3 or -1.5"),
    ],
)
def test_types(text: str, shown: str) -> None:
    assert str(read_type(1, text)) == shown


def test_or_binds_weaker_than_array_of() -> None:
    parsed = read_type(1, "array of thing or null")
    assert isinstance(parsed, Choice)
    assert isinstance(read_type(1, "thing"), Named)


lines = st.lists(
    st.sampled_from(
        [
            '> {"a":1}',
            "< {}",
            "<... until {}",
            "~ 1",
            "= open",
            "either",
            "or",
            "end",
            "repeat 2",
            "= eof",
            "",
            "# c",
            "&",
        ]
    )
    | st.text(max_size=12),
    max_size=12,
)


@given(lines)
def test_reading_any_text_ends_in_a_case_or_in_a_line_number(body: list[str]) -> None:
    text = (HEAD + "\n".join(body)).split("\n")
    try:
        found = [step.line for step in transcript.parse("x.md", 1, text).walk()]
    except Malformed as fault:
        found = [fault.line]
    assert found == sorted(found)
    assert all(1 <= line <= len(text) for line in found)


def test_the_specification_itself_can_be_read_and_is_the_source_of_its_index() -> None:
    spec = load()
    assert len(spec.clauses) > 100
    with pytest.raises(SpecError, match="no clause found"):
        load(Path(__file__).parent / "nowhere", Path(__file__).parent / "nowhere")
    assert requirements_text(spec).startswith('{\n "schema_version": 1')
