"""Scripts, and how far a context has come in one (spec annex A0).

A script is a text part of a user message that begins with a known ``verb:``;
the newest one in the context counts.  Each line is ``verb: rest``, where one
space after the colon belongs to it; lines of spaces and tabs do not count, and
neither does a carriage return at a line's end.  What a script cannot mean is
refused, never dropped: a line behind one that ends the response, a ``next:`` that
is not behind a call, a ``reject:`` behind something already said in its response.

How far a script has come is the number of tool outputs in the context after its
message, so a server that loses context is seen to lose it.  Once an assistant
message stands after the last of them, the script is done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import groupby

import attrs

from responses_ref.protocol.errors import Refused, problem
from responses_ref.protocol.items import CustomToolCallOutput, FunctionCallOutput, InputText, Item, Message

MAX_CHARACTERS = 200_000
MAX_LINES = 4_096
MAX_TOKENS = 200_000
MAX_SECONDS = 600

TEXT = r"(?P<text>.*)"
NAME_AND_TEXT = r"[ \t]*(?P<name>[^ \t]+)[ \t]*(?P<text>.*)"
SECONDS = r"[ \t]*(?P<number>[0-9]{1,3}(?:\.[0-9]{1,9})?)[ \t]*"

# Per verb: what follows the colon, as a pattern and in words.
VERBS: dict[str, tuple[str, str]] = {
    "say": (TEXT, "a text"),
    "call": (NAME_AND_TEXT, "a name and nothing or a JSON object"),
    "custom": (NAME_AND_TEXT, "a name and a text"),
    "next": (r"[ \t]*", "nothing"),
    "think": (TEXT, "a text"),
    "refuse": (TEXT, "a text"),
    "tokens": (r"[ \t]*(?P<number>[1-9][0-9]{0,8})[ \t]*", "a whole number from 1"),
    "pause": (SECONDS, f"a number of seconds up to {MAX_SECONDS}"),
    "every": (SECONDS, f"a number of seconds up to {MAX_SECONDS}"),
    "fail": (NAME_AND_TEXT, "a code"),
    "error": (NAME_AND_TEXT, "a code"),
    "incomplete": (r"[ \t]*(?P<name>max_output_tokens|max_messages|content_filter)[ \t]*", "a known reason"),
    "reject": (r"[ \t]*(?P<number>[45][0-9]{2})[ \t]" + NAME_AND_TEXT, "a status from 400 and a code"),
    "compact": (r"[ \t]*", "nothing"),
}
CALLS = frozenset({"call", "custom"})
ENDS = frozenset({"fail", "error", "incomplete", "reject"})
JOINED = frozenset({"say", "think", "refuse"})
WAITS = frozenset({"pause", "every"})

# Behind which verbs a line may stand, for those that cannot stand anywhere; "" is the script's start.
BEHIND = {"next": CALLS, "reject": CALLS | {"", "next"}}

FIRST = re.compile(f"(?:{'|'.join(VERBS)}):")


@attrs.frozen
class Line:
    """One line: ``name`` is a tool, a code or a reason; ``number`` a count, a status or seconds.

    Neighbouring ``say:`` lines are one, and so are ``think:`` and ``refuse:`` lines.
    """

    verb: str
    text: str = ""
    name: str = ""
    number: float = attrs.field(default=0, converter=float)


@attrs.frozen
class Script:
    """A checked script; ``starts[n]`` is where it goes on after ``n`` calls were answered."""

    lines: tuple[Line, ...]
    starts: tuple[int, ...]


@attrs.frozen
class Progress:
    """What a continuation extends.

    ``outputs`` is the number of tool outputs since the script's message, ``rounds``
    since the newest user message; ``spoken`` says that an assistant message stands
    after the script's message and the last output.
    """

    script: Script | None = None
    outputs: int = 0
    spoken: bool = False
    rounds: int = 0

    @property
    def rest(self) -> tuple[Line, ...]:
        """The lines from where the script goes on: none without a script, or when it is done."""
        if self.script is None or self.spoken or self.outputs >= len(self.script.starts):
            return ()
        return self.script.lines[self.script.starts[self.outputs] :]  # RWS-SIM-007


def advance(progress: Progress, items: Sequence[Item]) -> Progress:
    """Extend a context's progress by its next items, input or output.

    Raises:
        Refused: ``invalid_script``, when the newest script among the items cannot be played.
    """
    for at in reversed(range(len(items))):  # RWS-SIM-001
        if (text := _script_in(items[at])) is not None:
            return reduce(_step, items[at + 1 :], Progress(parse(text)))
    return reduce(_step, items, progress)


def _script_in(item: Item) -> str | None:
    content = item.content if isinstance(item, Message) and item.role == "user" else ()
    texts = (part.text for part in reversed(content) if isinstance(part, InputText))
    return next((text for text in texts if FIRST.match(text)), None)


def _step(progress: Progress, item: Item) -> Progress:
    match item:
        case Message(role="user"):
            return attrs.evolve(progress, rounds=0) if progress.rounds else progress
        case Message(role="assistant"):
            return progress if progress.spoken else attrs.evolve(progress, spoken=True)  # RWS-SIM-008
        case FunctionCallOutput() | CustomToolCallOutput():
            return Progress(progress.script, progress.outputs + 1, spoken=False, rounds=progress.rounds + 1)
    return progress


def parse(text: str) -> Script:
    """Read a whole script.

    Raises:
        Refused: ``invalid_script``, with the number of the line that is wrong.
    """
    if len(text) > MAX_CHARACTERS or text.count("\n") >= MAX_LINES:  # RWS-SIM-003
        raise _invalid(f"it has more than {MAX_CHARACTERS} characters or {MAX_LINES} lines")
    rows: list[Line] = []
    for number, row in enumerate(text.split("\n"), 1):
        if row.strip(" \t\r"):
            rows.append(_line(number, row.removesuffix("\r"), rows[-1].verb if rows else ""))
    if sum(row.number for row in rows if row.verb == "tokens") > MAX_TOKENS:
        raise _invalid(f"it asks for more than {MAX_TOKENS} tokens")
    lines = tuple(_joined(rows))
    return Script(lines, (0, *(at + 1 for at, line in enumerate(lines) if line.verb in CALLS)))


def _invalid(why: str) -> Refused:
    return Refused(problem("invalid_script", why=why))


def _line(number: int, row: str, before: str) -> Line:
    verb, _, rest = row.partition(":")
    if not FIRST.match(row):
        raise _invalid(f"line {number} begins with no known verb and colon")
    if before in ENDS or before not in BEHIND.get(verb, (before,)):
        raise _invalid(f"line {number} has a '{verb}:' where none can stand")
    pattern, words = VERBS[verb]  # RWS-SIM-002
    found = re.fullmatch(pattern, rest.removeprefix(" "))
    line = Line(verb, **found.groupdict()) if found else None
    if line is None or not _fits(line):
        raise _invalid(f"line {number} needs {words} after '{verb}:'")
    return line


def _fits(line: Line) -> bool:
    """Whether a line keeps what its pattern cannot say."""
    if line.verb != "call":
        return line.verb not in WAITS or line.number <= MAX_SECONDS
    try:
        # `int` raises for each of the constants that Python knows and JSON does not.
        return isinstance(json.loads(line.text or "{}", parse_constant=int), dict)
    except (ValueError, RecursionError):
        return False


def _joined(rows: list[Line]) -> Iterator[Line]:
    for verb, group in groupby(rows, lambda row: row.verb):
        if verb in JOINED:  # RWS-SIM-004
            yield Line(verb, "\n".join(row.text for row in group))
        else:
            yield from group
