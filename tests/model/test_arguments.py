from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_ref.model.arguments import arguments
from responses_ref.model.tokens import WORDS, Generator


def made(schema: object, seed: int = 1) -> Any:
    """The value for a schema, as the one argument of a call."""
    wrapped = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    return arguments(wrapped, Generator(seed))["x"]


PERSON = {
    "type": "object",
    "properties": {
        "name": {"const": "Ada"},
        "born": {"type": "object", "properties": {"year": {"const": 1815}}, "required": ["year"]},
        "nickname": {"type": "string"},
    },
    "required": ["name", "born"],
}
ANY_WORD = {"type": "string"}
ONE, TWO = {"const": 1}, {"const": 2}


def test_required_properties_are_made_and_optional_ones_left_out():
    assert arguments(PERSON, Generator(1)) == {"name": "Ada", "born": {"year": 1815}}


EXACT = [
    # schema, value
    ({"const": None}, None),
    ({"const": [1, {"a": 2}]}, [1, {"a": 2}]),
    ({"default": 7, "type": "integer"}, 7),
    ({"const": 1, "enum": [2], "default": 3}, 1),
    ({"enum": [2], "default": 3}, 2),
    ({"default": None, "type": "string"}, None),
    ({"enum": ["only"]}, "only"),
    ({"type": "boolean"}, True),
    ({"type": "null"}, None),
    ({"type": ["null"]}, None),
    ({"type": ["null", "boolean"]}, True),
    ({"type": "boolean", "nullable": True}, True),
    # arrays
    ({"type": "array", "items": ONE}, []),
    ({"type": "array", "items": ONE, "minItems": 3}, [1, 1, 1]),
    ({"type": "array", "minItems": 2}, [{}, {}]),
    ({"type": "array", "items": ONE, "minItems": 10**6}, [1] * 32),
    ({"type": "array", "items": ONE, "minItems": -1}, []),
    # strings
    ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z"),
    ({"type": "string", "format": "date"}, "2026-01-01"),
    ({"type": "string", "format": "email"}, "user@example.com"),
    ({"type": "string", "format": "uri"}, "https://example.com/"),
    ({"type": "string", "format": "uuid"}, "00000000-0000-4000-8000-000000000000"),
    ({"type": "string", "maxLength": 0}, ""),
    # numbers
    ({"type": "integer", "minimum": 1000}, 1000),
    ({"type": "integer", "minimum": 999.5}, 1000),
    ({"type": "integer", "maximum": -5}, -5),
    ({"type": "integer", "maximum": -4.5}, -5),
    ({"type": "integer", "exclusiveMinimum": 1000}, 1001),
    ({"type": "integer", "exclusiveMaximum": 0}, -1),
    ({"type": "integer", "minimum": 5, "maximum": 4}, 4),
    ({"type": "number", "minimum": 1000}, 1000),
    ({"type": "number", "maximum": -5}, -5),
    ({"type": "integer", "minimum": 2**53}, 2**53),
    ({"type": "integer", "minimum": 2**53 + 1, "maximum": -1}, -1),
    ({"type": "integer", "maximum": -(2**53)}, -(2**53)),
    ({"type": "integer", "maximum": -(2**53) - 1, "minimum": 100}, 100),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
    ({"type": "number", "minimum": 0.25, "maximum": 0.75}, 0.5),
    # references
    ({"$ref": "#/$defs/one"}, {}),
    # branches
    ({"anyOf": [{"type": "null"}, ONE, TWO]}, 1),
    ({"oneOf": [TWO, ONE]}, 2),
    ({"anyOf": [{"type": "null"}]}, None),
    ({"anyOf": [{"type": ["null", "boolean"]}, ONE]}, True),
    ({"allOf": [{"type": "array"}, {"items": ONE}, {"minItems": 1}]}, [1]),
    ({"type": "array", "minItems": 1, "allOf": [{"type": "string", "items": TWO}]}, [2]),
    ({"allOf": [PERSON, {"properties": {"age": ONE, "name": TWO}, "required": ["age"]}]},
     {"name": 2, "born": {"year": 1815}, "age": 1}),
    # strange ones
    ({}, {}),
    (True, {}),
    (None, {}),
    ([], {}),
    ("string", {}),
    ({"type": "banana"}, {}),
    ({"type": 7}, {}),
    ({"type": [{}]}, {}),
    ({"type": "object", "properties": [], "required": ["a"]}, {"a": {}}),
    ({"type": "object", "properties": {"a": ONE}, "required": [["a"], 3, None]}, {}),
    ({"type": "object", "required": "a"}, {}),
    ({"properties": {"a": ONE}, "required": ["a"]}, {"a": 1}),
    ({"enum": [], "const": 1}, 1),
    ({"enum": "abc", "type": "boolean"}, True),
    ({"$ref": 3}, {}),
    ({"$ref": "other.json#/a"}, {}),
    ({"$ref": "#/properties/x/nothing/there"}, {}),
    ({"anyOf": {}, "allOf": 3, "oneOf": []}, {}),
    ({"type": "string", "format": [], "maxLength": 0}, ""),
    ({"type": "string", "format": "hostname", "maxLength": 0}, ""),
    ({"type": "integer", "minimum": "1", "maximum": True, "exclusiveMaximum": 0}, -1),
    ({"type": "integer", "minimum": 1e300, "maximum": -1}, -1),
    ({"type": "integer", "maximum": float("nan"), "exclusiveMaximum": 0}, -1),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), EXACT, ids=lambda part: json.dumps(part)[:40])
def test_the_value_for_a_schema(schema, value):
    assert made(schema) == value
    assert type(made(schema)) is type(value)


@pytest.mark.parametrize("seed", range(40))
def test_seeded_values_fit(seed):
    assert made({"enum": [1, 2, 3]}, seed) in (1, 2, 3)
    assert made(ANY_WORD, seed) in WORDS
    assert 3 <= made({"type": "integer", "minimum": 3, "maximum": 6}, seed) <= 6
    assert made({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 6}, seed) in (4, 5)
    assert 0 <= made({"type": "number"}, seed) < 100
    for least in (1, 9, 10, 11, 60, 1_000):
        length = len(made({"type": "string", "minLength": least}, seed))
        assert least <= length <= min(9 + 3 * least, 1_000)
    assert len(made({"type": "string", "minLength": 10**6}, seed)) == 1_000
    assert len(made({"type": "string", "minLength": 6, "maxLength": 6}, seed)) == 6


def test_seeds_differ_and_repeat():
    schema = {"type": "array", "minItems": 8, "items": ANY_WORD}
    assert made(schema, 1) == made(schema, 1) != made(schema, 2)


def test_a_free_number_is_any_below_a_hundred():
    assert {made({"type": "integer"}, seed) for seed in range(2_000)} == set(range(100))


def test_an_enum_gives_each_of_its_values_to_some_seed():
    assert {made({"enum": ["a", "b", "c"]}, seed) for seed in range(50)} == {"a", "b", "c"}


def test_a_reference_leads_into_the_whole_schema():
    schema = {
        "type": "object",
        "$defs": {"a/b~c": {"type": "object", "properties": {"n": ONE}, "required": ["n"]}},
        "properties": {"p": {"$ref": "#/$defs/a~1b~0c", "description": "a point"}},
        "required": ["p"],
    }
    assert arguments(schema, Generator(1)) == {"p": {"n": 1}}


def test_a_schema_that_contains_itself_ends_at_the_depth_bound():
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}, "required": ["child"]}
    value = arguments(schema, Generator(1))
    depth = 0
    while value:
        value, depth = value["child"], depth + 1
    assert 2 <= depth <= 16


def test_a_schema_is_followed_for_sixteen_levels():
    schema: dict[str, Any] = {"const": "end"}
    for level in range(17):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
        found = arguments(schema, Generator(1))
        while isinstance(found, dict) and found:
            found = found["a"]
        assert found == ("end" if level < 16 else {})


def test_a_wide_schema_is_followed_up_to_its_bound():
    names = [f"p{n}" for n in range(1_300)]
    schema = {"type": "object", "properties": dict.fromkeys(names, ONE), "required": names}
    values = list(arguments(schema, Generator(1)).values())
    assert values == sorted(values, key=lambda value: value != 1)
    assert 1_000 < values.count(1) < 1_300


GREEDY = [
    {"type": "object", "properties": {n: {"$ref": "#"} for n in "abcdefgh"}, "required": list("abcdefgh")},
    {"type": "array", "items": {"$ref": "#"}, "minItems": 32},
    {"allOf": [{"$ref": "#"}] * 50},
    {"anyOf": [{"$ref": "#"}] * 50_000},
    {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}] * 40}, "b": {"allOf": [{"$ref": "#/$defs/a"}] * 40}},
     "$ref": "#/$defs/a"},
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": [*map(str, range(30_000)), "a"]},
    {"properties": {f"p{n}": {} for n in range(2_400)}, "allOf": [{"properties": {"a": {}}}] * 1_200},
]  # fmt: skip


@pytest.mark.parametrize("schema", GREEDY, ids=range(len(GREEDY)))
def test_a_greedy_schema_costs_a_bounded_amount(schema):
    start = time.process_time()
    text = json.dumps([arguments(schema, Generator(1)), made(schema)])
    assert time.process_time() - start < 5
    assert len(text) < 2_000_000


@pytest.mark.parametrize("schema", [None, [], 3, {"type": "string"}, {"const": [1]}, {"enum": [1]}])
def test_arguments_are_an_object_whatever_the_schema_says(schema):
    assert arguments(schema, Generator(1)) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
WORDS_OF_SCHEMAS = """
    type const enum default properties required items minItems minimum maximum exclusiveMinimum
    exclusiveMaximum minLength maxLength format allOf anyOf oneOf $ref $defs
"""
KEYWORDS = st.sampled_from(WORDS_OF_SCHEMAS.split())
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
STRANGE = st.recursive(
    JSON | TYPES | st.just("#") | st.lists(TYPES),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYWORDS, inner, max_size=6)
        | st.dictionaries(st.sampled_from("abc"), inner)
    ),
    max_leaves=30,
)


@given(STRANGE, st.integers(0, 5))
@settings(max_examples=400)
def test_no_schema_raises_and_the_same_one_gives_the_same(schema, seed):
    value = arguments(schema, Generator(seed))
    assert isinstance(value, dict)
    assert json.dumps(value) == json.dumps(arguments(schema, Generator(seed)))


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value fits a schema, for the keywords that the strategy below uses."""
    kind = schema["type"]
    if kind == "object":
        known = schema["properties"]
        return set(value) == set(schema["required"]) and all(fits(value[name], known[name]) for name in value)
    if kind == "array":
        return len(value) >= schema["minItems"] and all(fits(one, schema["items"]) for one in value)
    if kind == "string":
        return len(value) >= schema["minLength"]
    whole = kind == "number" or isinstance(value, int)
    return whole and schema["minimum"] <= value <= schema["maximum"]


def sane_object(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from("abcd"), inner).flatmap(
        lambda known: (
            st.sets(st.sampled_from(sorted(known))).map(
                lambda names: {"type": "object", "properties": known, "required": sorted(names)}
            )
            if known
            else st.just({"type": "object", "properties": {}, "required": []})
        )
    )


BOUNDS = st.tuples(st.integers(-200, 200), st.integers(0, 50))
SANE = st.recursive(
    st.builds(lambda least: {"type": "string", "minLength": least}, st.integers(0, 80))
    | st.builds(
        lambda kind, ends: {"type": kind, "minimum": ends[0], "maximum": ends[0] + ends[1]},
        st.sampled_from(["integer", "number"]),
        BOUNDS,
    ),
    lambda inner: (
        st.builds(lambda items, least: {"type": "array", "items": items, "minItems": least},
                  inner, st.integers(0, 3))
        | sane_object(inner)
    ),
    max_leaves=12,
)  # fmt: skip


@given(SANE, st.integers(0, 5))
def test_what_is_made_fits_the_schema(schema, seed):
    assert fits(made(schema, seed), schema)
