"""How a mutant is declared and run: `mutant`, `option_mutant`, `core_mutant`, and `try_mutant`.

A mutant is a deliberately broken server for one clause. It is run in-process, over memory streams and in
virtual time, against the cases that are for its clause and a few others, and must be caught by exactly that
clause. ``also_fails`` names, each with its reason, the clauses that cannot but fail with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs
import trio
from trio.testing import MockClock

from conformance.mutants.middle import Answer, Head, Middle, Out
from conformance.mutants.reference import Reference
from conformance.offer import needs_of
from conformance.specdoc import Spec
from conformance.suite import Run, Suite
from conformance.transcript import Case
from conformance.verdict import Result, Selection, judge_all

# Longest that one mutant may take, in virtual seconds.
LIMIT_SECONDS: Final = 3600.0


@attrs.frozen
class Mutant:
    """See the module. ``options``: of the server, by their names in its ``Options``; ``core`` and ``server``
    get the core of a new connection, or the whole server, and may patch it."""

    clause: str
    name: str
    also_fails: Mapping[str, str] = attrs.Factory(dict)
    middle: type[Middle] = Middle
    options: Mapping[str, Any] = attrs.Factory(dict)
    core: Callable[[Any], None] | None = None
    server: Callable[[Any], None] | None = None
    cases: tuple[str, ...] = ()


MUTANTS: Final[list[Mutant]] = []


def add(made: Mutant) -> None:
    """Register a mutant; a name is used once."""
    if any(other.name == made.name for other in MUTANTS):
        raise ValueError(f"there are two mutants called {made.name}")
    MUTANTS.append(made)


Hook = Callable[..., Any]


def mutant(
    clause: str, *, on: str = "event", also_fails: Mapping[str, str] | None = None, **more: Any
) -> Hook:
    """Decorates a function ``(thing, memory)`` that gives what passes instead of ``thing``.

    ``on`` is the hook of `Middle`: event, sse, request, frame, client_frame, head or answer (answer gets the
    request's head as a third argument). ``memory`` is a dict for the notes of one connection.
    """

    def decorate(function: Hook) -> Hook:
        middle = type(function.__name__, (Middle,), {on: _hook(on, function)})
        add(Mutant(clause, function.__name__, also_fails or {}, middle, **more))
        return function

    return decorate


def _hook(on: str, function: Hook) -> Hook:
    if on == "answer":

        def answer(self: Middle, answer: Answer, head: Head) -> Answer:
            return function(answer, self.memory, head) or answer

        return answer
    if on == "head":
        return lambda self, head: function(head, self.memory) or head

    def several(self: Middle, thing: Any) -> Iterable[Out]:
        return list(function(thing, self.memory))

    return several


def middle_mutant(clause: str, also_fails: Mapping[str, str] | None = None, **more: Any) -> Hook:
    """Decorates a subclass of `Middle`, for a mutant that needs several hooks."""

    def decorate(middle: type[Middle]) -> type[Middle]:
        add(Mutant(clause, middle.__name__, also_fails or {}, middle, **more))
        return middle

    return decorate


def option_mutant(
    clause: str, name: str, also_fails: Mapping[str, str] | None = None, **options: Any
) -> None:
    """A server that was started with other options, whatever the configuration says."""
    add(Mutant(clause, name, also_fails or {}, options=options))


def core_mutant(clause: str, also_fails: Mapping[str, str] | None = None, **more: Any) -> Hook:
    """Decorates a function that patches the core of each new connection."""

    def decorate(function: Callable[[Any], None]) -> Callable[[Any], None]:
        add(Mutant(clause, function.__name__, also_fails or {}, core=function, **more))
        return function

    return decorate


def server_mutant(clause: str, also_fails: Mapping[str, str] | None = None, **more: Any) -> Hook:
    """Decorates a function that patches the whole server, before anything connects."""

    def decorate(function: Callable[[Any], None]) -> Callable[[Any], None]:
        add(Mutant(clause, function.__name__, also_fails or {}, server=function, **more))
        return function

    return decorate


# --- running ----------------------------------------------------------------------------------------


@attrs.frozen
class Verdict:
    """What caught a mutant. ``problem`` is empty if that was exactly its clause."""

    mutant: Mutant
    caught_by: tuple[str, ...]
    problem: str
    evidence: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return not self.problem


def relevant(spec: Spec, made: Mutant) -> list[Case]:
    """The cases for a mutant: those for its clause, and the first plain one of each chapter of the prose, so
    that a mutant which breaks more than it says is noticed."""
    clauses = {made.clause, *made.also_fails}
    chosen: dict[str, Case] = {}
    chapters: set[str] = set()
    for case in spec.cases.values():
        own = clauses.intersection(case.covers) or case.id in made.cases
        plain = case.place.file.startswith("spec/") and not needs_of(case, frozenset()).config
        first = plain and case.place.file not in chapters
        if first:
            chapters.add(case.place.file)
        if own or first:
            chosen[case.id] = case
    return list(chosen.values())


def try_mutant(spec: Spec, made: Mutant, *, full: bool = False) -> Verdict:
    """Run a mutant in virtual time, and compare what caught it with what should have."""
    cases = list(spec.cases.values()) if full else relevant(spec, made)
    results = play(spec, cases, made)
    failing = {result.clause.id: result for result in results if result.verdict in ("fail", "warn")}
    evidence = tuple(f"{name}: {result.reason}" for name, result in sorted(failing.items()))
    return Verdict(made, tuple(sorted(failing)), _problem(made, set(failing), results), evidence)


def _problem(made: Mutant, failing: set[str], results: list[Result]) -> str:
    verdicts = {result.clause.id: result.verdict for result in results}
    if made.clause not in failing:
        return f"not caught: {made.clause} is {verdicts.get(made.clause, 'unknown')}"
    more = sorted(failing - {made.clause} - made.also_fails.keys())
    if more:
        return f"also caught by {', '.join(more)}"
    unused = sorted(made.also_fails.keys() - failing)
    if unused:
        return f"also_fails names {', '.join(unused)}, which does not fail"
    if any(not reason for reason in made.also_fails.values()):
        return "also_fails needs a reason"
    return ""


def play(spec: Spec, cases: list[Case], made: Mutant | None = None) -> list[Result]:
    """The results of cases over the reference server in this process, broken by ``made``."""
    return play_run(spec, cases, made)[0]


def play_run(spec: Spec, cases: list[Case], made: Mutant | None = None) -> tuple[list[Result], Run]:
    """As `play`, with everything else that the run found out."""
    return trio.run(_play, spec, cases, made, clock=MockClock(autojump_threshold=0))


async def _play(spec: Spec, cases: list[Case], made: Mutant | None) -> tuple[list[Result], Run]:
    with trio.fail_after(LIMIT_SECONDS):
        async with trio.open_nursery() as nursery:
            offer = Reference(nursery, made)
            selection = Selection(profiles=offer.features.profiles)
            run = await Suite(spec, offer, selection).play(cases)
            nursery.cancel_scope.cancel()
    return judge_all(spec, run.ledger, selection), run
