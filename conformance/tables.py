"""Field tables and error tables of the prose (INTERPRETING.md section 2): text -> `Table` and `ErrorRow`."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import attrs

from conformance.places import CLAUSE_ID, Malformed, Place

SIMPLE: Final = frozenset(("string", "integer", "number", "boolean", "null", "object", "array", "any"))


@attrs.frozen
class Simple:
    """A JSON kind, see ``SIMPLE``."""

    kind: str

    def __str__(self) -> str:
        return self.kind


@attrs.frozen
class Literal:
    value: Any

    def __str__(self) -> str:
        return json.dumps(self.value)


@attrs.frozen
class ArrayOf:
    of: Type

    def __str__(self) -> str:
        return f"array of {self.of}"


@attrs.frozen
class MapOf:
    of: Type

    def __str__(self) -> str:
        return f"map of {self.of}"


@attrs.frozen
class Named:
    """Another table, or a union of tables told apart by ``type``."""

    name: str

    def __str__(self) -> str:
        return self.name


@attrs.frozen
class Choice:
    options: tuple[Type, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.options))


Type = Simple | Literal | ArrayOf | MapOf | Named | Choice


@attrs.frozen
class Field:
    name: str
    type: Type
    presence: str  # "always", "optional", "never" or a profile in lower case
    meaning: str
    line: int


@attrs.frozen
class Table:
    """``kind`` is ``event``, ``client``, ``every``, ``object``, or the name of a tagged union."""

    kind: str
    names: tuple[str, ...]
    clauses: tuple[str, ...]
    fields: tuple[Field, ...]
    place: Place


@attrs.frozen
class ErrorRow:
    """One code; a column that is not looked at is None (``param``: ``""`` means null or absent)."""

    code: str
    status: int | None
    type: str | None
    param: str | None
    message: str | None
    clauses: tuple[str, ...]
    place: Place


@attrs.frozen
class Caption:
    kind: str
    names: tuple[str, ...]
    clauses: tuple[str, ...]
    line: int


_CAPTION: Final = re.compile(
    rf"\*\*(Fields of|Error codes)\b(.*?)\*\*\s*(?:\[({CLAUSE_ID}(?:\s+{CLAUSE_ID})*)\])?\s*"
)
_PRESENCE: Final = re.compile(r"(always|optional|never|[a-z]+)(?:,.*)?", re.DOTALL)


def read_caption(line: int, text: str) -> Caption | None:
    """The caption of an executable table, or None if the line is something else."""
    if not text.startswith(("**Fields of", "**Error codes")):
        return None
    found = _CAPTION.fullmatch(text)
    if not found:
        raise Malformed(line, "a caption is `**Fields of …** [RWS-…]`, and nothing behind it")
    clauses = tuple((found[3] or "").split())
    if found[1] == "Error codes":
        return Caption("errors", (), clauses, line)
    kind, names = _read_names(line, found[2].strip())
    return Caption(kind, names, clauses, line)


def _read_names(line: int, text: str) -> tuple[str, tuple[str, ...]]:
    if text == "every event":
        return "every", ("*",)
    names = tuple(re.findall(r"`([^`]+)`", text))
    words = re.sub(r"`[^`]+`", " ", text).replace(",", " ").replace(" and ", " ").split()
    if not names:
        raise Malformed(line, "the caption of a field table names no object in backticks")
    if not words:
        event = all(name == "error" or "." in name for name in names)
        return ("event" if event else "object"), names
    if words[:2] == ["the", "client"] and words[2:] in (["event"], ["events"]):
        return "client", names
    if len(words) == 2 and words[0] == "the":
        return words[1], names
    raise Malformed(line, f"cannot read the caption: Fields of {text}")


def split_row(text: str) -> list[str]:
    """The cells of a line of a markdown table; ``\\|`` is a bar."""
    inner = text.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def read_fields(file: str, caption: Caption, rows: list[tuple[int, list[str]]]) -> Table:
    head = [cell.lower() for cell in rows[0][1]]
    for needed in ("field", "type", "presence"):
        if needed not in head:
            raise Malformed(rows[0][0], f"a field table needs a column `{needed}`")
    fields: dict[str, Field] = {}
    for line, cells in rows[2:]:
        if len(cells) != len(head):
            raise Malformed(line, f"the row has {len(cells)} cells, the table {len(head)} columns")
        field = _read_field(line, dict(zip(head, cells, strict=True)))
        if field.name in fields:
            raise Malformed(line, f"the field `{field.name}` stands there twice")
        fields[field.name] = field
    return Table(
        caption.kind, caption.names, caption.clauses, tuple(fields.values()), Place(file, caption.line)
    )


def _read_field(line: int, row: dict[str, str]) -> Field:
    presence = _PRESENCE.fullmatch(row["presence"].strip("`"))
    if not presence:
        raise Malformed(line, f"presence is always, optional, never or a profile: {row['presence']!r}")
    name = row["field"].strip("`")
    return Field(name, read_type(line, row["type"]), presence[1], row.get("meaning", ""), line)


def read_errors(file: str, caption: Caption, rows: list[tuple[int, list[str]]]) -> list[ErrorRow]:
    head = [cell.lower() for cell in rows[0][1]]
    if "code" not in head:
        raise Malformed(rows[0][0], "an error table needs a column `code`")
    out = []
    for line, cells in rows[2:]:
        if len(cells) != len(head):
            raise Malformed(line, f"the row has {len(cells)} cells, the table {len(head)} columns")
        row = {name: cell.strip("`") for name, cell in zip(head, cells, strict=True)}
        status = row.get("status", "any")
        if status != "any" and not status.isdecimal():
            raise Malformed(line, f"{status!r} is no status")
        own = tuple(re.findall(CLAUSE_ID, row.get("clause", "")))
        out.append(
            ErrorRow(
                code=row["code"],
                status=None if status == "any" else int(status),
                type=_looked_at(row.get("type")),
                param=_looked_at(row.get("param")),
                message=_looked_at(row.get("message")) or None,
                clauses=own or caption.clauses,
                place=Place(file, line),
            )
        )
    return out


def _looked_at(cell: str | None) -> str | None:
    if cell is None or cell == "any":
        return None
    return "" if cell == "none" else cell


# --- types ------------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<json>"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?)|`?(?P<name>[A-Za-z_][\w.-]*)`?|(?P<mark>[()]))"""
)


def read_type(line: int, text: str) -> Type:
    """A type cell; raises `Malformed`."""
    bare = text.strip().strip("`") if text.count("`") == 2 else text.strip()
    tokens, at = [], 0
    while at < len(bare):
        found = _TOKEN.match(bare, at)
        if not found:
            raise Malformed(line, f"cannot read the type {text!r}")
        tokens.append((found.lastgroup or "", found[found.lastgroup or 0].strip()))
        at = found.end()
    parsed, rest = _choice(line, tokens)
    if rest or not tokens:
        raise Malformed(line, f"cannot read the type {text!r}")
    return parsed


Tokens = list[tuple[str, str]]


def _choice(line: int, tokens: Tokens) -> tuple[Type, Tokens]:
    first, rest = _single(line, tokens)
    options = [first]
    while rest and rest[0] == ("name", "or"):
        other, rest = _single(line, rest[1:])
        options.append(other)
    return (options[0] if len(options) == 1 else Choice(tuple(options))), rest


def _single(line: int, tokens: Tokens) -> tuple[Type, Tokens]:
    if not tokens:
        raise Malformed(line, "a type ends too early")
    (kind, text), rest = tokens[0], tokens[1:]
    if kind == "json":
        return Literal(json.loads(text)), rest
    if (kind, text) == ("mark", "("):
        inner, rest = _choice(line, rest)
        if rest[:1] != [("mark", ")")]:
            raise Malformed(line, "a bracket in a type is not closed")
        return inner, rest[1:]
    if kind != "name" or text in ("or", "of"):
        raise Malformed(line, f"unexpected in a type: {text}")
    if text in ("array", "map") and rest[:1] == [("name", "of")]:
        inner, rest = _single(line, rest[1:])
        return (ArrayOf(inner) if text == "array" else MapOf(inner)), rest
    if text in ("true", "false"):
        return Literal(text == "true"), rest
    return (Simple(text) if text in SIMPLE else Named(text)), rest
