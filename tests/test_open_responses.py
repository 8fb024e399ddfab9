"""The page that maps the tests of Open Responses to our clauses names all of them, and only real clauses."""

from __future__ import annotations

import re
from pathlib import Path

from conformance.places import CLAUSE_ID
from conformance.specdoc import load

PAGE = Path(__file__).parent.parent / "spec" / "open-responses.md"
TESTS = [
    "basic-response",
    "assistant-phase",
    "response-output-phase-schema",
    "streaming-response",
    "websocket-response",
    "websocket-sequential-responses",
    "websocket-continuation",
    "websocket-reconnect-store-false-recovery",
    "websocket-previous-response-not-found",
    "websocket-failed-continuation-evicts-cache",
    "websocket-compact-new-chain",
    "system-prompt",
    "tool-calling",
    "image-input",
    "multi-turn",
    "compact-response",
    "compact-missing-model",
]


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    part = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", part, re.MULTILINE)
    assert table, heading
    lines = table[0].strip().split("\n")[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_all_17_tests_are_there_in_their_order() -> None:
    assert [cells[0].strip("`") for cells in rows("Test by test")] == TESTS


def test_each_test_has_clauses_or_says_that_there_are_none() -> None:
    for name, _, _, clauses in rows("Test by test"):
        assert re.search(CLAUSE_ID, clauses) or clauses.startswith("none: "), name


def test_every_clause_is_one_that_judges_servers() -> None:
    clauses = load().clauses
    named = set(re.findall(CLAUSE_ID, PAGE.read_text("utf-8")))
    assert len(named) > 80
    assert [name for name in sorted(named) if name not in clauses] == []
    assert [name for name in sorted(named) if not clauses[name].testable] == []
    assert [name for name in sorted(named) if clauses[name].role != "server"] == []


def test_ranges_of_clauses_have_two_ends_of_one_area() -> None:
    ranges = re.findall(rf"({CLAUSE_ID}) to ({CLAUSE_ID})", PAGE.read_text("utf-8"))
    assert ranges
    for first, last in ranges:
        assert first[:-3] == last[:-3]
        assert first < last
