"""Who may know whom, and how big a file, a function and a room may be."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("responses_ref", "conformance")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

MAX_FILE, MAX_FUNCTION, USUAL_FUNCTION, USUAL_SHARE = 400, 40, 25, 0.9
MAX_SERVER = 4_250  # of the protocol with lanes, steering and the append prototype, HTTP, and its shell
COUNTED = ("protocol", "pipeline", "model", "server")

# room of responses_ref -> the rooms it may import; an edge room (a module beside them) may import all.
ROOMS: dict[str, frozenset[str]] = {
    "protocol": frozenset(),
    "pipeline": frozenset({"protocol"}),
    "model": frozenset({"protocol"}),
    "store": frozenset({"protocol"}),
    "server": frozenset({"protocol", "pipeline", "model", "store"}),
}
# What the sans-IO core may not touch: clocks, sockets, chance, tasks, logs.
IMPURE = frozenset(
    {
        "trio",
        "time",
        "datetime",
        "random",
        "secrets",
        "uuid",
        "socket",
        "ssl",
        "select",
        "os",
        "io",
        "pathlib",
    }
    | {"logging", "asyncio", "threading", "subprocess", "signal", "sys", "h11", "wsproto", "trio_websocket"}
)
# The two places of the suite that may know the server.
EMBEDDED = ("conformance/mutants/", "conformance/embedded.py")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, relative ones spelled out, those for types only included."""
    package = _module(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *filter(None, [node.module])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _room(module: str) -> str | None:
    """``protocol`` for ``responses_ref.protocol.codec``; None for an edge room or another package."""
    parts = module.split(".")
    return parts[1] if parts[0] == "responses_ref" and len(parts) > 1 and parts[1] in ROOMS else None


def test_rooms_import_only_what_lies_below() -> None:
    """protocol <- pipeline, model, store <- server <- edge rooms, and nothing the other way."""
    wrong = []
    for path in FILES:
        room = _room(_module(path))
        for name in imports(path):
            if room is None or not name.startswith("responses_ref"):
                continue
            edge = _room(name) is None and name != "responses_ref"
            if edge or (_room(name) not in {None, room} and _room(name) not in ROOMS[room]):
                wrong.append(f"{_name(path)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_the_core_is_sans_io() -> None:
    """The protocol imports no clock, socket, random number, task or log."""
    core = [path for path in FILES if _room(_module(path)) == "protocol"]
    assert core
    wrong = [
        f"{_name(path)} imports {name}"
        for path in core
        for name in imports(path)
        if name.split(".")[0] in IMPURE
    ]
    assert not wrong, "\n".join(wrong)


def test_judge_and_judged_are_strangers() -> None:
    """The suite never imports the server, but for the mutants and the embedded default."""
    wrong = [
        f"{_name(path)} imports {name}"
        for path in FILES
        for name in imports(path)
        if _name(path).startswith("conformance/")
        and name.split(".")[0] == "responses_ref"
        and not _name(path).startswith(EMBEDDED)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_server_does_not_know_the_suite() -> None:
    """responses_ref stands alone, but for its command line, which may call the suite's views."""
    wrong = [
        f"{_name(path)} imports {name}"
        for path in FILES
        for name in imports(path)
        if _room(_module(path)) is not None and name.split(".")[0] == "conformance"
    ]
    assert not wrong, "\n".join(wrong)


# --- Sizes. ---


def _docstrings(tree: ast.AST) -> set[int]:
    """The lines of docstrings and other strings that stand alone."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def lines_of_code(path: Path) -> int:
    """Lines that hold code: blank ones, comments and docstrings are not counted."""
    source = path.read_text(encoding="utf-8")
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - _docstrings(ast.parse(source)))


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            yield f"{_name(path)}:{node.lineno} {node.name}", (node.end_lineno or node.lineno) - first + 1


@pytest.mark.parametrize("package", PACKAGES)
def test_files_are_small(package: str) -> None:
    """No file has more than 400 lines."""
    sizes = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    big = [f"{size:5} {name}" for name, size in sizes.items() if size > MAX_FILE and name.startswith(package)]
    assert not big, f"more than {MAX_FILE} lines:\n" + "\n".join(big)


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_are_small(package: str) -> None:
    """No function has more than 40 lines, and nine in ten have at most 25."""
    sizes = [one for path in FILES if _name(path).startswith(package) for one in _functions(path)]
    big = sorted((size, name) for name, size in sizes if size > MAX_FUNCTION)
    assert not big, f"more than {MAX_FUNCTION} lines:\n" + "\n".join(f"{size:5} {name}" for size, name in big)
    middling = sorted((size, name) for name, size in sizes if size > USUAL_FUNCTION)
    share = 1 - len(middling) / len(sizes)
    figures = "\n".join(f"{size:5} {name}" for size, name in middling)
    assert share >= USUAL_SHARE, f"only {share:.1%} have at most {USUAL_FUNCTION} lines:\n{figures}"


def test_the_server_is_small() -> None:
    """protocol, pipeline, model and server together have at most MAX_SERVER lines of code."""
    rooms = {
        room: {path: lines_of_code(path) for path in FILES if _room(_module(path)) == room}
        for room in COUNTED
    }
    total = sum(sum(files.values()) for files in rooms.values())
    figures = [
        f"{sum(files.values()):5} {room}: " + ", ".join(f"{path.stem} {size}" for path, size in files.items())
        for room, files in rooms.items()
    ]
    assert total <= MAX_SERVER, f"{total} lines of code, {MAX_SERVER} allowed:\n" + "\n".join(figures)


@pytest.mark.parametrize(
    ("source", "size"),
    [
        ("", 0),
        ("# only words\n\n", 0),
        ('"""A text\n\nof three lines."""\n', 0),
        ("x = 1  # and why\n", 1),
        ("x = (\n    1,\n\n    2,\n)\n", 4),
        ('def f():\n    """Doc."""\n    return """a\nb"""\n', 3),
    ],
)
def test_the_count_itself(source: str, size: int, tmp_path: Path) -> None:
    """What counts as a line of code, on small examples."""
    path = tmp_path / "example.py"
    path.write_text(source)
    assert lines_of_code(path) == size
