"""Tries many mutants, on all cores: ``responses-conformance mutants``."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

import attrs

from conformance.embedded import landed
from conformance.mutants import MUTANTS
from conformance.mutants.harness import Mutant, try_mutant
from conformance.specdoc import Spec, load

# Mutants per piece of work: small enough to balance, large enough to be worth a message.
CHUNK: Final = 4


@attrs.frozen
class Row:
    """What became of one mutant; ``problem`` is empty if exactly its clause caught it."""

    clause: str
    mutant: str
    caught_by: tuple[str, ...]
    also_fails: dict[str, str]
    problem: str
    evidence: tuple[str, ...]


def chosen(glob: str | None) -> list[Mutant]:
    """The mutants whose clause or name matches, in the order of the clauses."""
    found = [
        one for one in MUTANTS if glob is None or fnmatchcase(one.clause, glob) or fnmatchcase(one.name, glob)
    ]
    return sorted(found, key=lambda one: (one.clause, one.name))


def without_mutant(spec: Spec) -> list[str]:
    """Testable clauses of what the reference server has, that no mutant breaks."""
    broken = {one.clause for one in MUTANTS}
    profiles = landed()
    wanted = (clause for clause in spec.clauses.values() if clause.testable and clause.profile in profiles)
    return [clause.id for clause in wanted if clause.id not in broken]


@cache
def _spec() -> Spec:
    return load()


def _try(work: tuple[str, bool]) -> Row:
    name, full = work
    made = next(one for one in MUTANTS if one.name == name)
    verdict = try_mutant(_spec(), made, full=full)
    return Row(made.clause, name, verdict.caught_by, dict(made.also_fails), verdict.problem, verdict.evidence)


def try_all(
    mutants: list[Mutant], *, full: bool = False, progress: Callable[[Row], Any] = lambda _: None
) -> list[Row]:
    """Try them, as many at a time as there are cores; rows come in the order of ``mutants``."""
    work = [(one.name, full) for one in mutants]
    workers = min(os.cpu_count() or 1, len(work))
    rows = []
    if workers < 2:
        for item in work:
            rows.append(_try(item))
            progress(rows[-1])
        return rows
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for row in pool.imap(_try, work, CHUNK):
            rows.append(row)
            progress(row)
    return rows
