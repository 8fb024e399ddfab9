"""Whether a value fits a JSON Schema, as far as `report.schema.json` uses that language.

The suite needs nothing but what a server needs; a validator of the whole language is for its tests only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from conformance.match import same, show

Schema = dict[str, Any]

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def faults(schema: Schema, value: Any) -> Iterator[str]:
    """What does not fit, each with its path."""
    return _faults(schema, value, "the report", schema)


def _faults(schema: Schema, value: Any, path: str, root: Schema) -> Iterator[str]:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    fault = _fault(schema, value)
    if fault:
        yield f"{path} must be {fault}, and is {show(value, 60)}"
    elif isinstance(value, dict):
        yield from _members(schema, value, path, root)
    elif isinstance(value, list) and "items" in schema:
        for place, inner in enumerate(value):
            yield from _faults(schema["items"], inner, f"{path}[{place}]", root)


def _fault(schema: Schema, value: Any) -> str | None:
    """What the value itself should be, and is not."""
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted or []
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if names and not any(_is(value, name) for name in names):
        return f"of type {' or '.join(names)}"
    if allowed is not None and not any(same(value, one) for one in allowed):
        return f"one of {show(allowed)}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"like {schema['pattern']}"
    if "minimum" in schema and not value >= schema["minimum"]:
        return f"at least {schema['minimum']}"
    return None


def _is(value: Any, name: str) -> bool:
    """Whether the value is of that type; 1.0 is an integer, and true is no number."""
    if name == "integer" and type(value) is float:
        return value.is_integer()
    return type(value) in _TYPES[name]


def _members(schema: Schema, value: dict[str, Any], path: str, root: Schema) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path} lacks {name}"
    known, other = schema.get("properties", {}), schema.get("additionalProperties")
    for name, inner in value.items():
        if (kind := known.get(name, other)) is not None:
            yield from _faults(kind, inner, f"{path}.{name}", root)
