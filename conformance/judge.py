"""Feeds a trace to all invariants: a record at a time, parsed once, to each only what it asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final

import attrs

from conformance.demux import Demux
from conformance.invariants import REGISTRY
from conformance.invariants.base import Invariant, Says
from conformance.invariants.shapes import shapes_of
from conformance.specdoc import Spec
from conformance.state import Connection, Event
from conformance.trace import Record, Unreadable

# Findings kept for each clause; the others are only counted.
KEPT: Final = 20


@attrs.frozen
class Finding:
    """A clause that was broken at a line of the trace (counted from 1, or as the caller numbers them)."""

    clause: str
    line: int
    conn: str
    t: float
    detail: str
    kind: str


@attrs.frozen
class Fall:
    """An exception of ours: which clause was being judged (empty: the line was being sorted), and where."""

    clause: str
    line: int
    what: str


@attrs.define
class Judgement:
    """What a trace shows. ``held`` and ``broken`` count how often each clause was looked at."""

    findings: list[Finding] = attrs.Factory(list)
    held: Counter[str] = attrs.Factory(Counter)
    broken: Counter[str] = attrs.Factory(Counter)
    event_types: Counter[str] = attrs.Factory(Counter)
    error_codes: Counter[str] = attrs.Factory(Counter)
    unreadable: list[tuple[int, str]] = attrs.Factory(list)
    # Where the judge itself fell.
    falls: list[Fall] = attrs.Factory(list)
    # What the recording says of its server; CORE where it says nothing.
    profiles: frozenset[str] = frozenset(("CORE",))
    records: int = 0


Entry = tuple[str, str, tuple[str, ...], Callable[[Event], Says]]


class Judge:
    """The judge of one trace. Feed it every record in order, then `finish`."""

    def __init__(self, spec: Spec, *, classes: Iterable[type[Invariant]] | None = None) -> None:
        self.result = Judgement()
        self._demux = Demux()
        self._shapes = shapes_of(spec) if spec.tables or spec.errors else None
        self._unless = {clause.id: set(clause.unless) for clause in spec.clauses.values() if clause.unless}
        self._table: dict[str, list[Entry]] = {}
        every = chain.from_iterable(REGISTRY.values()) if classes is None else classes
        for invariant in every:
            if invariant.clause in spec.clauses:
                self._register(invariant())
        self._plans: dict[tuple[str, str, str | None, bool], list[Entry]] = {}

    def _register(self, one: Invariant) -> None:
        entry = (one.clause, one.kind, one.transports, one.see)
        for key in one.on:
            self._table.setdefault(key, []).append(entry)

    # --- feeding ------------------------------------------------------------------------------------

    def feed(self, line: int, record: Record | Unreadable) -> None:
        """Judge one record; ``line`` is how findings name it."""
        if isinstance(record, Unreadable):
            self.result.unreadable.append((line, record.why))
            return
        kind = record["kind"]
        if kind == "meta":
            self._meta(record)
            return
        self.result.records += 1
        if kind == "note":
            return
        try:
            for piece in self._demux.pieces(record):
                self._take(line, piece)
        except Exception as exc:  # the firewall: whatever a line holds, the others are judged
            self._fall("", line, exc)

    def _take(self, line: int, record: Record) -> None:
        event = self._demux.event(record, line)
        if event.dir == "s2c" and event.body is not None:
            self._count(event)
        self._ask_all(self._plan(event), event)
        if event.kind == "eof":
            self._end(event.conn, event)
        self._demux.apply(event)

    def _meta(self, record: Record) -> None:
        self._demux.dialects = _names(record.get("dialects"))
        self.result.profiles = frozenset(_names(record.get("profiles")) | {"CORE"})

    def finish(self) -> Judgement:
        """The trace is over: connections that are still open are judged as they stand."""
        for conn in list(self._demux.conns.values()):
            record = {"t": 0.0, "conn": conn.name, "dir": "s2c", "kind": "end"}
            self._end(conn, Event(record, self.result.records, conn))
        self._demux.conns.clear()
        return self.result

    def _end(self, conn: Connection, event: Event) -> None:
        self._ask_all([entry for entry in self._table.get("end", ()) if conn.transport in entry[2]], event)

    def _count(self, event: Event) -> None:
        if event.type is None:
            return
        self.result.event_types[event.type] += 1
        if event.type in ("error", "response.failed"):
            code = event.get("error", "code") or event.get("response", "error", "code")
            if isinstance(code, str):
                self.result.error_codes[code] += 1
        if self._shapes is not None:
            for clause, fault in self._shapes.see(event):
                self._tell(clause, "schema", True if fault is None else fault, event)

    def _plan(self, event: Event) -> list[Entry]:
        """The invariants for an event, remembered by what decides about them."""
        key = (event.dir, event.kind, event.type, event.response is not None)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._find(event)
        if event.transport != "ws":
            return [entry for entry in plan if "sse" in entry[2]]
        return plan

    def _find(self, event: Event) -> list[Entry]:
        keys = [f"{event.dir} {event.kind}"]
        if event.body is not None:
            mark = "> " if event.dir == "c2s" else ""
            keys += [f"{mark}*"] if event.type is None else [f"{mark}*", mark + event.type]
            if event.dir == "s2c" and event.response is not None:
                keys.append("response.*")
        found: dict[Any, Entry] = {}
        for key in keys:
            for entry in self._table.get(key, ()):
                found.setdefault((entry[0], id(getattr(entry[3], "__self__", entry[3]))), entry)
        return [entry for entry in found.values() if event.transport == "sse" or "ws" in entry[2]]

    # --- what was said ------------------------------------------------------------------------------

    def _ask_all(self, entries: list[Entry], event: Event) -> None:
        """The innermost loop: a hundred thousand records ask two million questions."""
        held, unless = self.result.held, self._unless
        for clause, kind, _, see in entries:
            try:
                said = see(event)
            except Exception as exc:  # the firewall of one clause: the others are asked all the same
                self._fall(clause, event.line, exc)
                continue
            if said is True and clause not in unless:
                held[clause] += 1
            elif said is not None:
                self._tell(clause, kind, said, event)

    def _fall(self, clause: str, line: int, exc: Exception) -> None:
        if sum(one.clause == clause for one in self.result.falls) < KEPT:
            self.result.falls.append(Fall(clause, line, f"{type(exc).__name__}: {exc}"))

    def _tell(self, clause: str, kind: str, said: bool | str, event: Event) -> None:
        unless = self._unless.get(clause)
        if unless and unless & event.conn.dialects:
            return
        if said is True:
            self.result.held[clause] += 1
            return
        self.result.broken[clause] += 1
        if self.result.broken[clause] <= KEPT:
            detail = said if isinstance(said, str) else "does not hold"
            self.result.findings.append(Finding(clause, event.line, event.conn.name, event.t, detail, kind))


def _names(value: Any) -> set[str]:
    return {str(name).upper() for name in value} if isinstance(value, list) else set()


def judge(spec: Spec, numbered: Iterable[tuple[int, Record | Unreadable]]) -> Judgement:
    """Judge a whole trace, in one pass and without keeping it."""
    one = Judge(spec)
    for line, record in numbered:
        one.feed(line, record)
    return one.finish()
