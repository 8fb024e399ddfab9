"""The gate between the text and everything that is made from it: nothing may be said that is not judged,
nothing judged that is not said, and each rule must be able to fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from conformance.demux import Demux
from conformance.embedded import landed
from conformance.invariants import REGISTRY
from conformance.invariants.shapes import shapes_of
from conformance.mutants import MUTANTS
from conformance.mutants import run as trying
from conformance.mutants.harness import play_run
from conformance.places import CLAUSE_ID, spec_dir
from conformance.specdoc import AREAS, Clause, Spec, load, requirements_text
from conformance.suite import Run
from conformance.verdict import Result

ROOT = Path(__file__).parent.parent
# At most this share of the mutants may need `also_fails`.
ALSO_FAILS = 0.05


@cache
def spec() -> Spec:
    """Reading it already fails on a clause without id, keyword or field, and on unknown or duplicated ids."""
    return load()


@cache
def reference() -> tuple[list[Result], Run]:
    """All cases against the whole reference server, in virtual time."""
    return play_run(spec(), list(spec().cases.values()))


def judged() -> list[Clause]:
    """The clauses that a server with all landed profiles is judged by."""
    profiles = landed()
    return [clause for clause in spec().clauses.values() if clause.testable and clause.profile in profiles]


def test_every_testable_clause_is_judged_and_holds_on_the_reference_server() -> None:
    results = {result.clause.id: result for result in reference()[0]}
    wrong = [
        f"{clause.id} {results[clause.id].verdict}: {results[clause.id].reason}"
        for clause in judged()
        if results[clause.id].verdict != "pass"
    ]
    assert wrong == []


def test_every_case_was_played_to_its_end() -> None:
    _, run = reference()
    assert [f"{one.case.id}: {one.reason}" for one in run.cases.values() if one.state != "ran"] == []


def test_every_invariant_names_a_testable_clause() -> None:
    assert [
        name for name in REGISTRY if name not in spec().clauses or not spec().clauses[name].testable
    ] == []


def test_every_mutant_names_a_testable_clause() -> None:
    names = {clause.id for clause in judged()}
    assert [f"{one.clause} {one.name}" for one in MUTANTS if one.clause not in names] == []


def test_every_testable_clause_has_a_mutant() -> None:
    assert trying.without_mutant(spec()) == []


def test_every_mutant_is_caught_by_exactly_its_clause() -> None:
    rows = trying.try_all(trying.chosen(None))
    assert [f"{row.clause} {row.mutant}: {row.problem} {row.evidence}" for row in rows if row.problem] == []


def test_few_mutants_break_more_than_their_clause() -> None:
    more = [one for one in MUTANTS if one.also_fails]
    assert all(reason.strip() for one in more for reason in one.also_fails.values())
    assert len(more) <= ALSO_FAILS * len(MUTANTS)


def test_the_index_of_the_requirements_is_made_from_the_text() -> None:
    """Regenerate it by ``python -m conformance.specdoc``."""
    assert (spec_dir() / "requirements.json").read_text("utf-8") == requirements_text(spec())


def test_every_event_type_of_the_tables_was_seen() -> None:
    seen = reference()[1].event_types
    assert [name for name in shapes_of(spec()).event_types if name not in seen] == []


def test_every_error_code_of_the_tables_was_seen() -> None:
    seen = reference()[1].error_codes
    assert [row.code for row in spec().errors if row.code not in seen] == []


def test_what_the_suite_itself_sends_in_a_positive_case_obeys_the_specification() -> None:
    """Positive is a create that was answered by `response.created`."""
    assert list(_own_faults()) == []


def _own_faults() -> Iterator[str]:
    shapes = shapes_of(spec())
    for one in reference()[1].cases.values():
        demux = Demux()
        for number, record in enumerate(one.records):
            if record["kind"] == "note":
                continue
            event = demux.event(record, number)
            if event.type == "response.created" and event.response and event.response.request:
                for fault in shapes.request_faults(event.response.request.body):
                    yield f"{one.case.id}: {fault}"
            demux.apply(event)


def mentions() -> Iterator[tuple[Path, str]]:
    """Every id of a clause in the code and in the texts."""
    areas = "|".join(AREAS)
    for pattern in ("responses_ref/**/*.py", "conformance/**/*.py", "**/*.md"):
        for path in ROOT.glob(pattern):
            if not path.relative_to(ROOT).parts[0].startswith((".", "tests", "build", "dist")):
                for name in re.findall(CLAUSE_ID, path.read_text("utf-8")):
                    if re.fullmatch(areas, name.split("-")[1]):
                        yield path, name


def test_every_clause_that_is_mentioned_exists() -> None:
    unknown = {(str(path.relative_to(ROOT)), name) for path, name in mentions() if name not in spec().clauses}
    assert unknown == set()


@pytest.mark.parametrize("word", ["must", "should", "shall"])
def test_titles_say_what_is_not_what_ought_to_be(word: str) -> None:
    titles = [case.title for case in spec().cases.values()]
    assert [title for title in titles if re.search(rf"\b{word}\b", title, re.IGNORECASE)] == []
    assert [title for title in titles if len(title) > 100] == []
