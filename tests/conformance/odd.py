"""Values that nobody expects, and how they come into the place of others."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

# What can stand in the place of any value: nothing of it may be used as a key before it was looked at.
ODD: tuple[Any, ...] = (
    None,
    True,
    [],
    ["r1"],
    {},
    {"id": []},
    0.0,
    1.5,
    -1,
    10**400,
    [[[{}]]],
    "r1",
    "",
    "\ud800\0",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*path, key)
        yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The same with something else in one place."""
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return changed
