"""What the model says in one response: its script's next lines, or an agent's own (spec annex A0).

``tool_choice`` comes first, in both.  A call that it does not let through is
left out; where it forces a call and the script makes none, one is added.
``parallel_tool_calls: false`` lets one call into a response; a script goes on
with the next once it is answered.  ``max_tool_calls`` bounds built-in tools, and
there are none here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs

from responses_ref.model.arguments import arguments
from responses_ref.model.script import CALLS, ENDS, WAITS, Line, Progress
from responses_ref.model.streamer import Element, Every, Pause
from responses_ref.model.tokens import WORDS, Generator, tokenise
from responses_ref.protocol.batch import Failed, Finished, ItemDone, ItemKind, ItemStarted, PartKind, Piece
from responses_ref.protocol.errors import INVALID, OVERLOADED, Problem, Refused
from responses_ref.protocol.resource import Create, Json

LEAST_WORDS, MOST_WORDS = 12, 24
INPUT_WORDS = 4
MAX_ARGUMENTS = 200_000  # characters of one call's arguments
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

VERB_OF = {"function": "call", "custom": "custom"}

# The error type of a status that `reject:` names; another 4xx is the caller's fault, another 5xx ours.
TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error", 503: OVERLOADED}


@attrs.frozen
class Choice:
    """Whether a response has to call a tool, and which it may: all, or ``only`` these (verb, name)."""

    forced: bool = False
    only: tuple[tuple[object, object], ...] | None = None

    def allows(self, verb: str, name: object) -> bool:
        return self.only is None or (verb, name) in self.only


def choice(tool_choice: Any) -> Choice:
    """Read a ``tool_choice``; one of an unknown shape is ``auto``."""
    match tool_choice:
        case "none":
            return Choice(only=())
        case "required":
            return Choice(forced=True)
        case {"type": "function" | "custom" as kind, "name": name}:
            return Choice(forced=True, only=((VERB_OF[kind], name),))
        case {"type": "allowed_tools", "tools": [*tools], **rest}:
            only = tuple((verb, tool["name"]) for verb, tool in _callable(tools))
            return Choice(rest.get("mode") == "required", only)
    return Choice()


def _callable(tools: Sequence[object]) -> Iterator[tuple[str, Json]]:
    """The tools that can be called, functions first, each with the verb for it."""
    for kind, verb in VERB_OF.items():
        for tool in tools:
            if isinstance(tool, Mapping) and tool.get("type") == kind and isinstance(tool.get("name"), str):
                yield verb, tool


def say(progress: Progress, create: Create, seed: int, agent_turns: int) -> tuple[Element, ...]:
    """Decide all that one response says, in order; it ends with ``Finished`` or ``Failed``.

    Raises:
        Refused: when the script rejects the request.
    """
    random, allowed = Generator(seed), choice(create.tool_choice)
    lines = list(_next_lines(progress.rest, allowed, create.parallel_tool_calls))
    verbs = {line.verb for line in lines}
    if not verbs & ENDS:
        lines += _own_lines(verbs, create.tools, allowed, progress.rounds < agent_turns, random)
    said = [element for line in lines for element in SPEAK[line.verb](line, random)]
    return tuple(_cut(said if verbs & ENDS else [*said, Finished()], create.max_output_tokens))


def _next_lines(rest: Sequence[Line], allowed: Choice, parallel: bool) -> Iterator[Line]:
    """The lines that this response plays: up to the end of their first run of calls."""
    called = False
    for line in rest:
        call = line.verb in CALLS
        if call and not allowed.allows(line.verb, line.name):  # RWS-SIM-022
            continue
        if called and not (call and parallel):  # RWS-SIM-005, RWS-SIM-006, RWS-SIM-023
            return
        called = call
        yield line


def _own_lines(
    verbs: set[str], tools: Sequence[Json], allowed: Choice, call: bool, random: Generator
) -> Iterator[Line]:
    """What the model adds to these verbs: a call that is forced, an agent's answer where they say nothing."""
    silent = verbs <= WAITS | {"next"}
    if (silent and call) or (allowed.forced and not verbs & CALLS):  # RWS-SIM-020
        for verb, tool in _callable(tools):
            if allowed.allows(verb, tool["name"]) and (allowed.forced or verb == "call"):
                yield Line(verb, _input(verb, tool, random), tool["name"])
                return
    if silent:  # RWS-SIM-019
        yield Line("tokens", number=LEAST_WORDS + random.below(MOST_WORDS - LEAST_WORDS + 1))


def _input(verb: str, tool: Json, random: Generator) -> str:
    """What a call of the model's own carries (RWS-SIM-021)."""
    if verb == "custom":
        return random.words(INPUT_WORDS)
    made, size = list[str](), 0
    for piece in ENCODER.iterencode(arguments(tool.get("parameters"), random)):
        size += len(piece)
        if size > MAX_ARGUMENTS:  # a schema of 1 MB could ask for gigabytes
            return "{}"
        made.append(piece)
    return "".join(made)


def _cut(said: list[Element], budget: int | None) -> list[Element]:
    """Stop after ``budget`` tokens, at least 1; an item with more to say ends incomplete (RWS-SIM-025)."""
    if budget is None:
        return said
    tokens = [at for at, one in enumerate(said) if isinstance(one, Piece) and one.text]
    if len(tokens) <= budget:
        return said
    end = tokens[budget - 1] + 1
    whole = isinstance(said[end], ItemDone)
    return [*said[:end], ItemDone("completed" if whole else "incomplete"), Finished("max_output_tokens")]


# Equal tokens share one piece: a long text stays small.
_piece = lru_cache(4_096)(Piece)


def _item(kind: ItemKind, text: str, *parts: PartKind, name: str = "") -> list[Element]:
    """One output item that says the text in each of these parts; an empty text still opens them."""
    pieces = [_piece(token, part) for part in parts for token in tokenise(text) or [""]]  # RWS-SIM-024
    return [ItemStarted(kind, name), *pieces, ItemDone()]


# The seeded words need not be cut into tokens: each is one, with the space before it.
_NEXT_WORD = tuple(_piece(f" {word}", "output_text") for word in WORDS)


def _words(count: int, random: Generator) -> list[Element]:
    first, *rest = random.picks(count)
    pieces = [_piece(WORDS[first], "output_text"), *[_NEXT_WORD[pick] for pick in rest]]
    return [ItemStarted("message"), *pieces, ItemDone()]


def _fail(line: Line, random: Generator) -> list[Element]:
    return [Failed(line.name, line.text or "The script ends this response.", line.verb == "error")]


def _reject(line: Line, random: Generator) -> list[Element]:
    status = int(line.number)
    kind = TYPES.get(status, INVALID if status < 500 else "server_error")
    again = {"retry-after": "1"} if status == 429 else None
    text = line.text or "The script rejects this request."
    raise Refused(Problem(status, kind, line.name, text, None, again))


SPEAK: dict[str, Callable[[Line, Generator], list[Element]]] = {
    "say": lambda line, _: _item("message", line.text, "output_text"),
    "refuse": lambda line, _: _item("message", line.text, "refusal"),  # RWS-SIM-010
    "think": lambda line, _: _item("reasoning", line.text, "summary", "reasoning_text"),  # RWS-SIM-009
    # RWS-SIM-011
    "tokens": lambda line, random: _words(int(line.number), random),
    "call": lambda line, _: _item("function_call", line.text or "{}", "arguments", name=line.name),
    "custom": lambda line, _: _item("custom_tool_call", line.text, "input", name=line.name),
    # RWS-SIM-018
    "compact": lambda _, random: _item("compaction", f"{random.draw():08x}" * 4, "encrypted_content"),
    "next": lambda line, _: [],
    "pause": lambda line, _: [Pause(line.number)],  # RWS-SIM-012
    "every": lambda line, _: [Every(line.number)],  # RWS-SIM-013
    "fail": _fail,  # RWS-SIM-014
    "error": _fail,  # RWS-SIM-015
    "incomplete": lambda line, _: [Finished(line.name)],  # RWS-SIM-016
    "reject": _reject,  # RWS-SIM-017
}
