"""What a transcript sends: names filled in, helpers expanded (INTERPRETING.md section 3.4)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from conformance.match import Names, PatternError, as_text, literal, lookup

_NAME: Final = re.compile(r"\$([A-Za-z_]\w*)")


def fill(value: Any, names: Names) -> Any:
    """The JSON value to send; raises `PatternError` for a name that is not bound."""
    if isinstance(value, str):
        found = _NAME.fullmatch(value)
        return lookup(found[1], names) if found else literal(value, names)
    if isinstance(value, list):
        return [fill(inner, names) for inner in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (helper := _HELPERS.get(next(iter(value)))):
        return helper(next(iter(value.values())), names)
    return {key: fill(inner, names) for key, inner in value.items()}


def message(value: Any, names: Names) -> str:
    """The text of a ``>`` line: filled in, ``"model": "scripted"`` replaced by the target's model."""
    filled = fill(value, names)
    if isinstance(filled, dict) and filled.get("model") == "scripted":
        filled = {**filled, "model": names["model"]}
    return compact(filled)


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text(value: Any, names: Names) -> str:
    """The text of a ``>text`` or ``>raw`` line."""
    filled = fill(value, names)
    if not isinstance(filled, str):
        raise PatternError("this line sends a string, and nothing else")
    return filled


def _repeat(arg: Any, names: Names) -> str:
    piece, count = _pair(arg)
    return as_text(fill(piece, names)) * count


def _list(arg: Any, names: Names) -> list[Any]:
    piece, count = _pair(arg)
    return [fill(piece, {**names, "i": place}) for place in range(count)]


def _concat(arg: Any, names: Names) -> str:
    return "".join(as_text(fill(piece, names)) for piece in arg)


def _pair(arg: Any) -> tuple[Any, int]:
    if not isinstance(arg, list) or len(arg) != 2 or not isinstance(arg[1], int):
        raise PatternError("$repeat and $list take [VALUE, N]")
    return arg[0], arg[1]


_HELPERS: Final[dict[str, Callable[[Any, Names], Any]]] = {
    "$repeat": _repeat,
    "$list": _list,
    "$concat": _concat,
    "$json": lambda arg, names: compact(fill(arg, names)),
}
