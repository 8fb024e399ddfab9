"""The reference as an oracle for ports: JSON lines in, JSON lines out, in virtual time.

In, one object a line (``conn`` names a connection; several may be open)::

    {"do": "open", "conn": "a"}                           with "inner": true, see below
    {"do": "receive", "conn": "a", "text": "..."}        or "base64" for a binary message
    {"do": "advance", "to": 2.5}                          seconds since the start
    {"do": "peer_closed", "conn": "a", "code": 1000}

Out, after each of them, what happened in order, and then exactly one ``deadline``::

    {"out": "send", "conn": "a", "text": "..."}
    {"out": "close", "conn": "a", "code": 1001, "reason": "..."}
    {"out": "core", "conn": "a", "input": ...}  if opened with "inner"; see ``recording``
    {"out": "deadline", "at": 2.5}     when something happens next; null: nothing will
    {"out": "error", "message": "..."}  instead of all that: the line was no such object

The scripted model is inside and says all that is due by the time it is asked,
so a port is compared as a whole.  Same seed, same lines in: same bytes out.
"""

from __future__ import annotations

import base64
import heapq
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from itertools import count
from typing import Any, TypeVar

import attrs

from . import recording
from .model import ScriptedModel
from .model.streamer import Plan, due, profile
from .pipeline import Pipeline
from .protocol import codec
from .protocol.actions import (
    Action,
    Bill,
    CancelModel,
    Close,
    LoadParent,
    Prepare,
    Send,
    SetDeadline,
    StartModel,
    Store,
)
from .protocol.cache import Prepared
from .protocol.connection import Connection
from .protocol.errors import Refused
from .protocol.lanes import Turn
from .protocol.resource import MAX_NUMBER
from .protocol.settings import Settings
from .serving import tokens
from .store import MemoryStore

T = TypeVar("T")


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that does not wait: the memory store's."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("the memory store waited")


class NoInput(ValueError):
    """A line that is no input of the oracle."""


def _bytes(base64_text: str) -> bytes:
    try:
        return base64.b64decode(base64_text, validate=True)
    except ValueError:
        raise NoInput from None


@attrs.define
class Oracle:
    """All connections of one virtual server. ``out`` collects what a step has brought about."""

    seed: int = 0
    inner: set[str] = attrs.Factory(set)  # connections whose steps are told as well
    settings: Settings = attrs.Factory(Settings)
    now: float = 0.0
    out: list[dict[str, Any]] = attrs.Factory(list)
    connections: dict[str, Connection] = attrs.Factory(dict)
    store: MemoryStore = attrs.Factory(MemoryStore)
    order: Iterator[int] = attrs.Factory(count)
    agenda: list[tuple[float, int, Callable[[], None]]] = attrs.Factory(list)
    valid: dict[tuple[str, object], int] = attrs.Factory(dict)  # key -> its newest entry in the agenda
    opened: int = 0
    pipeline: Pipeline = attrs.field()

    @pipeline.default
    def _pipeline(self) -> Pipeline:
        return Pipeline(ScriptedModel(profile("instant"), 1, self.seed), tokens)

    # --- What comes in. ---

    def step(self, line: dict[str, Any]) -> list[dict[str, Any]]:
        """Let one thing happen; returns what goes out, the ``deadline`` last.

        Raises:
            NoInput: the line is none of those above; nothing has happened.
        """
        self._happen(line)
        self._advance(self.now)
        out, self.out = self.out, []
        return [*out, {"out": "deadline", "at": self._next()}]

    def _happen(self, line: dict[str, Any]) -> None:
        match line:
            case {"do": "open", "conn": str(name)} if not self._is_open(name):
                self._open(name, line.get("inner") is True)
            case {"do": "advance", "to": to} if type(to) in (int, float) and to <= MAX_NUMBER:
                self._advance(to)
            case {"do": "receive", "conn": str(name), "text": str(text)} if name in self.connections:
                self._feed(name, self.connections[name].receive, text)
            case {"do": "receive", "conn": str(name), "base64": str(data)} if name in self.connections:
                self._feed(name, self.connections[name].receive_binary, _bytes(data))
            case {"do": "peer_closed", "conn": str(name)} if name in self.connections:
                code = line.get("code")
                self._feed(name, self.connections[name].peer_closed, code if type(code) is int else 1006)
                self._forget(name)
            case _:
                raise NoInput

    def _is_open(self, name: str) -> bool:
        return name in self.connections and self.connections[name].state != "closed"

    def _open(self, name: str, inner: bool) -> None:
        self.opened += 1
        self.connections[name] = Connection(self.settings, recording.RecordingIds(self.seed, self.opened))
        self.inner |= {name} if inner else set()
        self._feed(name, self.connections[name].open)

    def _forget(self, name: str) -> None:
        """The connection has ended: nothing is due on it any more."""
        self.valid = {key: number for key, number in self.valid.items() if key[0] != name}

    # --- Virtual time. ---

    def _at(self, when: float, key: tuple[str, object], what: Callable[[], None]) -> None:
        number = next(self.order)
        self.valid[key] = number
        heapq.heappush(self.agenda, (when, number, lambda: self._due(key, number, what)))

    def _due(self, key: tuple[str, object], number: int, what: Callable[[], None]) -> None:
        if self.valid.get(key) == number:
            del self.valid[key]
            what()

    def _advance(self, to: float) -> None:
        while self.agenda and self.agenda[0][0] <= to:
            when, _, what = heapq.heappop(self.agenda)
            self.now = max(self.now, when)
            what()
        self.now = max(self.now, to)

    def _next(self) -> float | None:
        alive = set(self.valid.values())
        while self.agenda and self.agenda[0][1] not in alive:
            heapq.heappop(self.agenda)
        return self.agenda[0][0] if self.agenda else None

    # --- What the core wants done. ---

    def _feed(self, name: str, happened: Callable[..., list[Action]], *args: Any) -> None:
        actions = happened(*args, now=self.now)
        if name in self.inner:
            self._tell(name, happened.__name__, args, actions)
        for action in actions:
            DO[type(action)](self, name, action)

    def _tell(self, name: str, happened: str, args: tuple[Any, ...], actions: list[Action]) -> None:
        ids = self.connections[name].ids
        drawn = ids.taken() if isinstance(ids, recording.RecordingIds) else []
        told = recording.step(happened, args, self.now, drawn, actions)
        self.out.append({"out": "core", "conn": name, **told})

    def _send(self, name: str, action: Send) -> None:
        for text in codec.encode(action.event):
            self.out.append({"out": "send", "conn": name, "text": text.decode()})

    def _close(self, name: str, action: Close) -> None:
        self.out.append({"out": "close", "conn": name, "code": action.code, "reason": action.reason})
        self._forget(name)

    def _load(self, name: str, action: LoadParent) -> None:
        node = _at_once(self.store.get(0, action.id)) if action.id is not None else None
        known = {key: item for key in action.items if (item := _at_once(self.store.item(0, key)))}
        self._feed(name, self.connections[name].parent_loaded, action.turn, node, known)

    def _prepare(self, name: str, action: Prepare) -> None:
        core, turn = self.connections[name], action.turn
        try:
            *_, result = self.pipeline.prepare(turn, lambda item_id: core.item(turn, item_id))
        except Refused as refused:
            return self._feed(name, core.refused, turn, refused.problem)
        assert isinstance(result, Prepared)
        self._feed(name, core.prepared, turn, result)

    def _start(self, name: str, action: StartModel) -> None:
        self._play(name, action.turn, action.plan, 0, self.now)

    def _play(self, name: str, turn: Turn, plan: Plan, index: int, start: float) -> None:
        def go_on() -> None:
            ready = max(due(plan, index, self.now - start), index + 1)
            if ready < len(plan.parts):
                self._play(name, turn, plan, ready, start)
            self._feed(name, self.connections[name].model, turn, plan.parts[index:ready])

        self._at(start + plan.offsets[index], (name, turn.number), go_on)

    def _cancel(self, name: str, action: CancelModel) -> None:
        self.valid.pop((name, action.turn.number), None)

    def _keep(self, name: str, action: Store) -> None:
        _at_once(self.store.put(0, action.node))
        self._feed(name, self.connections[name].stored, action.turn)

    def _set_deadline(self, name: str, action: SetDeadline) -> None:
        core, key = self.connections[name], (name, action.name)
        if action.at is None:
            self.valid.pop(key, None)
        else:
            self._at(action.at, key, lambda: self._feed(name, core.deadline, action.name))

    def _bill(self, name: str, action: Bill) -> None:
        """An account is nothing that a peer can see."""


DO: dict[type, Callable[[Oracle, str, Any], None]] = {
    Send: Oracle._send,
    Close: Oracle._close,
    LoadParent: Oracle._load,
    Prepare: Oracle._prepare,
    StartModel: Oracle._start,
    CancelModel: Oracle._cancel,
    Store: Oracle._keep,
    SetDeadline: Oracle._set_deadline,
    Bill: Oracle._bill,
}


def _read(line: str) -> dict[str, Any]:
    try:
        return codec.decode(line)
    except Refused:
        raise NoInput from None


def answers(oracle: Oracle, lines: Iterable[str]) -> Iterator[str]:
    """The oracle's lines for these lines."""
    for line in filter(str.strip, lines):
        try:
            out = oracle.step(_read(line))
        except NoInput:
            out = [{"out": "error", "message": f"not an input of the oracle: {line.strip()[:200]}"}]
        yield from map(codec.dumps, out)


def run(seed: int = 0) -> int:
    """Answer standard input on standard output until it ends."""
    for line in answers(Oracle(seed), sys.stdin):
        print(line, flush=True)
    return 0
