"""The fields of ``response.create``: what each may hold, and by which path a fault is named."""

from __future__ import annotations

from typing import Any

import pytest
from core_bench import Bench, create

from responses_ref.protocol import codec
from responses_ref.protocol.errors import Refused
from responses_ref.protocol.resource import Create
from responses_ref.protocol.settings import Settings

BIG = 2**53

# (doc, fields, code, param): a create of model "m" with these fields.
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("no model", {"model": None}, "missing_required_parameter", "model"),
    ("a model that is no string", {"model": 4}, "invalid_type", "model"),
    ("a string is no number", {"max_output_tokens": "4"}, "invalid_type", "max_output_tokens"),
    ("true is no integer", {"max_output_tokens": True}, "invalid_type", "max_output_tokens"),
    ("1.0 is no integer", {"max_output_tokens": 1.0}, "invalid_type", "max_output_tokens"),
    ("beyond 2**53", {"max_output_tokens": BIG + 1}, "invalid_type", "max_output_tokens"),
    ("below 1", {"max_output_tokens": 0}, "invalid_value", "max_output_tokens"),
    ("no tool call at all", {"max_tool_calls": 0}, "invalid_value", "max_tool_calls"),
    ("too warm", {"temperature": 2.1}, "invalid_value", "temperature"),
    ("too cold", {"temperature": -0.1}, "invalid_value", "temperature"),
    ("far too warm", {"temperature": 1e300}, "invalid_type", "temperature"),
    ("a probability beyond 1", {"top_p": 1.1}, "invalid_value", "top_p"),
    ("more logprobs than 20", {"top_logprobs": 21}, "invalid_value", "top_logprobs"),
    ("a penalty beyond 2", {"presence_penalty": 3}, "invalid_value", "presence_penalty"),
    ("a penalty below -2", {"frequency_penalty": -3}, "invalid_value", "frequency_penalty"),
    ("1 is no boolean", {"store": 1}, "invalid_type", "store"),
    ("a string is no boolean", {"generate": "false"}, "invalid_type", "generate"),
    ("instructions as a list", {"instructions": ["be kind"]}, "invalid_type", "instructions"),
    ("an id that is no string", {"previous_response_id": 7}, "invalid_type", "previous_response_id"),
    ("input as an object", {"input": {}}, "invalid_type", "input"),
    ("tools as an object", {"tools": {}}, "invalid_type", "tools"),
    ("a tool that is no object", {"tools": [{"type": "x"}, 1]}, "invalid_type", "tools[1]"),
    ("a tool without a type", {"tools": [{}]}, "missing_required_parameter", "tools[0].type"),
    ("a tool's type", {"tools": [{"type": 1}]}, "invalid_type", "tools[0].type"),
    (
        "a function without a name",
        {"tools": [{"type": "function"}]},
        "missing_required_parameter",
        "tools[0].name",
    ),
    ("a custom tool's name", {"tools": [{"type": "custom", "name": 1}]}, "invalid_type", "tools[0].name"),
    (
        "parameters that are no schema",
        {"tools": [{"type": "function", "name": "f", "parameters": [1]}]},
        "invalid_type",
        "tools[0].parameters",
    ),
    ("tool_choice as a number", {"tool_choice": 1}, "invalid_type", "tool_choice"),
    ("an unknown word", {"tool_choice": "maybe"}, "invalid_value", "tool_choice"),
    ("a choice without a type", {"tool_choice": {}}, "missing_required_parameter", "tool_choice.type"),
    ("a choice's type", {"tool_choice": {"type": []}}, "invalid_type", "tool_choice.type"),
    (
        "a choice among no list",
        {"tool_choice": {"type": "allowed_tools", "tools": 1}},
        "invalid_type",
        "tool_choice.tools",
    ),
    (
        "a choice of no tool",
        {"tool_choice": {"type": "function", "name": "f"}},
        "invalid_value",
        "tool_choice",
    ),
    (
        "a choice by a list",
        {"tool_choice": {"type": "custom", "name": ["f"]}},
        "invalid_value",
        "tool_choice",
    ),
    (
        "a choice of a function that is custom",
        {"tools": [{"type": "custom", "name": "f"}], "tool_choice": {"type": "function", "name": "f"}},
        "invalid_value",
        "tool_choice",
    ),
    (
        "a choice of a function without a name",
        {"tools": [{"type": "web_search"}], "tool_choice": {"type": "function"}},
        "invalid_value",
        "tool_choice",
    ),
    *(
        (
            f"a schema that is {schema!r}",
            {"tools": [{"type": "function", "name": "f", "parameters": schema}]},
            "invalid_type",
            "tools[0].parameters",
        )
        for schema in ([], 0, "", 5)
    ),
    ("include as a string", {"include": "all"}, "invalid_type", "include"),
    ("an include that is no string", {"include": ["a", 1]}, "invalid_type", "include[1]"),
    ("metadata as a list", {"metadata": []}, "invalid_type", "metadata"),
    ("metadata as a string", {"metadata": "a"}, "invalid_type", "metadata"),
    ("a value that is no string", {"metadata": {"a": 1}}, "invalid_type", "metadata.a"),
    ("17 pairs", {"metadata": {str(n): "" for n in range(17)}}, "invalid_value", "metadata"),
    ("a key of 65", {"metadata": {"k" * 65: ""}}, "invalid_value", "metadata"),
    ("a value of 513", {"metadata": {"k": "v" * 513}}, "invalid_value", "metadata"),
    ("an unknown truncation", {"truncation": "middle"}, "invalid_value", "truncation"),
    ("an unknown tier", {"service_tier": "gold"}, "invalid_value", "service_tier"),
    ("an unknown retention", {"prompt_cache_retention": "1y"}, "invalid_value", "prompt_cache_retention"),
    ("in the background", {"background": True}, "unsupported_parameter", "background"),
    (
        "two contexts",
        {"previous_response_id": "resp_1", "conversation": "conv_1"},
        "mutually_exclusive_parameters",
        "previous_response_id",
    ),
    ("a conversation by number", {"conversation": {"id": 4}}, "invalid_type", "conversation.id"),
    (
        "a conversation by no id",
        {"conversation": {"id": None}},
        "missing_required_parameter",
        "conversation.id",
    ),
    ("a conversation without an id", {"conversation": {}}, "missing_required_parameter", "conversation.id"),
    ("a conversation without a name", {"conversation": ""}, "invalid_value", "conversation"),
    ("a response for a conversation", {"conversation": {"id": "resp_1"}}, "invalid_value", "conversation"),
    ("a stream by word", {"stream": "yes"}, "invalid_type", "stream"),
    ("options of a stream as a list", {"stream_options": []}, "invalid_type", "stream_options"),
    ("a conversation as a list", {"conversation": []}, "invalid_type", "conversation"),
    ("an identifier of 129", {"safety_identifier": "x" * 129}, "invalid_value", "safety_identifier"),
    ("text as a string", {"text": "json"}, "invalid_type", "text"),
    ("reasoning as a string", {"reasoning": "high"}, "invalid_type", "reasoning"),
    ("compaction as an object", {"context_management": {}}, "invalid_type", "context_management"),
    ("cache options as a list", {"prompt_cache_options": []}, "invalid_type", "prompt_cache_options"),
]


@pytest.mark.parametrize(
    ("fields", "code", "param"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_refused(fields: dict[str, Any], code: str, param: str) -> None:
    """A known field of a wrong type or value is refused by its path (RWS-CRE-010, RWS-CRE-011)."""
    with pytest.raises(Refused) as caught:
        codec.create({"model": "m", **fields})
    problem = caught.value.problem
    assert (problem.status, problem.code, problem.param) == (400, code, param)


# (doc, fields, what the create then holds)
ACCEPTED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("nothing but a model", {}, {"store": True, "generate": True, "input": (), "temperature": 1.0}),
    (
        "null is absent",
        dict.fromkeys(("store", "tools", "temperature", "input")),
        {"store": True, "tools": ()},
    ),
    ("no parent", {"previous_response_id": None}, {"previous_response_id": None, "parent_id": None}),
    ("an empty id names nothing", {"previous_response_id": ""}, {"parent_id": ""}),
    (
        "a string is one user message",
        {"input": "hi"},
        {"input": ({"type": "message", "role": "user", "content": "hi"},)},
    ),
    ("items stay as they came", {"input": [1, {"x": 2}]}, {"input": (1, {"x": 2})}),
    ("an integer for a number", {"temperature": 1, "top_p": 0}, {"temperature": 1, "top_p": 0}),
    ("the edges", {"temperature": 2, "top_logprobs": 20}, {"temperature": 2, "top_logprobs": 20}),
    ("the largest number", {"max_output_tokens": BIG}, {"max_output_tokens": BIG}),
    ("a conversation by id", {"conversation": "conv_1"}, {"conversation": "conv_1", "parent_id": "conv_1"}),
    ("a conversation object", {"conversation": {"id": "conv_1"}}, {"conversation": "conv_1"}),
    ("unknown tools", {"tools": [{"type": "lark", "x": 1}]}, {"tools": ({"type": "lark", "x": 1},)}),
    (
        "a function without parameters",
        {"tools": [{"type": "function", "name": "f", "parameters": None}]},
        {"tool_choice": "auto"},
    ),
    ("a built-in tool", {"tool_choice": {"type": "web_search"}}, {"tool_choice": {"type": "web_search"}}),
    (
        "a named tool",
        {"tools": [{"type": "custom", "name": "f"}], "tool_choice": {"type": "custom", "name": "f"}},
        {"tool_choice": {"type": "custom", "name": "f"}},
    ),
    ("16 pairs", {"metadata": {str(n): "v" * 512 for n in range(16)}}, {}),
    ("a warm-up", {"generate": False}, {"warm_up": True}),
    ("a prewarm", {"prompt_cache_options": {"prewarm": True}}, {"warm_up": True}),
    ("no prewarm", {"prompt_cache_options": {"prewarm": "yes"}}, {"warm_up": False}),
    ("compaction", {"context_management": [{"type": "compaction"}]}, {"compacts": True}),
    ("other management", {"context_management": [{"type": "x"}]}, {"compacts": False}),
    ("what a create does not know", {"client_metadata": {"a": 1}, "stream": False}, {}),
]


@pytest.mark.parametrize(("fields", "holds"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED])
def test_accepted(fields: dict[str, Any], holds: dict[str, Any]) -> None:
    """What is right is taken, and what is absent or null holds its default."""
    made = codec.create({"model": "m", **fields})
    assert isinstance(made, Create)
    assert {name: getattr(made, name) for name in holds} == holds


def test_a_wrong_value_of_the_peer_is_quoted_in_short() -> None:
    """An error repeats at most 256 characters of what the peer sent."""
    long = "x" * 10_000
    for wrong in (
        create(metadata={long: 1}),
        create(previous_response_id=long),
        create([{"type": "item_reference", "id": long}]),
        create([{"type": "function_call_output", "call_id": long, "output": ""}]),
        {"type": long},
    ):
        bench = Bench()
        bench.send(wrong)
        error = bench.events[0]["error"]
        assert len(error["message"]) < 400
        assert len(error["param"] or "") < 400


def test_a_model_that_is_not_served() -> None:
    """With a list of models, another name is refused and quoted in short; ``scripted`` is always there."""
    bench = Bench(Settings(models=("small",)))
    assert bench.send(create(model="large" * 100)) == ["error model_not_found @model"]
    assert len(bench.events[0]["error"]["message"]) < 400
    assert bench.send(create(model="small"))[0] == "created"
    bench.finish()
    assert bench.send(create(model="scripted"))[0] == "created"


def test_an_empty_previous_response_id_is_an_unknown_one() -> None:
    """A create that names "" does not start a new chain in silence: its sender believes in a parent."""
    bench = Bench()
    expected = ["error previous_response_not_found @previous_response_id"]
    assert bench.send(create(previous_response_id="")) == expected


def test_what_is_echoed() -> None:
    """The response repeats the settings of its create, and fills in what was left out."""
    bench = Bench()
    tools = [{"type": "function", "name": "f"}, {"type": "lark", "x": 1}]
    bench.send(
        create(
            tools=tools,
            metadata={"a": "b"},
            text={"verbosity": None, "format": {"type": "json_object"}},
            reasoning={"effort": "low"},
            conversation={"id": "conv_1"},
            service_tier="fast",
            prompt_cache_options={"prewarm": False, "ttl": "12h"},
            user="u",
            client_metadata={"x": 1},
        )
    )
    echo = bench.events[0]["response"]
    assert echo["tools"] == [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None},
        tools[1],
    ]
    assert echo["metadata"] == {"a": "b"}
    assert echo["text"] == {"verbosity": "medium", "format": {"type": "json_object"}}
    assert echo["reasoning"] == {"effort": "low", "summary": None}
    assert echo["conversation"] == {"id": "conv_1"}
    assert echo["service_tier"] == "default"
    assert echo["prompt_cache_options"] == {"mode": "implicit", "ttl": "12h"}
    assert (echo["user"], echo["store"], echo["background"]) == ("u", False, False)
    assert "client_metadata" not in echo
    assert "prompt" not in echo


@pytest.mark.parametrize("field", ["tools", "include", "context_management", "input"])
def test_a_list_is_read_up_to_its_first_fault(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """199,000 faults are one refusal: noting each of them took seconds, with all streams waiting."""
    faults: list[str] = []

    class Counted(codec.Wrong):
        def __init__(self, expected: str, path: str = "") -> None:
            faults.append(expected)
            super().__init__(expected, path)

    monkeypatch.setattr(codec, "Wrong", Counted)
    wrong = [1] * 1_000
    value = [{"role": "user", "content": wrong}] if field == "input" else wrong
    assert Bench().send(create("hi") | {field: value})[0].startswith("error invalid_type")
    assert len(faults) == 1
