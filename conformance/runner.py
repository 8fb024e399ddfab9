"""Plays one case against a target: verbs out, expectations in, a trace and observations as the result.

Every wait has a deadline. Nothing of what a server does can raise out of `run_case`: it ends in observations,
or in a case that was broken off with a reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from conformance import expecting, match, sending
from conformance.inbox import TAKEN, Found, Inbox
from conformance.match import Mismatch, PatternError
from conformance.session import Broken, Observation, Outcome, Patience, Problem, Session
from conformance.target import Target, Unreachable
from conformance.trace import Recorder
from conformance.transcript import Case, Either, Node, Repeat
from conformance.verbs import Step
from conformance.web import BadAnswer


async def run_case(case: Case, target: Target, patience: Patience | None = None) -> Outcome:
    """Play ``case`` to its end, or to where it breaks off."""
    began = trio.current_time()
    recorder = Recorder(lambda: trio.current_time() - began)
    outcome = Outcome(case, records=recorder.records)
    session = Session(case, target, recorder, patience or Patience(), outcome)
    async with trio.open_nursery() as nursery:
        session.nursery = nursery
        try:
            await play(session, case.steps)
        except Broken as exc:
            outcome.broken = str(exc)
        except PatternError as exc:
            missed(outcome, f"line {session.line}: {exc}")
        await session.finish()
        nursery.cancel_scope.cancel()
    outcome.seconds = trio.current_time() - began
    return outcome


def missed(outcome: Outcome, what: str) -> None:
    """A name without a value is our fault, unless a line that would have bound it did not hold."""
    line = next((one.line for one in outcome.observations if not one.ok), None)
    if line is None:
        outcome.harness_error = what
    else:
        outcome.broken = f"{what}, since line {line} did not hold"


async def play(session: Session, nodes: tuple[Node, ...]) -> None:
    for node in nodes:
        session.line = session.outcome.broken_line = node.line
        if isinstance(node, Step):
            await step(session, node)
        elif isinstance(node, Either):
            await either(session, node)
        else:
            await repeat(session, node)


async def step(session: Session, step: Step) -> None:
    problem = await perform(session, step)
    judge(session, step.tags, step, problem)
    if problem and step.verb != "also" and not (step.verb == "never" and step.tags):
        raise Broken(f"{_written(step)}: {problem}")


async def perform(session: Session, step: Step) -> Problem:
    """Do what a line says; an answer that is none is a fault of that line, no connection ends the case."""
    try:
        return await _VERBS[step.verb](session, step)
    except BadAnswer as exc:
        return str(exc)
    except Unreachable as exc:
        raise Broken(str(exc)) from None


def _written(node: Step | Either) -> str:
    return " ".join(node.text.split())


def judge(session: Session, tags: tuple[str, ...], node: Step | Either, problem: Problem) -> None:
    found = session.subjects.get(node.conn) if isinstance(node, Step) else None
    kind = _KINDS.get(node.verb, "behaviour") if isinstance(node, Step) else "behaviour"
    record = found.record if found else len(session.recorder.records) - 1
    detail = f"{_written(node)}: {problem}{_inside(found, problem)}" if problem else ""
    session.outcome.observations += [
        Observation(tag, problem is None, detail, node.line, record, kind) for tag in tags
    ]


def _inside(found: Found | None, problem: Problem) -> str:
    """Which message it was that does not fit, and what it complains of, where the problem does not say so."""
    if found is None or not isinstance(found.value, dict) or not isinstance(problem, Mismatch):
        return ""
    error = found.value.get("error")
    if isinstance(error, dict) and not problem.path.startswith("error"):
        return f" ({match.show(error.get('message'))})"
    kind = found.value.get("type")
    return f", in {kind}" if isinstance(kind, str) and problem.path not in ("", "type") else ""


async def either(session: Session, node: Either) -> None:
    branch, problem = await choose(session, node)
    judge(session, node.tags, node, problem)
    if branch is None:
        raise Broken(f"either: {problem}")
    await play(session, branch)


async def choose(session: Session, node: Either) -> tuple[tuple[Node, ...] | None, Problem]:
    """The branch whose first line holds, or why there is none."""
    first = [branch[0] for branch in node.branches if isinstance(branch[0], Step)]
    if first[0].verb in ("opened", "answered"):
        answers: list[Problem] = [await perform(session, step) or TAKEN for step in first]
    else:
        answers = await _next_thing(session, first)
    if TAKEN in answers:
        return node.branches[answers.index(TAKEN)], None
    if None in answers:
        session.ran_out(max(session.seconds(step.within) for step in first))
        return None, "nothing came"
    return None, "; ".join(map(str, answers))


async def _next_thing(session: Session, first: list[Step]) -> list[Problem]:
    """What the next message, or the end of the connection, means for each branch."""
    wire = await session.open_wire(first[0].conn)
    inbox = Inbox(wire, session.names)

    def answers() -> list[Problem]:
        return [inbox.decides(step) for step in first]

    seconds = max(session.seconds(step.within) for step in first)
    await wire.until(lambda: TAKEN in (found := answers()) or None not in found, seconds)
    return answers()


async def repeat(session: Session, node: Repeat) -> None:
    before = dict(session.names)
    for place in range(node.times):
        session.names = {**before, "i": place}
        await play(session, node.body)


_KINDS: Final = {"frame": "framing", "pong": "framing", "ended": "framing", "opened": "framing"}
_VERBS: Final[dict[str, Callable[[Session, Step], Awaitable[Problem]]]] = {
    "open": sending.open,
    "http": sending.http,
    "send": sending.send,
    "text": sending.send_text,
    "frame": sending.send_frame,
    "raw": sending.send_raw,
    "drop": sending.drop,
    "stop": sending.stop,
    "wait": sending.wait,
    "opened": expecting.opened,
    "answered": expecting.answered,
    "sse": expecting.sse,
    "sse_until": expecting.sse,
    "expect": expecting.expect,
    "until": expecting.expect,
    "count": expecting.expect,
    "also": expecting.also,
    "never": expecting.never,
    "pong": expecting.pong,
    "alive": expecting.alive,
    "ended": expecting.ends,
}
