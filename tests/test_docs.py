"""What the documents say is tried out: every block is run, every path and every option is there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import attrs
import process
import pytest

from responses_ref.cli import parser
from responses_ref.protocol.settings import ALL_PROFILES

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
BIN = Path(sys.executable).parent
SERVE = ".venv/bin/responses-ref serve"
SECONDS = 300
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")


@attrs.frozen
class Block:
    """One fenced block: the line it begins at, what it is, and its text."""

    line: int
    kind: str
    text: str


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    return [Block(text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in FENCE.finditer(text)]


@attrs.define
class Reader:
    """Somebody who does what a document says, from top to bottom, in a folder of their own.

    The servers they start are on free ports, so a port of the document stands for another.
    """

    folder: Path
    ports: dict[str, str] = attrs.Factory(dict)
    running: list[process.Server] = attrs.Factory(list)

    def follow(self, block: Block, answer: str | None) -> None:
        """Run a block; ``answer`` is what the document says that it prints."""
        match block.kind:
            case "sh":
                for command in block.text.replace("\\\n", "").splitlines():
                    self.command(command)
            case "python":
                printed = self.run([sys.executable, "-c", self.here(block.text)])
                assert printed.rstrip() == (answer or printed).rstrip()
            case "text":
                pass
            case other:
                raise AssertionError(f"nobody knows how to check a block of kind {other!r}")

    def here(self, text: str) -> str:
        for port, actual in self.ports.items():
            text = text.replace(f":{port}", f":{actual}")
        return text

    def command(self, command: str) -> None:
        if command in (ROOT / ".ci" / "run").read_text():  # CI does it, in a fresh clone
            return
        if command.startswith(SERVE):
            self.serve(shlex.split(command.removeprefix(SERVE).rstrip("& ")))
            return
        program, *arguments = shlex.split(self.here(command))
        assert program.startswith(".venv/bin/"), command
        self.run([str(BIN / Path(program).name), *chain.from_iterable(map(self.files, arguments))])

    def files(self, argument: str) -> list[str]:
        """What the shell makes of ``traces/*.jsonl``; a pattern for the command itself stands in quotes."""
        if not argument.endswith("*.jsonl"):
            return [argument]
        return sorted(str(path) for path in self.folder.glob(argument))

    def serve(self, flags: list[str]) -> None:
        options = vars(parser().parse_args(["serve", *flags]))
        port = str(options["port"])
        if options.get("trace"):
            flags[flags.index("--trace") + 1] = str(self.folder / options.get("trace"))
        if "--port" in flags:
            del flags[flags.index("--port") : flags.index("--port") + 2]
        self.running.append(process.start(self.folder / f"server-{port}", *flags))
        self.ports[port] = str(self.running[-1].port)

    def run(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    one = Reader(tmp_path)
    yield one
    for server in one.running:
        server.stop()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_can_be_followed(document: Path, reader: Reader) -> None:
    found = blocks(document)
    answers = [block.text for block in found if block.kind == "text"]
    for block in found:
        reader.follow(block, answers[0] if answers and document.name == "README.md" else None)


def test_the_readme_begins_with_the_two_commands() -> None:
    first = blocks(ROOT / "README.md")[0]
    commands = first.text.splitlines()
    assert first.kind == "sh"
    assert [command.split()[-2:] for command in commands] == [
        [".venv/bin/responses-conformance", "run"],
        ["&&", ".venv/bin/pytest"],
    ]
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert all(command in script for command in commands), "CI runs them to the letter"


def named_paths(document: Path) -> set[str]:
    """What stands between backticks or behind a link, and looks like a path of this project."""
    text = FENCE.sub("", document.read_text())
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    marked = {code for code in CODE.findall(text) if code.partition("/")[0] in folders and "/" in code}
    return marked | set(re.findall(r"\]\(([^)#:]+)\)", text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_is_there(document: Path) -> None:
    missing = {path for path in named_paths(document) if not (document.parent / path).exists()}
    assert not missing


def test_the_pictures_name_modules_that_are_there() -> None:
    picture = next(block.text for block in blocks(ROOT / "ARCHITECTURE.md") if block.kind == "text")
    named = set(re.findall(r"\b(\w+\.py)\b", picture))
    assert named
    assert named <= {path.name for path in (ROOT / "responses_ref").rglob("*.py")}


def test_a_rule_that_is_an_example_has_all_of_its_five_places() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (rule,) = set(re.findall(r"RWS-[A-Z]+-\d+", text))
    section = text.partition("## Where a new rule goes")[2].partition("\n## ")[0]
    places = [path for path in CODE.findall(section) if path.endswith((".md", ".py"))]
    assert len(places) == 5
    assert all(rule in (ROOT / path).read_text() for path in places)


def test_the_table_of_options_is_the_parser_s() -> None:
    text = (ROOT / "README.md").read_text().partition("## The server")[2].partition("\n## ")[0]
    told = set(re.findall(r"`(--[a-z-]+)`", text))
    commands = next(action for action in parser()._actions if action.dest == "command")
    serve = commands.choices["serve"]  # type: ignore[index,call-overload]
    assert told == {option for action in serve._actions for option in action.option_strings} - {
        "-h",
        "--help",
    }


def test_the_table_of_profiles_is_the_server_s() -> None:
    text = (ROOT / "README.md").read_text().partition("## What works")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == ALL_PROFILES


def test_no_document_names_this_machine() -> None:
    for document in DOCUMENTS:
        assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", document.read_text()), document
