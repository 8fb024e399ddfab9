"""The verbs that send, and those that act on a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from conformance import match, values
from conformance.session import Problem, Session
from conformance.verbs import Step
from conformance.web import Exchange, request_head, request_headers


async def send(session: Session, step: Step) -> Problem:
    wire = await session.open_wire(step.conn)
    await write(session, wire.send_text, values.message(step.value, session.names))
    return None


async def send_text(session: Session, step: Step) -> Problem:
    wire = await session.open_wire(step.conn)
    await write(session, wire.send_text, values.text(step.value, session.names))
    return None


async def send_frame(session: Session, step: Step) -> Problem:
    wire = await session.open_wire(step.conn)
    await write(session, wire.send_frame, values.fill(step.value, session.names))
    return None


async def send_raw(session: Session, step: Step) -> Problem:
    wire = session.wires.get(step.conn) or await session.fresh_wire(step.conn)
    if isinstance(step.value, dict) and "$hex" in step.value:
        data = bytes.fromhex(step.value["$hex"])
    else:
        data = values.text(step.value, session.names).encode("utf-8", "surrogateescape")
    session.recorder.add(step.conn, "c2s", "note", raw=data[:400].decode("latin-1"), bytes=len(data))
    await write(session, wire.send_bytes, data)
    return None


async def write(session: Session, send: Callable[[Any], Awaitable[None]], what: Any) -> None:
    """Send; a server that does not read any more is found out by its silence, not by our blocking."""
    with trio.move_on_after(max(5.0, session.patience.whole)):
        await send(what)


async def open(session: Session, step: Step) -> Problem:
    wire = await session.fresh_wire(step.conn)
    await wire.ask(values.fill(step.value, session.names))
    return None


async def http(session: Session, step: Step) -> Problem:
    web = session.webs.get(step.conn)
    if web is None or not web.reusable():
        web = Exchange(step.conn, await session.target.connect(), session.recorder)
        session.webs[step.conn] = web
    method, path = step.words[0], match.interpolate(step.words[1], session.names)
    body = b"" if step.value is None else values.message(step.value, session.names).encode()
    standard = [("Accept", "*/*")]
    if body:
        standard += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    headers = request_headers(session.target.endpoint, values.fill(step.extra, session.names), standard)
    web.expect_answer(upgrade=False, method=method)
    session.subjects.pop(step.conn, None)
    await web.send(request_head(method, session.target.endpoint.resolve(path), headers), body)
    return None


async def drop(session: Session, step: Step) -> Problem:
    await (await session.open_wire(step.conn)).drop()
    return None


async def stop(session: Session, _step: Step) -> Problem:
    await session.target.stop()
    return None


async def wait(session: Session, step: Step) -> Problem:
    await trio.sleep(step.number)
    return None
