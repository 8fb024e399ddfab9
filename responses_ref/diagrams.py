"""Draws the transition tables into the spec: ``python -m responses_ref.diagrams [--check] [FOLDER]``.

A chapter says where by a pair of comments, and what stands between them is
replaced::

    <!-- diagram: RESPONSE -->
    <!-- end -->

The picture is Mermaid text.  Steps that are possible almost everywhere would
hide the others: they are told in a sentence below it instead.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from .protocol.states import CONNECTION, RESPONSE, STEER, TURN, Table

SPEC = Path(__file__).parent.parent / "spec"
BLOCK = re.compile(r"(<!-- diagram: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@attrs.frozen
class Diagram:
    """A table, and how to draw it.

    ``words`` say what a step is where its name does not; ``aside`` are steps that
    are told instead; ``left_out`` are the states of a prototype.
    """

    table: Table
    start: str
    ends: frozenset[str]
    words: Mapping[str, str] = attrs.Factory(dict)
    aside: Mapping[str, str] = attrs.Factory(dict)
    left_out: frozenset[str] = frozenset()


DIAGRAMS: dict[str, Diagram] = {
    "RESPONSE": Diagram(
        RESPONSE,
        "idle",
        frozenset({"ended"}),
        aside={
            "response.failed": "Not drawn: `response.failed` ends a response from every state",
            "error": "while it runs, an `error` event may come right before that",
            "response.in_progress": "`response.in_progress` may be repeated between any two events",
        },
        left_out=frozenset({"paused", "erred"}),
    ),
    "TURN": Diagram(
        TURN,
        "waiting",
        frozenset({"ended"}),
        {
            "start": "its lane is idle, a slot is free",
            "load": "its parent is bound",
            "run": "response.created",
            "finish": "the outcome is known",
            "end": "the terminal event",
            "refuse": "an error event",
        },
        left_out=frozenset({"paused", "preparing again"}),
    ),
    "STEER": Diagram(
        STEER,
        "accepted",
        frozenset({"applied", "failed"}),
        {
            "commit": "response.created of the successor",
            "wait": "response.steer.pending",
            "fail": "response.steer.failed",
        },
    ),
    "CONNECTION": Diagram(
        CONNECTION,
        "open",
        frozenset({"closed"}),
        {"limit": "the lifetime is over", "drain": "the server is told to stop", "close": "Close"},
    ),
}


def _steps(diagram: Diagram) -> Iterator[tuple[str, str, str]]:
    """(from, to, words) of each step that is drawn."""
    for (before, what), after in diagram.table.items():
        told = what in diagram.aside and after in diagram.ends | {before}
        if not told and before not in diagram.ends and not {before, after} & diagram.left_out:
            yield before, after, diagram.words.get(what) or _words(what)


def _name(state: str) -> str:
    return state.replace(" ", "_")


def _words(what: str) -> str:
    event, _, opens = what.removeprefix("response.").partition(" ")
    return f"{event} ({opens})" if opens else event


def draw(diagram: Diagram) -> str:
    """The diagram as Mermaid text, with the sentence on what is left out."""
    edges: dict[tuple[str, str], list[str]] = {}
    for before, after, words in _steps(diagram):
        edges.setdefault((before, after), []).append(words)
    states = dict.fromkeys(state for edge in edges for state in edge)
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f'    state "{state}" as {_name(state)}' for state in states if " " in state]
    if diagram.start != "idle":
        lines.append(f"    [*] --> {_name(diagram.start)}")
    for (before, after), labels in edges.items():
        first = "[*]" if before == "idle" else _name(before)
        last = "[*]" if diagram.ends == {after} else _name(after)
        lines.append(f"    {first} --> {last} : {', '.join(labels)}")
    if len(diagram.ends) > 1:
        lines += [f"    {_name(end)} --> [*]" for end in sorted(diagram.ends)]
    told = f"\n\n{'; '.join(diagram.aside.values())}." if diagram.aside else ""
    return "\n".join([*lines, "```"]) + told


def drawn(text: str) -> str:
    """A chapter with its diagrams as the tables have them now; raises ``KeyError`` for an unknown name."""
    return BLOCK.sub(lambda found: f"{found[1]}{draw(DIAGRAMS[found[2]])}\n{found[3]}", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw; with ``--check`` only compare. Exits 1 when a chapter differs, 2 for an unknown diagram."""
    parser = argparse.ArgumentParser(
        prog="responses_ref.diagrams", description="Draw the tables into the spec."
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a chapter differs")
    parser.add_argument("folder", type=Path, nargs="?", default=SPEC)
    options = parser.parse_args(arguments)
    differs = False
    for path in sorted(options.folder.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        try:
            new = drawn(text)
        except KeyError as unknown:
            parser.error(f"{path.name}: no diagram is called {unknown}")
        if new != text:
            print(f"{path.name} {'differs from' if options.check else 'is drawn from'} the tables")
            differs = True
            if not options.check:
                path.write_text(new, encoding="utf-8")
    return int(differs and options.check)


if __name__ == "__main__":
    sys.exit(main())
