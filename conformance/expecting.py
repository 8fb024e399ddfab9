"""The verbs that expect something: each gives None if its line holds, else why it does not."""

from __future__ import annotations

import math
from typing import Final

import trio

from conformance import match, values
from conformance.inbox import Found, Inbox, barrier
from conformance.sending import write
from conformance.session import Broken, Problem, Session
from conformance.verbs import Step
from conformance.web import Exchange, Head, from_json

ALIVE_SECONDS: Final = 1.0


async def opened(session: Session, step: Step) -> Problem:
    wire = session.wires.get(step.conn)
    if wire is None:
        raise Broken("`<open` without a `>open` before it")
    head = await session.handshake(wire, session.seconds(step.within))
    if head.status == 101 and "101" in step.words and (fault := wire.fault_of_handshake(head)):
        return fault
    return await answer(session, step, head, wire.exchange)


async def answered(session: Session, step: Step) -> Problem:
    web = session.webs.get(step.conn)
    if web is None:
        raise Broken("`<http` without a `>http` before it")
    seconds = session.seconds(step.within)
    with trio.move_on_after(seconds):
        found = session.subjects.get(step.conn)
        head = found.head if found and found.head else await web.head()
        return await answer(session, step, head, web)
    session.ran_out(seconds)
    return f"no answer within {seconds:g} s"


async def answer(session: Session, step: Step, head: Head, web: Exchange) -> Problem:
    """Status, body and headers of an answer against a `<http` or `<open` line."""
    found = session.subjects.get(step.conn)
    if found is None or found.head is None:
        found = session.subjects[step.conn] = Found(web.head_record, None, head)
    if not any(status_fits(wanted, head.status) for wanted in step.words):
        return f"expected status {'|'.join(step.words)}, got {head.status}"
    if step.extra is not None and (problem := match.match(step.extra, dict(head.headers), session.names)):
        return problem
    if step.value is None:
        return None
    if found.value is None:
        found = session.subjects[step.conn] = Found(web.head_record, from_json(await web.body()), head)
    return match.match(step.value, found.value, session.names)


async def sse(session: Session, step: Step) -> Problem:
    web = session.webs.get(step.conn)
    if web is None:
        raise Broken("`<sse` without a `>http` before it")
    seconds = session.seconds(step.within)
    with trio.move_on_after(seconds):
        if step.conn not in session.subjects:
            head = await web.head()
            if head.status != 200:
                return f"expected an event stream, got status {head.status}"
        while True:
            record, value = await web.sse()
            session.subjects[step.conn] = Found(record, value)
            problem = match.match(step.value, value, session.names)
            if problem is None or step.verb == "sse":
                return problem
    session.ran_out(seconds)
    return f"nothing that matches within {seconds:g} s"


async def expect(session: Session, step: Step) -> Problem:
    wire = await session.open_wire(step.conn)
    inbox, seconds = Inbox(wire, session.names), session.seconds(step.within)
    wanted = {"expect": 1, "until": 1, "count": int(step.number)}[step.verb]
    with trio.move_on_after(seconds):
        while True:
            await wire.until(lambda: inbox.peek(step.value) is not None or wire.ended is not None, math.inf)
            message = inbox.take(step.value)
            if message is None:
                return f"the connection ended first ({wire.ended})"
            session.subjects[step.conn] = Found(message.record, message.value)
            problem = match.match(step.value, message.value, session.names)
            if problem is None:
                session.patience.heard()
            if problem and step.verb == "expect":
                return problem
            wanted -= problem is None
            if not wanted:
                return None
    session.ran_out(seconds)
    what = "nothing came" if step.verb == "expect" else "nothing that matches came"
    return f"{what} within {seconds:g} s"


async def also(session: Session, step: Step) -> Problem:
    found = session.subjects.get(step.conn)
    if found is None:
        raise Broken("`&` without a message before it")
    return match.match(step.value, found.value, session.names)


async def never(session: Session, step: Step) -> Problem:
    wire = await session.open_wire(step.conn)
    inbox = Inbox(wire, session.names)
    if step.within is not None:
        await wire.until(lambda: bool(inbox.matching(step.value)), step.within)
        found = inbox.matching(step.value)
    else:
        found, reason = await barrier(wire, inbox, step.value, session.names, session.patience.now)
        if reason and not found:
            session.ran_out(session.patience.now)
            raise Broken(reason)
    if not found:
        return None
    session.subjects[step.conn] = Found(found[0].record, found[0].value)
    return f"came: {match.show(found[0].value)}"


async def pong(session: Session, step: Step) -> Problem:
    wire = await session.open_wire(step.conn)
    payload, seconds = values.text(step.value, session.names).encode(), session.seconds(step.within)
    if await wire.until(lambda: payload in wire.pongs or wire.ended is not None, seconds):
        if payload in wire.pongs:
            wire.pongs.remove(payload)
            return None
        return f"the connection ended first ({wire.ended})"
    session.ran_out(seconds)
    return f"no such Pong within {seconds:g} s"


async def alive(session: Session, step: Step) -> Problem:
    wire = await session.open_wire(step.conn)
    payload = f"open {session.line}"
    await write(session, wire.send_frame, {"op": "ping", "text": payload})
    done = lambda: payload.encode() in wire.pongs or wire.ended is not None  # noqa: E731
    await wire.until(done, min(ALIVE_SECONDS, session.patience.now))
    return f"the connection was closed ({wire.ended})" if wire.ended else None


async def ends(session: Session, step: Step) -> Problem:
    wire = session.wires.get(step.conn) or await session.open_wire(step.conn)
    seconds = session.seconds(step.within)
    if wire.state == "open":
        await wire.until(lambda: wire.ended is not None, seconds)
    elif wire.ended is None:
        await wire.read_nothing(seconds)
    if wire.ended is None:
        session.ran_out(seconds)
        return f"the connection is still open after {seconds:g} s"
    return Inbox(wire, session.names).end_fits(step)


def status_fits(wanted: str, status: int) -> bool:
    return wanted in ("any", str(status), f"{status // 100}xx")
