"""``responses-conformance``: judge a server, a recording, the text itself."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from conformance import __version__, command_judge, command_run, commands
from conformance.places import SpecError
from conformance.target import UsageError

USAGE: Final = 2
HARNESS: Final = 4

if TYPE_CHECKING:
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]


def _run(parsers: Parsers) -> None:
    add = parsers.add_parser(
        "run", help="judge a server (without URL: the reference server inside)"
    ).add_argument
    add("url", nargs="?", help="ws://HOST:PORT/v1/responses")
    add(
        "--core",
        metavar="CMD",
        help="judge a port without a socket: a command that speaks JSON lines (INTERPRETING.md, section 6)",
    )
    add(
        "--profiles",
        metavar="LIST",
        help="core,warm,… (default: of the features file, else core; inside: all)",
    )
    add(
        "--model", metavar="NAME", help="a real model answers under this name: only what needs no script runs"
    )
    add("--features", metavar="FILE", help="what the target offers (TOML)")
    add("--api-key-env", metavar="NAME", help="environment variable that holds the API key")
    add("--known-failures", metavar="FILE", help="what may fail: lines of `GLOB  # reason`")
    add("-k", dest="glob", metavar="GLOB", help="only clauses or cases with such an id")
    add("--jobs", type=int, default=None, metavar="N", help="cases side by side (default 1; inside: 4)")
    add("--report", metavar="DIR", help="write report.json, .md, .html, badge.json and traces there")
    add("--junit", metavar="FILE", help="write JUnit XML")
    add("--json", action="store_true", help="print the report as JSON instead of text")


def _judge(parsers: Parsers) -> None:
    add = parsers.add_parser("judge", help="judge recorded traffic").add_argument
    add("traces", nargs="+", metavar="TRACE.jsonl")
    add("--json", action="store_true", help="print the findings as JSON")


def _list(parsers: Parsers) -> None:
    add = parsers.add_parser("list", help="list the clauses and what judges them").add_argument
    add("-k", dest="glob", metavar="GLOB", help="only clauses with such an id, or those of such cases")
    add("--json", action="store_true")


def _mutants(parsers: Parsers) -> None:
    add = parsers.add_parser("mutants", help="prove that each clause catches its broken server").add_argument
    add("-k", dest="glob", metavar="GLOB", help="only mutants of such a clause, or with such a name")
    add("--full", action="store_true", help="run all cases against each, not only those that concern it")
    add("--machine", action="store_true", help="instead: change recorded turns in every place, one at a time")
    add("--json", action="store_true")


def _diff(parsers: Parsers) -> None:
    add = parsers.add_parser(
        "diff", help="give two servers the same input, show where they differ"
    ).add_argument
    add("a", metavar="URL_A")
    add("b", metavar="URL_B")


def _export(parsers: Parsers) -> None:
    add = parsers.add_parser("export", help="write clauses, cases and schemas as JSON").add_argument
    add("directory", metavar="DIR")


def _matrix(parsers: Parsers) -> None:
    add = parsers.add_parser("matrix", help="several reports side by side, as a page").add_argument
    add("reports", nargs="+", metavar="REPORT.json")
    add("-o", dest="output", required=True, metavar="FILE.html")


# command -> (adds its parser, runs it)
COMMANDS: Final[dict[str, tuple[Callable[[Parsers], None], Callable[[argparse.Namespace], int]]]] = {
    "run": (_run, command_run.run),
    "judge": (_judge, command_judge.judge),
    "list": (_list, commands.list_clauses),
    "mutants": (_mutants, commands.mutants),
    "diff": (_diff, commands.diff),
    "export": (_export, commands.export),
    "matrix": (_matrix, commands.matrix),
}


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(prog="responses-conformance", description=__doc__)
    out.add_argument("--version", action="version", version=__version__)
    parsers = out.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add, _ in COMMANDS.values():
        add(parsers)
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; leaves by SystemExit with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what a server sends need not be Unicode
    options = parser().parse_args(arguments)
    try:
        code = _interruptible(COMMANDS[options.command][1], options)
        sys.stdout.flush()
    except UsageError as exc:
        print(f"responses-conformance: {exc}", file=sys.stderr)
        code = USAGE
    except SpecError as exc:
        print(f"the specification cannot be read:\n{exc}", file=sys.stderr)
        code = HARNESS
    except BrokenPipeError:
        sys.stderr.close()
        code = 0
    except OSError as exc:
        if exc.errno != errno.ENOSPC:
            raise
        code = _full(exc)
    sys.exit(code)


def _interruptible(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """130 after Ctrl-C, which comes alone or, out of a nursery, in a group."""
    code = 130
    try:
        code = command(options)
    except* KeyboardInterrupt:
        pass
    return code


def _full(exc: OSError) -> int:
    """Standard output, or a file, has no space. Python would try to write the rest once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print(f"responses-conformance: {exc.filename or 'standard output'}: {exc.strerror}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    main()
