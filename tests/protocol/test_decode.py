"""From a text message to one JSON object, or to a refusal in the field's own words."""

from __future__ import annotations

import json
import re

import json_values
import pytest
from core_bench import Bench, refusal, strict
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_ref.protocol import codec
from responses_ref.protocol.errors import Refused

# Words that only our own code could have put there.
OURS = re.compile(
    r"<class|NoneType|\b(dict|list|tuple|attrs|cattrs)\b|Traceback|responses_ref|object at 0x|Error\b"
)

# (text, code, a piece of the message)
REFUSED = [
    ("", "invalid_json", "Expecting value at character 0"),
    ("{", "invalid_json", "Expecting property name"),
    ('{"type":"x"} {}', "invalid_json", "Extra data at character 13"),
    ('{"a":1,"a":2}', "invalid_json", "a key stands twice in one object"),
    ('{"a":{"b":1,"b":1}}', "invalid_json", "a key stands twice in one object"),
    ('{"a":NaN}', "invalid_json", "NaN is no JSON number"),
    ('{"a":-Infinity}', "invalid_json", "-Infinity is no JSON number"),
    ('{"a":1e999}', "invalid_json", "a number is too large"),
    ('{"a":' + "9" * 310 + "}", "invalid_json", "a number is too large"),
    ('{"a":' + "9" * 309 + "}", "invalid_json", "a number is too large"),
    ('{"a":-1' + "0" * 308 + "}", None, ""),
    ('{"a":"\\ud800"}', "invalid_json", "half of a surrogate pair"),
    ('{"\\udfff":1}', "invalid_json", "half of a surrogate pair"),
    ('{"a":"\x00"}', "invalid_json", "Invalid control character at character 6"),
    ("[" * 100_000, "invalid_json", "nested deeper than 64 levels"),
    ('{"a":' * 64 + "1" + "}" * 64, None, ""),
    ('{"a":' * 65 + "1" + "}" * 65, "invalid_json", "nested deeper than 64 levels"),
    ("[" * 65 + "]" * 65, "invalid_json", "nested deeper than 64 levels"),
    ('{"a":"' + "[" * 100 + '"}', None, ""),
    ('{"a":[' + ",".join(["{}"] * 100) + "]}", None, ""),
    ('{"a":"\\ud83d\\ude00"}', None, ""),
    ('{"a":1e308}', None, ""),
    ('"' + "[" * 100 + '"', "invalid_event", "Expected one JSON object"),
    (
        '{"a":' * 30 + "[" * 34 + '{"b":["' + "]" * 34 + '"]}' + "]" * 34 + "}" * 30,
        "invalid_json",
        "nested deeper",
    ),
    (' \t\r\n{"a":null} ', None, ""),
    ("[]", "invalid_event", "Expected one JSON object"),
    ("null", "invalid_event", "Expected one JSON object"),
    ('"response.create"', "invalid_event", "Expected one JSON object"),
    ("17", "invalid_event", "Expected one JSON object"),
]


@pytest.mark.parametrize(("text", "code", "why"), REFUSED, ids=[row[0][:24] for row in REFUSED])
def test_strict_json(text: str, code: str | None, why: str) -> None:
    """What is no strict JSON object is refused by RWS-ERR-010, -011 or -016, and nothing else is."""
    if code is None:
        assert codec.decode(text) == json.loads(text)
        return
    with pytest.raises(Refused) as caught:
        codec.decode(text)
    assert caught.value.problem.code == code
    assert why in caught.value.problem.message
    assert caught.value.problem.status == 400
    assert not OURS.search(caught.value.problem.message)


@given(st.dictionaries(json_values.text, json_values.values))
def test_what_is_strict_json_is_read_as_it_is(value: dict[str, object]) -> None:
    """Any JSON object is read back equal, with its characters escaped or not."""
    assert codec.decode(json.dumps(value)) == value
    assert codec.decode(json.dumps(value, ensure_ascii=False)) == value


def _count(value: object) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inside))


@given(st.dictionaries(json_values.text | st.just('[,"\\'), json_values.values), st.sampled_from([None, 1]))
def test_values_are_counted_before_they_are_read(value: dict[str, object], indent: int | None) -> None:
    """The bound is exact, whatever stands in strings and however the text is spaced (RWS-LIM-020)."""
    text = json.dumps(value, indent=indent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "MAX_VALUES", _count(value))
        assert codec.decode(text) == value
        patch.setattr(codec, "MAX_VALUES", _count(value) - 1)
        assert refusal(lambda: codec.decode(text)).code == "too_many_values"


@pytest.mark.parametrize("strings", [[""] * 20, ['\\"'] * 20, ["a\\\\"] * 20])
def test_so_many_strings_need_no_closer_look(strings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value is one of them at most, and its key another."""
    text = json.dumps({"a": strings})
    monkeypatch.setattr(codec, "MAX_VALUES", 8)
    assert refusal(lambda: codec.decode(text)).code == "too_many_values"
    monkeypatch.setattr(codec, "MAX_VALUES", 22)
    assert codec.decode(text) == {"a": strings}


def test_space_in_an_empty_array_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_VALUES", 3)
    assert codec.decode('{"a": [ \n], "b": { }}') == {"a": [], "b": {}}


@given(st.text() | st.text('{}[]":,\\u0123dD8-+.eE tfn', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever text comes, it is one JSON object or a refusal, never another exception."""
    problem = refusal(lambda: codec.decode(text))
    if problem is None:
        assert strict(text) == codec.decode(text)
    else:
        assert problem.code in ("invalid_json", "invalid_event")
        assert not OURS.search(problem.message)


def _event(message: object) -> dict[str, object]:
    return {"type": "response.create", **message} if isinstance(message, dict) else message  # type: ignore[return-value]


@settings(max_examples=max(500, settings().max_examples))
@given(json_values.creates.map(_event) | json_values.values)
def test_any_message_is_answered(message: object) -> None:
    """Whatever JSON comes, it becomes a response or one error whose text shows nothing of our code."""
    bench = Bench()
    bench.send(json.dumps(message))  # the bench reads each event strictly
    first = bench.events[0]
    if first["type"] == "error":
        assert len(bench.events) == 1
        assert not OURS.search(first["error"]["message"])
        assert len(first["error"]["message"]) < 1_000
        assert len(first["error"]["param"] or "") < 1_000
    else:
        assert first["type"] == "response.created"
        bench.playing and bench.finish()
        assert bench.events[-1]["type"] == "response.completed"


@settings(max_examples=max(500, settings().max_examples))
@given(json_values.items)
def test_any_item_is_read_or_refused(value: object) -> None:
    """Whatever JSON stands in ``input``, it is an item or a refusal that names its place."""
    problem = refusal(lambda: codec.item(value, 3))
    if problem is None:
        strict(codec.dumps(codec.wire(codec.item(value, 3))))
    else:
        assert problem.code in ("invalid_type", "missing_required_parameter")
        assert (problem.param or "").startswith("input[3]")
        assert not OURS.search(problem.message)
