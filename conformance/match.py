"""Patterns against JSON values: subset match with bindings (INTERPRETING.md section 3.5).

A pattern is itself a JSON value. ``match`` binds names into the mapping it is given, and only if the whole
pattern matches. ``check`` finds what is malformed in a pattern before anything runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs

Names = dict[str, Any]
GAP: Final = "<...>"


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()


class PatternError(ValueError):
    """A pattern (or a text with names in it) that means nothing."""


@attrs.frozen
class Mismatch:
    """Why a value does not match: the place inside the value, what was wanted there, what is there."""

    path: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.path or 'the message'}: expected {self.expected}, got {self.got}"


def match(pattern: Any, value: Any, names: Names) -> Mismatch | None:
    """None if ``value`` matches; the names that the pattern binds are then in ``names``."""
    trial = dict(names)
    problem = _match(pattern, value, trial, "")
    if problem is None:
        names.update(trial)
    return problem


def _match(pattern: Any, value: Any, names: Names, path: str) -> Mismatch | None:
    if isinstance(pattern, str):
        return _match_string(pattern, value, names, path)
    if isinstance(pattern, dict):
        return _match_object(pattern, value, names, path)
    if isinstance(pattern, list):
        return _match_array(pattern, value, names, path)
    return None if same(pattern, value) else _miss(path, show(pattern), value)


def _match_object(pattern: dict[str, Any], value: Any, names: Names, path: str) -> Mismatch | None:
    if not isinstance(value, dict):
        return _miss(path, "an object", value)
    for key, inner in pattern.items():
        problem = _match(inner, value.get(key, ABSENT), names, f"{path}.{key}" if path else key)
        if problem:
            return problem
    return None


def _match_array(pattern: list[Any], value: Any, names: Names, path: str) -> Mismatch | None:
    if not isinstance(value, list):
        return _miss(path, "an array", value)
    if GAP in pattern:
        trial = dict(names)
        if not _gap_match(pattern, value, trial, path):
            return _miss(path, show(pattern), value)
        names.update(trial)
        return None
    if len(pattern) != len(value):
        return _miss(path, f"{len(pattern)} elements", value)
    for place, (inner, element) in enumerate(zip(pattern, value, strict=True)):
        problem = _match(inner, element, names, f"{path}[{place}]")
        if problem:
            return problem
    return None


def _gap_match(pattern: list[Any], value: list[Any], names: Names, path: str) -> bool:
    if not pattern:
        return not value
    head, *rest = pattern
    if head == GAP:
        return any(_gap_match(rest, value[skip:], names, path) for skip in range(len(value) + 1))
    trial = dict(names)
    if not value or _match(head, value[0], trial, path) or not _gap_match(rest, value[1:], trial, path):
        return False
    names.update(trial)
    return True


_BOUND: Final = re.compile(r"\$([A-Za-z_]\w*)(?::(<.*))?", re.DOTALL)
_MATCHER: Final = re.compile(r"<([a-z]+)(?::(.*))?>", re.DOTALL)
_INSIDE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_]\w*)\}")


def _match_string(pattern: str, value: Any, names: Names, path: str) -> Mismatch | None:
    bound = _BOUND.fullmatch(pattern)
    if bound:
        return _match_name(bound[1], bound[2], value, names, path)
    matcher = _MATCHER.fullmatch(pattern)
    if matcher:
        test, _ = _MATCHERS[matcher[1]]
        return (
            None if test(value, matcher[2] or "", names) else _miss(path, interpolate(pattern, names), value)
        )
    wanted = literal(pattern, names)
    return None if value == wanted else _miss(path, show(wanted), value)


def _match_name(name: str, also: str | None, value: Any, names: Names, path: str) -> Mismatch | None:
    if also is not None:
        problem = _match_string(also, value, names, path)
        if problem:
            return problem
    if value is ABSENT:
        return _miss(path, "a value", value)
    if name not in names:
        names[name] = value
        return None
    return None if same(names[name], value) else _miss(path, f"{show(names[name])} (${name})", value)


def same(left: Any, right: Any) -> bool:
    """JSON equality: ``true`` is not 1, and 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def literal(text: str, names: Names) -> str:
    """A string of a pattern or a message with ``$$`` undone and ``${x}`` filled in."""
    if text.startswith("$$") and not text.startswith("$${"):
        text = text[1:]
    elif text.startswith("$<"):
        return text[1:]
    return interpolate(text, names)


def interpolate(text: str, names: Names) -> str:
    def put(found: re.Match[str]) -> str:
        return "${" if found[1] is None else as_text(lookup(found[1], names))

    return _INSIDE.sub(put, text) if "${" in text else text


def lookup(name: str, names: Names) -> Any:
    if name not in names:
        raise PatternError(f"the name ${name} is not bound")
    return names[name]


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# --- matchers ---------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _length(value: Any, arg: str, names: Names) -> bool:
    if not isinstance(value, str | list):
        return False
    least = arg.removeprefix(">=")
    return len(value) >= int(least) if least != arg else len(value) == int(arg)


_OPERAND: Final = re.compile(r"\$([A-Za-z_]\w*)(?:([+-])(\d+))?|(-?\d+(?:\.\d+)?)")


def _operand(text: str, names: Names) -> Any:
    found = _OPERAND.fullmatch(text)
    if not found:
        raise PatternError(f"{text!r} is neither a number nor a name")
    if found[4]:
        return float(found[4])
    value = lookup(found[1], names)
    if not found[2]:
        return value
    # What a server has sent in place of a number equals nothing, and is in no order with anything.
    return value + int(found[2] + found[3]) if _is_number(value) else ABSENT


def _ordered(compare: Callable[[float, float], bool]) -> Callable[[Any, str, Names], bool]:
    def test(value: Any, arg: str, names: Names) -> bool:
        other = _operand(arg, names)
        return _is_number(value) and _is_number(other) and compare(value, other)

    return test


def _regex(value: Any, arg: str, names: Names) -> bool:
    return isinstance(value, str) and re.fullmatch(arg, value, re.DOTALL) is not None


def _contains(value: Any, arg: str, names: Names) -> bool:
    return isinstance(value, str) and interpolate(arg, names) in value


def _plain(test: Callable[[Any], bool]) -> Callable[[Any, str, Names], bool]:
    return lambda value, _arg, _names: test(value)


# name -> (test, whether it takes an argument)
_MATCHERS: Final[dict[str, tuple[Callable[[Any, str, Names], bool], bool]]] = {
    "any": (_plain(lambda value: value is not ABSENT), False),
    "int": (_plain(_is_int), False),
    "num": (_plain(_is_number), False),
    "str": (_plain(lambda value: isinstance(value, str)), False),
    "bool": (_plain(lambda value: isinstance(value, bool)), False),
    "obj": (_plain(lambda value: isinstance(value, dict)), False),
    "list": (_plain(lambda value: isinstance(value, list)), False),
    "id": (_plain(lambda value: isinstance(value, str) and value != ""), False),
    "absent": (_plain(lambda value: value is ABSENT), False),
    "none": (_plain(lambda value: value is ABSENT or value is None), False),
    "re": (_regex, True),
    "has": (_contains, True),
    "len": (_length, True),
    "eq": (lambda value, arg, names: same(value, _operand(arg, names)), True),
    "not": (lambda value, arg, names: value is not ABSENT and not same(value, _operand(arg, names)), True),
    "gt": (_ordered(lambda a, b: a > b), True),
    "ge": (_ordered(lambda a, b: a >= b), True),
    "lt": (_ordered(lambda a, b: a < b), True),
    "le": (_ordered(lambda a, b: a <= b), True),
    "in": (lambda value, arg, _names: isinstance(value, str) and value in arg.split(","), True),
}


# --- checking before the run ------------------------------------------------------------------------


def check(pattern: Any) -> None:
    """Raise `PatternError` for a matcher that does not exist or has a wrong argument."""
    for text in strings(pattern):
        bound = _BOUND.fullmatch(text)
        inner = bound[2] if bound else text
        if inner:
            _check_matcher(inner, must_be_one=bound is not None)


def _check_matcher(text: str, *, must_be_one: bool) -> None:
    found = _MATCHER.fullmatch(text)
    if text == GAP:
        return
    if found is None:
        if must_be_one:
            raise PatternError(f"{text!r} is no matcher")
        return
    name, arg = found[1], found[2]
    if name not in _MATCHERS:
        raise PatternError(f'there is no matcher <{name}> (the literal text is written "${text}")')
    if _MATCHERS[name][1] != (arg is not None):
        raise PatternError(f"<{name}> {'needs' if arg is None else 'takes no'} argument")
    _check_argument(name, arg or "")


def _check_argument(name: str, arg: str) -> None:
    if name == "re":
        try:
            re.compile(arg)
        except re.error as exc:
            raise PatternError(f"<re:{arg}>: {exc}") from None
    elif name == "len" and not arg.removeprefix(">=").isdecimal():
        raise PatternError(f"<len:{arg}> needs a number")
    elif name in ("eq", "not", "gt", "ge", "lt", "le") and not _OPERAND.fullmatch(arg):
        raise PatternError(f"<{name}:{arg}> needs a number, $x, $x+N or $x-N")


_USED: Final = re.compile(r"(?<!\$)\$\{([A-Za-z_]\w*)\}|<[a-z]+:\$([A-Za-z_]\w*)")


def names_bound(pattern: Any) -> set[str]:
    """The names that a pattern can bind."""
    return {found[1] for text in strings(pattern) if (found := _BOUND.fullmatch(text))}


def names_used(value: Any, *, sent: bool) -> set[str]:
    """The names that must be bound before: all in what is sent, those inside of texts in a pattern."""
    used = {name for text in strings(value) for pair in _USED.findall(text) for name in pair if name}
    return used | names_bound(value) if sent else used


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def _miss(path: str, expected: str, value: Any) -> Mismatch:
    return Mismatch(path, expected, show(value))


def show(value: Any, limit: int = 200) -> str:
    """A value as text for people, cut at ``limit`` characters."""
    text = repr(value) if value is ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"
