"""Hypothesis strategies for what a peer may send: any JSON, and JSON that almost fits."""

from __future__ import annotations

import attrs
from hypothesis import strategies as st

from responses_ref.protocol.resource import Create

# Anything but halves of surrogate pairs, which strict JSON text cannot hold.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
values = st.recursive(
    scalars,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(text, children, max_size=3),
    max_leaves=8,
)

PART_TYPES = ["input_text", "output_text", "refusal", "summary_text", "reasoning_text", "input_image", "new"]
ITEM_TYPES = [
    "message",
    "reasoning",
    "function_call",
    "custom_tool_call",
    "function_call_output",
    "custom_tool_call_output",
    "compaction",
    "item_reference",
    "additional_tools",
]


def _object(types: list[str], **fields: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    known = {name: strategy | values for name, strategy in fields.items()}
    return st.fixed_dictionaries({}, optional={"type": st.sampled_from(types) | values, **known}) | values


parts = _object(
    PART_TYPES, text=text, refusal=text, annotations=st.just([]), logprobs=st.just([]), extra=text, new=text
)
contents = text | st.lists(parts, max_size=3)
items = _object(
    ITEM_TYPES,
    role=st.sampled_from(["user", "assistant"]),
    content=contents,
    summary=contents,
    output=contents,
    **dict.fromkeys(("id", "status", "call_id", "name", "arguments", "input", "encrypted_content"), text),
    extra=text,
    fields=text,
    new=text,
)
tools = _object(["function", "custom", "web_search"], name=text, parameters=st.just({}))
choices = st.sampled_from(["none", "auto", "required"]) | _object(["function", "custom"], name=text)
FIELDS: dict[str, st.SearchStrategy[object]] = {
    **{field.name: values for field in attrs.fields(Create)},
    "model": st.just("m") | values,
    "input": text | st.lists(items, max_size=3) | values,
    "tools": st.lists(tools, max_size=2) | values,
    "tool_choice": choices | values,
    "metadata": st.dictionaries(text, text | values, max_size=2) | values,
    "stream_id": st.just("a") | values,
    "stream": values,
    "client_metadata": values,
}


def _with(names: list[str]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({"model": st.just("m"), **{name: FIELDS[name] for name in names}})


# A few fields at a time: with many, the first that is wrong would hide the others.
creates = st.lists(st.sampled_from(sorted(FIELDS)), max_size=3, unique=True).flatmap(_with)
