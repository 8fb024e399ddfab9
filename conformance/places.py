"""Where in the specification something stands, and how a fault in its text is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

CLAUSE_ID: Final = r"RWS-[A-Z]+-\d{3}"


@attrs.frozen
class Place:
    """A line of a file of the specification or of ``cases/``."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class SpecError(Exception):
    """The text of the specification cannot be read; says what is wrong, and where.

    ``problems`` holds one line for each fault, ``FILE:LINE: what``.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Malformed(Exception):
    """One fault at one line; the readers collect these into a `SpecError`."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def spec_dir() -> Path:
    """The directory of the specification: inside the wheel, or beside the package in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "spec"
    return installed if installed.is_dir() else package.parent / "spec"


def cases_dir() -> Path:
    return Path(__file__).resolve().parent / "cases"
