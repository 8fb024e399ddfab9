"""The transcript language: a fenced block of text -> a `Case` (INTERPRETING.md section 3).

Reading is strict: an unknown verb, a malformed pattern, a name that nothing bound or a tag outside ``covers``
is an error with its line. Nothing is run here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from conformance import match
from conformance.places import CLAUSE_ID, Malformed, Place
from conformance.verbs import SENDS, Step, cut_tags, read_step, seconds

# Bound before the first line runs; see INTERPRETING.md section 3.4.
GIVEN: Final = frozenset({"host", "path", "root", "key", "authorization", "model", "i"})


@attrs.frozen
class Either:
    branches: tuple[tuple[Node, ...], ...]
    line: int
    text: str
    tags: tuple[str, ...] = ()


@attrs.frozen
class Repeat:
    times: int
    body: tuple[Node, ...]
    line: int


Node = Step | Either | Repeat


@attrs.frozen
class Case:
    """A transcript: what to do, which clauses it is for, what a target must offer."""

    id: str
    place: Place
    covers: tuple[str, ...]
    steps: tuple[Node, ...]
    needs: tuple[str, ...] = ()
    title: str = ""
    deadline: float = 5.0
    source: str = attrs.field(default="", repr=False)

    def walk(self) -> Iterator[Step | Either]:
        """Every line, in the order of the text, through all blocks."""
        return walk(self.steps)

    def tags(self) -> set[str]:
        return {tag for step in self.walk() for tag in step.tags}


def walk(nodes: Iterable[Node]) -> Iterator[Step | Either]:
    for node in nodes:
        if isinstance(node, Step):
            yield node
            continue
        if isinstance(node, Either):
            yield node
        for inner in node.branches if isinstance(node, Either) else (node.body,):
            yield from walk(inner)


def parse(file: str, first_line: int, lines: list[str]) -> Case:
    """The case in a fenced block whose first inner line has the number ``first_line``; raises `Malformed`."""
    joined = list(_join(first_line, lines))
    header, body = _split_header(joined)
    reader = _Reader(body)
    steps = reader.nodes(())
    case = _case(file, first_line, header, steps, "\n".join(lines))
    _check_tags(case)
    _check_names(case.steps, set(GIVEN))
    return case


# --- lines ------------------------------------------------------------------------------------------

Line = tuple[int, str]
_HEADER: Final = re.compile(r"(id|title|covers|needs|deadline):\s*(.*)")


def _join(first: int, lines: list[str]) -> Iterator[Line]:
    """Lines with their numbers, continuations joined, comments and blank lines left out."""
    held: Line | None = None
    for number, text in enumerate(lines, first):
        if not text.strip() or text.startswith("#"):
            continue
        if text[0].isspace():
            if held is None:
                raise Malformed(number, "a continuation line without a line before it")
            held = (held[0], f"{held[1]} {text.strip()}")
            continue
        if held:
            yield held
        held = (number, text.rstrip())
    if held:
        yield held


def _split_header(lines: list[Line]) -> tuple[dict[str, Line], list[Line]]:
    header: dict[str, Line] = {}
    for place, (number, text) in enumerate(lines):
        found = _HEADER.fullmatch(text)
        if not found:
            return header, lines[place:]
        if found[1] in header:
            raise Malformed(number, f"`{found[1]}:` stands there twice")
        header[found[1]] = (number, found[2].strip())
    return header, []


def _case(file: str, first: int, header: dict[str, Line], steps: tuple[Node, ...], source: str) -> Case:
    for name in ("id", "covers"):
        if not header.get(name, (0, ""))[1]:
            raise Malformed(first, f"the transcript has no `{name}:`")
    at, name = header["id"]
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise Malformed(at, f"{name!r} is no case id (lower case, digits, dashes)")
    at, covers = header["covers"]
    for clause in covers.split():
        if not re.fullmatch(CLAUSE_ID, clause):
            raise Malformed(at, f"{clause!r} in `covers:` is no clause id")
    if not steps:
        raise Malformed(first, "the transcript does nothing")
    return Case(
        id=name,
        place=Place(file, first),
        covers=tuple(covers.split()),
        steps=steps,
        needs=tuple(header.get("needs", (0, ""))[1].split()),
        title=header.get("title", (0, ""))[1],
        deadline=seconds(*header.get("deadline", (0, "5"))),
        source=source,
    )


# --- blocks -----------------------------------------------------------------------------------------

_DECIDES: Final = frozenset({"expect", "ended", "opened", "answered"})


class _Reader:
    """Walks over the joined lines; blocks call it again for their inside."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self.at = 0

    def nodes(self, stop: tuple[str, ...], depth: str = "") -> tuple[Node, ...]:
        out: list[Node] = []
        while self.at < len(self.lines):
            number, text = self.lines[self.at]
            if text in stop:
                return tuple(out)
            self.at += 1
            out.append(self.node(number, text, depth))
        if stop:
            raise Malformed(self.lines[-1][0], f"a block is not closed by `{stop[-1]}`")
        return tuple(out)

    def node(self, number: int, text: str, depth: str) -> Node:
        bare, tags = cut_tags(text)
        first = bare.split(" ", 1)[0]
        if first in ("or", "end"):
            raise Malformed(number, f"`{first}` outside of a block")
        if first not in ("either", "repeat"):
            return read_step(number, text)
        if first in depth:
            raise Malformed(number, f"`{first}` inside of `{first}`")
        if first == "either":
            return self.either(number, text, tags, depth + first)
        return self.repeat(number, bare, depth + first)

    def either(self, number: int, text: str, tags: tuple[str, ...], depth: str) -> Either:
        branches: list[tuple[Node, ...]] = []
        while True:
            start = self.at
            branch = self.nodes(("or", "end"), depth)
            if not branch or not isinstance(branch[0], Step) or branch[0].verb not in _DECIDES:
                at = self.lines[min(start, len(self.lines) - 1)][0]
                raise Malformed(at, "a branch begins with `<`, `= close`, `<open` or `<http`")
            branches.append(branch)
            word = self.lines[self.at][1]
            self.at += 1
            if word == "end":
                return Either(tuple(branches), number, text, tags)

    def repeat(self, number: int, text: str, depth: str) -> Repeat:
        found = re.fullmatch(r"repeat (\d+)", text)
        if not found or not 1 <= int(found[1]) <= 10_000:
            raise Malformed(number, "`repeat` needs a count from 1 to 10000")
        body = self.nodes(("end",), depth)
        self.at += 1
        return Repeat(int(found[1]), body, number)


# --- checks over the whole case ---------------------------------------------------------------------


def _check_tags(case: Case) -> None:
    for step in case.walk():
        for tag in step.tags:
            if tag not in case.covers:
                raise Malformed(step.line, f"the tag {tag} is not in `covers:`")


def _check_names(nodes: Iterable[Node], bound: set[str]) -> set[str]:
    """Every name is bound (on some way through the case) before it is used; gives the names bound."""
    for node in nodes:
        if isinstance(node, Either):
            for branch in node.branches:
                bound = bound | _check_names(branch, set(bound))
        elif isinstance(node, Repeat):
            bound = bound | _check_names(node.body, set(bound))
        else:
            sent = node.verb in SENDS
            used = set().union(*(match.names_used(part, sent=sent) for part in (node.value, node.extra)))
            used |= match.names_used(list(node.words), sent=False)
            own = set() if sent else match.names_bound([node.value, node.extra])
            if missing := sorted(used - bound - own):
                raise Malformed(node.line, f"${missing[0]} is used but never bound")
            bound = bound | own
    return bound
