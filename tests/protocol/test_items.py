"""Items and parts: read from the wire, carried, and written back."""

from __future__ import annotations

from typing import Any

import json_values
import pytest
from core_bench import refusal
from hypothesis import given
from hypothesis import strategies as st

from responses_ref.protocol import codec
from responses_ref.protocol.items import Message, OtherItem, Reasoning, texts

TEXT = {"type": "input_text", "text": "hi"}
SAID = {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}

# (doc, as it came, as it goes out; None: unchanged)
CARRIED: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = [
    ("a message", {"type": "message", "role": "user", "content": [TEXT]}, None),
    (
        "no type, one string",
        {"role": "user", "content": "hi"},
        {"type": "message", "role": "user", "content": [TEXT]},
    ),
    (
        "a type that is null, as objects of the SDK have it",
        {"type": None, "role": "user", "content": "hi"},
        {"type": "message", "role": "user", "content": [TEXT]},
    ),
    (
        "a string of the assistant's",
        {"role": "assistant", "content": "hi"},
        {"type": "message", "role": "assistant", "content": [SAID]},
    ),
    (
        "an id and a status",
        {"type": "message", "role": "user", "content": [], "id": "x", "status": "y"},
        None,
    ),
    (
        "null is absent",
        {"type": "message", "role": "assistant", "content": [SAID | {"logprobs": None}], "id": None},
        {"type": "message", "role": "assistant", "content": [SAID]},
    ),
    (
        "unknown fields",
        {"type": "message", "role": "user", "content": [TEXT | {"bold": True}], "phase": "x"},
        None,
    ),
    ("a field named extra", {"type": "message", "role": "user", "content": [], "extra": {"extra": 1}}, None),
    (
        "images and files",
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_image", "image_url": None}, {"type": "input_file", "file_id": "f"}],
        },
        None,
    ),
    (
        "a refusal",
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        None,
    ),
    ("empty reasoning", {"type": "reasoning"}, {"type": "reasoning", "summary": []}),
    (
        "reasoning",
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "s"}],
            "content": [{"type": "reasoning_text", "text": "t"}],
            "encrypted_content": "e",
        },
        None,
    ),
    ("a call", {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{", "id": "i"}, None),
    ("a custom call", {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": ""}, None),
    ("an output", {"type": "function_call_output", "call_id": "c", "output": "o", "status": "s"}, None),
    ("an output of parts", {"type": "function_call_output", "call_id": "c", "output": [TEXT]}, None),
    ("a custom output", {"type": "custom_tool_call_output", "call_id": "c", "output": [], "id": "i"}, None),
    ("compaction", {"type": "compaction", "encrypted_content": "e", "id": "cmp"}, None),
    ("a reference", {"type": "item_reference", "id": "msg", "why": None}, None),
    ("an unknown type", {"type": "additional_tools", "tools": [{"a": None}], "id": 7}, None),
]


@pytest.mark.parametrize(("raw", "wire"), [row[1:] for row in CARRIED], ids=[row[0] for row in CARRIED])
def test_carried(raw: dict[str, Any], wire: dict[str, Any] | None) -> None:
    """An item keeps what it came with, fields and types that we do not know included (RWS-ITM-010)."""
    item = codec.item(raw, 0)
    assert codec.wire(item) == (raw if wire is None else wire)
    assert codec.wire(codec.item(codec.wire(item), 0)) == codec.wire(item)


# (doc, raw, code, param)
REFUSED: list[tuple[str, Any, str, str]] = [
    ("no object", 5, "invalid_type", "input[2]"),
    ("null", None, "invalid_type", "input[2]"),
    ("a type by number", {"type": 5}, "invalid_type", "input[2].type"),
    ("no role", {"content": "hi"}, "missing_required_parameter", "input[2].role"),
    ("no content", {"role": "user"}, "missing_required_parameter", "input[2].content"),
    ("content null", {"role": "user", "content": None}, "missing_required_parameter", "input[2].content"),
    ("content as an object", {"role": "user", "content": {}}, "invalid_type", "input[2].content"),
    ("a part by string", {"role": "user", "content": [TEXT, "x"]}, "invalid_type", "input[2].content[1]"),
    (
        "a part without type",
        {"role": "user", "content": [{}]},
        "missing_required_parameter",
        "input[2].content[0].type",
    ),
    ("a part's type", {"role": "user", "content": [{"type": 1}]}, "invalid_type", "input[2].content[0].type"),
    (
        "a part without text",
        {"role": "user", "content": [{"type": "input_text"}]},
        "missing_required_parameter",
        "input[2].content[0].text",
    ),
    (
        "a text by number",
        {"role": "user", "content": [{"type": "input_text", "text": 1}]},
        "invalid_type",
        "input[2].content[0].text",
    ),
    (
        "annotations as an object",
        {"role": "assistant", "content": [SAID | {"annotations": {}}]},
        "invalid_type",
        "input[2].content[0].annotations",
    ),
    ("a role by number", {"role": 1, "content": []}, "invalid_type", "input[2].role"),
    ("an id by number", {"role": "user", "content": [], "id": 1}, "invalid_type", "input[2].id"),
    (
        "an output without a call",
        {"type": "function_call_output", "output": ""},
        "missing_required_parameter",
        "input[2].call_id",
    ),
    (
        "an output by number",
        {"type": "function_call_output", "call_id": "c", "output": 1},
        "invalid_type",
        "input[2].output",
    ),
    (
        "a part of an output",
        {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text"}]},
        "missing_required_parameter",
        "input[2].output[0].text",
    ),
    ("a summary by string", {"type": "reasoning", "summary": "s"}, "invalid_type", "input[2].summary"),
    (
        "arguments as an object",
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": {}},
        "invalid_type",
        "input[2].arguments",
    ),
    ("a reference to nothing", {"type": "item_reference"}, "missing_required_parameter", "input[2].id"),
]


@pytest.mark.parametrize(("raw", "code", "param"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused(raw: Any, code: str, param: str) -> None:
    """A wrong item is refused by the path of what is wrong in it (RWS-CRE-011)."""
    problem = refusal(lambda: codec.item(raw, 2))
    assert problem is not None
    assert (problem.status, problem.code, problem.param) == (400, code, param)


@given(
    json_values.items, st.dictionaries(json_values.text.map("x_{}".format), json_values.values, max_size=2)
)
def test_unknown_fields_travel_with_any_item(raw: Any, unknown: dict[str, Any]) -> None:
    """Whatever item is accepted, is accepted with unknown fields too, and writes them back."""
    if not isinstance(raw, dict) or refusal(lambda: codec.item(raw, 0)):
        return
    wire = codec.wire(codec.item(raw | unknown, 0))
    assert {name: wire[name] for name in unknown} == unknown
    plain = codec.wire(codec.item(raw, 0))
    assert {name: value for name, value in wire.items() if name not in unknown} == plain


@given(json_values.items)
def test_what_was_sent_is_kept(raw: Any) -> None:
    """No field of an accepted item is lost or changed but for null and for content in short form."""
    if refusal(lambda: codec.item(raw, 0)):
        return
    wire = codec.wire(codec.item(raw, 0))
    for name, value in raw.items():
        if name in ("content", "summary", "output") and raw.get("type") != "additional_tools":
            continue  # parts: below
        if value is not None:
            assert wire[name] == value
    for name in ("content", "summary", "output"):
        for before, after in zip(_parts(raw, name), _parts(wire, name), strict=True):
            assert {
                key: after[key] for key, value in before.items() if value is not None
            }.items() <= after.items()


def _parts(raw: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = raw.get(name)
    if name == "content" and isinstance(value, str) and raw.get("type", "message") == "message":
        return [{"text": value}]
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


TEXTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"role": "user", "content": [TEXT, {"type": "input_image"}, TEXT]}, ["hi", "", "hi"]),
    ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, ["no"]),
    ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]}, ["s"]),
    ({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "t"}]}, ["t"]),
    ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, ["{}"]),
    ({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "ls"}, ["ls"]),
    ({"type": "function_call_output", "call_id": "c", "output": "o"}, ["o"]),
    ({"type": "custom_tool_call_output", "call_id": "c", "output": [TEXT]}, ["hi"]),
    ({"type": "compaction", "encrypted_content": "e"}, ["e"]),
    ({"type": "item_reference", "id": "i"}, []),
    ({"type": "additional_tools", "text": "x"}, []),
]


@pytest.mark.parametrize(("raw", "said"), TEXTS)
def test_the_texts_of_an_item(raw: dict[str, Any], said: list[str]) -> None:
    """What is classified and rendered: every text of an item, in order, and nothing else."""
    assert list(texts(codec.item(raw, 0))) == said


def test_what_an_item_is_by_default() -> None:
    """The short forms give full objects: RWS-ITM-022, RWS-ITM-023."""
    assert isinstance(codec.item({"role": "user", "content": "hi"}, 0), Message)
    assert codec.item({"type": "reasoning"}, 0) == Reasoning()
    assert codec.item({"type": "new", "id": 7}, 0) == OtherItem("new", {"type": "new", "id": 7})
    assert codec.item({"type": "new", "id": "n"}, 0).id == "n"
