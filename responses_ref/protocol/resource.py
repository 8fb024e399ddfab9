"""The two big objects: a ``response.create`` as validated, and the response resource."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs

from .errors import Problem, problem
from .items import Item

Json: TypeAlias = Mapping[str, Any]
Strings: TypeAlias = Mapping[str, str]


@attrs.frozen
class Create:
    """A validated create. ``input`` is still raw: the pipeline validates items, in slices.

    A field that is absent, or null where that means absent, holds its default.
    ``stream`` and ``stream_options`` change nothing (RWS-CRE-006, RWS-CRE-007,
    RWS-CRE-015); what nobody knows is not here (RWS-CRE-016).
    """

    model: str
    input: tuple[Any, ...] = ()
    previous_response_id: str | None = None
    instructions: str | None = None
    store: bool = True  # RWS-CRE-014
    generate: bool = True  # RWS-WRM-001
    background: bool = False
    tools: tuple[Json, ...] = ()
    tool_choice: Any = "auto"
    parallel_tool_calls: bool = True
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_logprobs: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    truncation: str = "disabled"
    text: Json = MappingProxyType({})
    reasoning: Json = MappingProxyType({})
    include: tuple[str, ...] = ()
    metadata: Strings = MappingProxyType({})
    conversation: str | None = None
    context_management: tuple[Json, ...] = ()
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: Json | None = None
    prompt: Json | None = None
    safety_identifier: str | None = None
    user: str | None = None
    stream: bool = True
    stream_options: Json | None = None

    @property
    def parent_id(self) -> str | None:
        """The key of the context this create goes on from: a response or a conversation (RWS-CRE-037)."""
        return self.conversation if self.previous_response_id is None else self.previous_response_id

    @property
    def warm_up(self) -> bool:
        """Whether it prepares a context and generates nothing (RWS-WRM-001, RWS-WRM-009)."""
        return not self.generate or (self.prompt_cache_options or {}).get("prewarm") is True

    @property
    def compacts(self) -> bool:
        return any(entry.get("type") == "compaction" for entry in self.context_management)

    def fault(self) -> Problem | None:
        """The first rule on values, not types, that this create breaks."""
        for check in (_fixed, _numbers, _words, _nested, _metadata, _tools, _tool_choice):
            if fault := check(self):
                return fault
        return None


MAX_NUMBER = 2**53  # beyond it, not every language reads the number as sent: RWS-CRE-023
RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "top_logprobs": (0, 20),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "max_output_tokens": (1, MAX_NUMBER),
    "max_tool_calls": (1, MAX_NUMBER),
}
WORDS: dict[str, frozenset[str]] = {
    "truncation": frozenset({"auto", "disabled"}),
    "service_tier": frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"}),
    "prompt_cache_retention": frozenset({"in_memory", "24h"}),
}
NESTED: tuple[tuple[str, str, type, str], ...] = (
    ("text", "verbosity", str, "a string"),
    ("text", "format", dict, "an object"),
    ("reasoning", "effort", str, "a string"),
    ("reasoning", "summary", str, "a string"),
)
MAX_METADATA, MAX_METADATA_KEY, MAX_METADATA_VALUE = 16, 64, 512
MAX_IDENTIFIER = 128
TOOL_CHOICES = frozenset({"none", "auto", "required"})


def _fixed(create: Create) -> Problem | None:
    if create.background:  # RWS-CRE-028
        return problem("unsupported_parameter", param="background", why="cannot be true here")
    if create.previous_response_id is not None and create.conversation is not None:  # RWS-CRE-012
        return problem("mutually_exclusive_parameters")
    if create.conversation is not None and (not create.conversation or create.conversation[:5] == "resp_"):
        return problem("invalid_value", param="conversation", why="it must be the id of a conversation")
    if len(create.safety_identifier or "") > MAX_IDENTIFIER:
        why = f"it is longer than {MAX_IDENTIFIER} characters"
        return problem("invalid_value", param="safety_identifier", why=why)
    return None


def _numbers(create: Create) -> Problem | None:
    for name, (low, high) in RANGES.items():
        value = getattr(create, name)
        if value is not None and not low <= value <= high:
            return problem("invalid_value", param=name, why=f"it must be between {low} and {high}")
    return None


def _words(create: Create) -> Problem | None:
    for name, words in WORDS.items():
        value = getattr(create, name)
        if value is not None and value not in words:
            return problem("invalid_value", param=name, why=f"it must be one of {', '.join(sorted(words))}")
    return None


def _nested(create: Create) -> Problem | None:
    for owner, name, kind, expected in NESTED:
        value = getattr(create, owner).get(name)
        if value is not None and not isinstance(value, kind):
            return problem("invalid_type", param=f"{owner}.{name}", expected=expected)
    return None


def _metadata(create: Create) -> Problem | None:
    """How many pairs, and how long they may be (RWS-CRE-013)."""
    if len(create.metadata) > MAX_METADATA:
        return problem("invalid_value", param="metadata", why=f"more than {MAX_METADATA} pairs")
    for key, value in create.metadata.items():
        if len(key) > MAX_METADATA_KEY or len(value) > MAX_METADATA_VALUE:
            why = f"a key is longer than {MAX_METADATA_KEY} or a value than {MAX_METADATA_VALUE} characters"
            return problem("invalid_value", param="metadata", why=why)
    return None


def _tools(create: Create) -> Problem | None:
    for index, tool in enumerate(create.tools):
        needed = ("type", "name") if tool.get("type") in ("function", "custom") else ("type",)  # RWS-CRE-031
        for name in needed:
            if not isinstance(tool.get(name), str):
                return missing_or_wrong(tool, name, f"tools[{index}].{name}")
        schema = tool.get("parameters")
        if tool["type"] == "function" and not (schema is None or isinstance(schema, dict)):
            return problem("invalid_type", param=f"tools[{index}].parameters", expected="an object")
    return None


def missing_or_wrong(owner: Json, name: str, path: str) -> Problem:
    if owner.get(name) is None:
        return problem("missing_required_parameter", param=path)
    return problem("invalid_type", param=path, expected="a string")


def _tool_choice(create: Create) -> Problem | None:
    choice = create.tool_choice
    if isinstance(choice, str):
        if choice in TOOL_CHOICES:
            return None
        why = "it must be none, auto, required or an object"
        return problem("invalid_value", param="tool_choice", why=why)
    if not isinstance(choice, dict):
        return problem("invalid_type", param="tool_choice", expected="a string or an object")
    if not isinstance(choice.get("type"), str):
        return missing_or_wrong(choice, "type", "tool_choice.type")
    if choice["type"] == "allowed_tools" and not isinstance(choice.get("tools"), list):
        return problem("invalid_type", param="tool_choice.tools", expected="an array")
    named = choice["type"], choice.get("name")
    known = [(tool["type"], tool.get("name")) for tool in create.tools]
    if choice["type"] in ("function", "custom") and named not in known:
        return problem("invalid_value", param="tool_choice", why="it names no tool of this request")
    return None


# Echoed as they came (RWS-RES-012); the optional ones only when they came.
ECHOED = (
    "model", "previous_response_id", "instructions", "tool_choice", "truncation", "parallel_tool_calls",
    "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning",
    "max_output_tokens", "max_tool_calls", "store", "background", "metadata", "safety_identifier",
    "prompt_cache_key",
)  # fmt: skip
ECHOED_IF_SENT = ("user", "prompt", "prompt_cache_retention")
CACHE_OPTIONS = {"mode": "implicit", "ttl": "30m"}  # what is applied where the request is silent


def echo(create: Create) -> dict[str, Any]:
    """The constant part of a response: what its own request asked for (RWS-CRE-017, RWS-CRE-027)."""
    fields = {name: getattr(create, name) for name in ECHOED}
    fields["metadata"] = dict(create.metadata)
    fields["reasoning"] = {"effort": None, "summary": None, **create.reasoning}
    text = {name: value for name, value in create.text.items() if value is not None}  # RWS-RES-005
    fields["text"] = {"format": {"type": "text"}, "verbosity": "medium", **text}
    fields["tools"] = [_tool(tool) for tool in create.tools]
    fields["service_tier"] = "default"  # the tier used, not the tier asked for: RWS-RES-020
    fields |= {name: value for name in ECHOED_IF_SENT if (value := getattr(create, name)) is not None}
    if create.prompt_cache_options is not None:  # as applied: the wish for a warm-up is none of them
        applied = {**CACHE_OPTIONS, **create.prompt_cache_options}
        fields["prompt_cache_options"] = {name: applied[name] for name in applied if name != "prewarm"}
    if create.conversation is not None:
        fields["conversation"] = {"id": create.conversation}
    return fields


def generating(raw: Json) -> dict[str, Any]:
    """The same request without its wish for a warm-up, in either form (RWS-WRM-009)."""
    options = raw.get("prompt_cache_options")
    if isinstance(options, dict):
        options = {name: value for name, value in options.items() if name != "prewarm"}
    return {**raw, "generate": None, "prompt_cache_options": options or None}


def share(fields: dict[str, Any], before: Json) -> None:
    """Let big fields that equal an earlier response's be its objects, so that a chain keeps one copy."""
    for name in ("tools", "instructions"):
        if repr(fields[name]) == repr(before.get(name)):  # 1 and true are not the same here
            fields[name] = before[name]


def _tool(tool: Json) -> Json:
    if tool["type"] != "function":
        return tool
    return {"description": None, "parameters": None, "strict": None} | dict(tool)  # RWS-RES-029


@attrs.frozen
class Usage:
    """Token counts. ``cached`` and ``written`` split ``input``; ``reasoning`` is part of ``output``."""

    input: int
    cached: int
    output: int
    reasoning: int

    def wire(self) -> Json:
        """The usage object as clients know it (RWS-RES-016)."""
        return {
            "input_tokens": self.input,
            "input_tokens_details": {
                "cached_tokens": self.cached,
                "cache_write_tokens": self.input - self.cached,
            },
            "output_tokens": self.output,
            "output_tokens_details": {"reasoning_tokens": self.reasoning},
            "total_tokens": self.input + self.output,  # RWS-RES-015
        }


@attrs.frozen
class Response:
    """The response resource at one moment. Times are Unix seconds."""

    id: str
    created_at: int
    echo: Json
    status: str = "in_progress"
    completed_at: int | None = None
    error: Json | None = None
    incomplete_details: Json | None = None
    output: tuple[Item, ...] = ()
    usage: Usage | None = None
