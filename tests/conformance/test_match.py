"""Patterns: what matches, what does not, what is bound; and laws that hold for any JSON value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.match import Names, PatternError, check, match, names_bound, names_used

# (pattern, value that matches, value that does not)
CASES: list[tuple[Any, Any, Any]] = [
    ({"a": 1}, {"a": 1, "b": 2}, {"b": 2}),
    ({"a": 1}, {"a": 1.0}, {"a": True}),
    ({"a": None}, {"a": None}, {}),
    ([1, "<int>"], [1, 2], [1, 2, 3]),
    (["<...>", 2, "<...>"], [1, 2, 3], [1, 3]),
    ([1, "<...>"], [1], [2, 1]),
    (["$x", "<...>", "$x"], [1, 2, 1], [1, 2, 3]),
    ("<any>", None, None),
    ({"a": "<any>"}, {"a": None}, {}),
    ({"a": "<absent>"}, {}, {"a": None}),
    ({"a": "<none>"}, {"a": None}, {"a": 0}),
    ({"a": "<none>"}, {}, {"a": ""}),
    ("<int>", 3, 3.5),
    ("<int>", 0, False),
    ("<num>", 3.5, "3"),
    ("<num>", 0, True),
    ("<str>", "", None),
    ("<bool>", False, 0),
    ("<obj>", {}, []),
    ("<list>", [], {}),
    ("<id>", "x", ""),
    ("<re:a+b?>", "aab", "aabc"),
    ("<has:ell>", "hello", "help"),
    ("<len:2>", "ab", "abc"),
    ("<len:>=2>", [1, 2, 3], [1]),
    ("<eq:3>", 3, 4),
    ("<not:3>", 4, 3),
    ("<gt:3>", 4, 3),
    ("<ge:3>", 3, 2),
    ("<lt:3>", 2, "2"),
    ("<le:3>", 3, 4),
    ("<in:a,b>", "b", "c"),
    ("$<int>", "<int>", 3),
    ("$$x", "$x", "x"),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), CASES)
def test_a_pattern_tells_values_apart(pattern: Any, good: Any, bad: Any) -> None:
    check(pattern)
    assert match(pattern, good, {}) is None
    if pattern != "<any>":
        assert match(pattern, bad, {}) is not None


def test_names_are_bound_once_and_compared_after() -> None:
    names: Names = {}
    assert match({"a": "$x", "b": "$y:<int>"}, {"a": {"k": 1}, "b": 5}, names) is None
    assert names == {"x": {"k": 1}, "y": 5}
    assert match({"a": "$x"}, {"a": {"k": 1}}, names) is None
    assert match({"a": "$x"}, {"a": {"k": 2}}, names) is not None
    assert match("<eq:$y+1>", 6, names) is None
    assert match("<gt:$y>", 5, names) is not None
    assert match("id ${y}!", "id 5!", names) is None
    assert match("$z:<int>", "no int", names) is not None
    assert "z" not in names


def test_a_mismatch_binds_nothing() -> None:
    names: Names = {}
    assert match({"a": "$x", "b": 1}, {"a": 1, "b": 2}, names) is not None
    assert names == {}


def test_a_mismatch_says_where() -> None:
    problem = match({"a": [{"b": "<int>"}]}, {"a": [{"b": "x"}]}, {})
    assert str(problem) == 'a[0].b: expected <int>, got "x"'
    assert str(match({"a": 1}, {}, {})) == "a: expected 1, got nothing"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("<nonsense>", "no matcher <nonsense>"),
        ("<re>", "needs argument"),
        ("<int:3>", "takes no argument"),
        ("<re:(>", "<re:(>"),
        ("<len:x>", "needs a number"),
        ("<gt:abc>", "needs a number"),
        ("$x:<nonsense>", "no matcher"),
        ({"deep": [{"er": "<nope>"}]}, "no matcher <nope>"),
    ],
)
def test_a_malformed_pattern_is_found_before_the_run(pattern: Any, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        check(pattern)
    assert words in str(caught.value)


def test_names_used_and_bound() -> None:
    assert names_bound({"a": "$x", "b": ["$y:<int>"]}) == {"x", "y"}
    assert names_used({"a": "<eq:$x+1>", "b": "t ${y}"}, sent=False) == {"x", "y"}
    assert names_used({"a": "$x"}, sent=True) == {"x"}
    assert names_used({"a": "$x", "b": "$${y}"}, sent=False) == set()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def literally(value: Any) -> Any:
    """The pattern that means exactly this value."""
    if isinstance(value, str):
        escaped = value.replace("${", "$${")
        if escaped.startswith("<") or (escaped.startswith("$") and not escaped.startswith("$${")):
            return "$" + escaped
        return escaped
    if isinstance(value, list):
        return [literally(inner) for inner in value]
    if isinstance(value, dict):
        return {key: literally(inner) for key, inner in value.items()}
    return value


@given(json_values)
def test_every_value_matches_itself_written_literally(value: Any) -> None:
    pattern = literally(value)
    check(pattern)
    assert match(pattern, value, {}) is None


@given(json_values, st.dictionaries(st.text(min_size=1), json_values, min_size=1, max_size=3))
def test_more_keys_never_hurt(value: Any, more: dict[str, Any]) -> None:
    inner = {"k": value}
    assert match(literally(inner), {**more, **inner}, {}) is None


@given(json_values, json_values)
def test_a_name_bound_to_one_value_matches_another_only_if_they_are_equal(one: Any, other: Any) -> None:
    names: Names = {}
    assert match("$x", one, names) is None
    again, back = match("$x", other, names), match(literally(other), one, {})
    if again is None:
        assert back is None


@given(st.lists(st.integers(), max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_a_gap_stands_for_any_run_of_elements(values: list[int], start: int, length: int) -> None:
    pattern: list[Any] = [*values[:start], "<...>", *values[start + length :]]
    assert match(pattern, values, {}) is None
