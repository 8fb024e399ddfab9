"""What is exported says the same as the suite does, and fits its schemas."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from servers import spec, turn

from conformance.demux import Demux
from conformance.export import documents
from conformance.invariants.shapes import shapes_of
from conformance.mutants.harness import play_run
from conformance.state import Event

jsonschema = pytest.importorskip("jsonschema")


@pytest.fixture(scope="module")
def files() -> dict[str, Any]:
    return {name: json.loads(json.dumps(value)) for name, value in documents(spec()).items()}


@pytest.mark.parametrize("name", ["cases", "clauses"])
def test_a_file_fits_the_schema_beside_it(name: str, files: dict[str, Any]) -> None:
    jsonschema.validate(files[f"{name}.json"], files[f"{name}.schema.json"])


def test_all_cases_and_clauses_are_there(files: dict[str, Any]) -> None:
    assert [one["id"] for one in files["cases.json"]["cases"]] == list(spec().cases)
    assert sorted(one["id"] for one in files["clauses.json"]["clauses"]) == sorted(spec().clauses)
    assert len(files["errors.json"]["errors"]) == len(spec().errors)


@cache
def events() -> list[dict[str, Any]]:
    """Events of the reference server, one of each type."""
    chosen = [case for case in spec().cases.values() if case.place.file.startswith("spec/")]
    found: dict[str, dict[str, Any]] = {}
    for one in play_run(spec(), chosen)[1].cases.values():
        for record in one.records:
            if record["kind"] == "text" and record["dir"] == "s2c" and record["text"].startswith("{"):
                event = json.loads(record["text"])
                found.setdefault(event["type"], event)
    return list(found.values())


def broken(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The event with each of its fields, also the inner ones, left out or of another type."""

    def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        keys = list(value) if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
        for key in keys:
            yield (*path, key)
            yield from paths(value[key], (*path, key))

    for path in paths(event):
        for change in ("drop", 17.5, None, "text", {}):
            made = copy.deepcopy(event)
            at: Any = made
            for key in path[:-1]:
                at = at[key]
            if change == "drop":
                del at[path[-1]]
            else:
                at[path[-1]] = change
            yield made


def fits(event: dict[str, Any]) -> bool:
    """What the suite's own shape checks say."""
    record = {"t": 0.0, "conn": "a", "dir": "s2c", "kind": "text", "text": json.dumps(event)}
    seen: Event = Demux().event(record, 1)
    codes = {clause for row in spec().errors for clause in row.clauses}
    return all(fault is None for clause, fault in shapes_of(spec()).see(seen) if clause not in codes)


def test_the_json_schema_and_the_shape_checks_agree(files: dict[str, Any]) -> None:
    """Two ways from the tables to a verdict, over events of the reference server and many broken ones."""
    schema = files["events.schema.json"]
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    count = 0
    assert len(events()) > 15
    for event in events():
        assert fits(event), event
        assert validator.is_valid(event), event
        for made in broken(event):
            if isinstance(made.get("type"), str):
                assert fits(made) == validator.is_valid(made), made
                count += 1
    assert count > 1000


def test_a_small_turn_does_not_fit_the_tables(files: dict[str, Any]) -> None:
    """A control: the events of a toy server, which lack most fields of a response, are refused by both."""
    created = turn("r1", ["a"])[0]
    assert not fits(created)
    assert not jsonschema.Draft202012Validator(files["events.schema.json"]).is_valid(created)
