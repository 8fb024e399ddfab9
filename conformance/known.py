"""The file of known failures: what is expected to fail, and why."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import attrs

from conformance.specdoc import Spec
from conformance.target import UsageError


@attrs.frozen
class Known:
    """One line of the file: a glob over ids of clauses or cases, and the reason."""

    pattern: str
    reason: str
    line: int
    clauses: frozenset[str]
    cases: frozenset[str]

    def names(self, clause: str, case: str) -> bool:
        return clause in self.clauses or case in self.cases


def read_known(path: Path, spec: Spec) -> list[Known]:
    """``GLOB  # reason`` per line; raises `UsageError`."""
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as exc:
        raise UsageError(f"{path}: {exc}") from None
    out = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pattern, _, reason = (part.strip() for part in line.partition("#"))
        clauses = frozenset(name for name in spec.clauses if fnmatchcase(name, pattern))
        cases = frozenset(name for name in spec.cases if fnmatchcase(name, pattern))
        if not reason:
            raise UsageError(f"{path}:{number}: {pattern} has no reason (write `{pattern}  # why`)")
        if not clauses and not cases:
            raise UsageError(f"{path}:{number}: {pattern} names no clause and no case")
        out.append(Known(pattern, reason, number, clauses, cases))
    return out
