"""Arguments for a tool call, made from the tool's JSON Schema (spec annex A0).

The smallest value that fits: required properties only, ``minItems`` elements,
the first branch of ``anyOf`` or ``oneOf`` that is not null.  Not looked at are
``pattern``, ``multipleOf``, ``uniqueItems``, ``prefixItems``, conditions, and
numbers beyond 2**53.  A schema that is wrong, or deeper or wider than the bounds,
gives ``{}`` where it cannot be followed; none raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, TypeAlias

import attrs

from responses_ref.model.tokens import Generator
from responses_ref.protocol.resource import MAX_NUMBER

MAX_DEPTH = 16
MAX_KEYS = 5_000
MAX_ITEMS = 32
MAX_LENGTH = 1_000

Schema: TypeAlias = dict[str, Any]

FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "email": "user@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def arguments(schema: object, random: Generator) -> dict[str, Any]:
    """Make the arguments of one call: a JSON object, the same for the same schema and seed."""
    value = _Maker(schema, random).value(schema, 0)
    return value if isinstance(value, dict) else {}


@attrs.define
class _Maker:
    """One call's values. ``left`` is how many keys and elements of schemas may still be looked at."""

    root: object
    random: Generator
    left: int = MAX_KEYS

    def value(self, schema: object, depth: int) -> Any:
        flat = self.flat(schema, depth)
        if "const" in flat:
            return flat["const"]
        if options := _get(flat, "enum", []):
            return self.random.choice(options)
        if "default" in flat:
            return flat["default"]
        kind = _kind(flat)
        return MAKERS[kind](self, flat, depth + 1) if isinstance(kind, str) and kind in MAKERS else {}

    def flat(self, schema: object, depth: int) -> Schema:
        """The schema with all that it refers to merged in; its own keys win."""
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self.left < 0:
            return {}
        self.left -= 1 + sum(len(part) if isinstance(part, dict | list) else 1 for part in schema.values())
        parts = [self.flat(part, depth + 1) for part in self.parts(schema)]
        return reduce(_merge, [*parts, schema], {})

    def parts(self, schema: Schema) -> Iterator[object]:
        yield _resolve(self.root, schema.get("$ref"))
        yield from _get(schema, "allOf", [])
        for key in ("anyOf", "oneOf"):
            yield from sorted(_get(schema, key, []), key=lambda branch: _kind(branch) == "null")[:1]


def _object(maker: _Maker, schema: Schema, depth: int) -> Schema:
    properties = _get(schema, "properties", {})
    names = _get(schema, "required", [])[: max(maker.left, 0)]
    return {name: maker.value(properties.get(name), depth) for name in names if isinstance(name, str)}


def _array(maker: _Maker, schema: Schema, depth: int) -> list[Any]:
    count = min(_whole(schema, "minItems", 0), MAX_ITEMS)
    return [maker.value(schema.get("items"), depth) for _ in range(count)]


def _string(maker: _Maker, schema: Schema, depth: int) -> str:
    if text := FORMATS.get(_get(schema, "format", "")):
        return text
    least = min(_whole(schema, "minLength", 0), MAX_LENGTH)
    # No word is shorter than three letters, so each but the first adds at least four.
    text = maker.random.words(1 + least // 4)
    return text[: _whole(schema, "maxLength", MAX_LENGTH)]


def _number(maker: _Maker, schema: Schema, depth: int) -> float:
    """A whole number if one fits, else one between the bounds."""
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    low = max(_real(schema, key, -MAX_NUMBER) for key in ("minimum", "exclusiveMinimum"))
    high = min(_real(schema, key, MAX_NUMBER) for key in ("maximum", "exclusiveMaximum"))
    value = min(max(maker.random.below(100), math.ceil(low)), math.floor(high))
    value += (value == above) - (value == below)
    fits = low <= value <= high and value not in (above, below)
    return value if fits or _kind(schema) == "integer" else (low + high) / 2


MAKERS: dict[str, Callable[[_Maker, Schema, int], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _number,
    "number": _number,
    "boolean": lambda maker, schema, depth: True,
    "null": lambda maker, schema, depth: None,
}


def _kind(schema: object) -> object:
    """The type a value should have. Without one ``{}`` fits: the other keywords say nothing of objects."""
    kind = schema.get("type", "object") if isinstance(schema, dict) else "object"
    return next((one for one in kind if one != "null"), "null") if isinstance(kind, list) else kind


def _merge(under: Schema, over: Schema) -> Schema:
    properties = {**_get(under, "properties", {}), **_get(over, "properties", {})}
    required = [*_get(under, "required", []), *_get(over, "required", [])]
    return {**under, **over, "properties": properties, "required": required}


def _resolve(root: object, pointer: object) -> object:
    """Follow a JSON pointer within the schema: ``#`` or ``#/$defs/name``."""
    start, *steps = pointer.split("/") if isinstance(pointer, str) else [""]
    found = root if start == "#" else None
    for step in steps:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _get(schema: Schema, key: str, default: Any) -> Any:
    """What a keyword says, if it is of the default's type."""
    value = schema.get(key)
    return value if isinstance(value, type(default)) else default


def _real(schema: Schema, key: str, default: float) -> float:
    value: Any = schema.get(key)
    return value if type(value) in (int, float) and -MAX_NUMBER <= value <= MAX_NUMBER else default


def _whole(schema: Schema, key: str, default: int) -> int:
    return max(math.floor(_real(schema, key, default)), 0)
