"""LAN: which lane an event names. A response is of the lane that its first event names."""

from __future__ import annotations

from typing import Final

from conformance.invariants.base import IN_RESPONSE, Invariant, Says
from conformance.invariants.common import CREATED, added, live, s2c
from conformance.state import Event, Lane, Response

_FIRST: Final = "response.created"
_ASKED: Final = '> {"type":"response.create","stream_id":"x"}\n'
_CREATED: Final = s2c("created", response={"id": "r1"}, stream_id="x")
_BOTH: Final = '> {"type":"response.create"}\n' + _ASKED + CREATED


def _begins(event: Event, response: Response) -> bool:
    return event.type == _FIRST and response.events == 0


def _may_succeed(response: Response) -> bool:
    """Whether it may be a successor that no create asks for; not all servers say whose."""
    before = response.lane.last
    return before is not None and not before.notes.keys().isdisjoint(("steered", "accepted"))


def _waiting(event: Event, *, named: bool) -> list[Lane]:
    """The lanes on which a create is unanswered: the named ones, or the default one."""
    lanes = event.conn.lanes.values()
    return [lane for lane in lanes if lane.pending and (lane.name is not None) is named]


class NamedInEveryEvent(Invariant):
    """That an answer to a steer names the lane is nobody's rule."""

    clause = "RWS-LAN-003"
    on = (IN_RESPONSE,)
    kind = "behaviour"
    transports = ("ws",)
    good = _ASKED + _CREATED + s2c("failed", response={"id": "r1"}, stream_id="x")
    bad = _ASKED + _CREATED + s2c("failed", response={"id": "r1"})

    def see(self, event: Event) -> Says:
        response, kind = live(event), str(event.type)
        if response is None or kind.startswith("response.steer."):
            return None
        lane, named = response.lane.name, event.get("stream_id")
        if lane is not None:
            return named == lane or f"{kind} names the lane {named!r}, its response is on {lane!r}"
        if response.asked or _may_succeed(response) or not _begins(event, response):
            return None
        others = [other.name for other in _waiting(event, named=True)]
        return f"{kind} names no lane, and creates wait only on {others}" if others else None


class DefaultLaneIsNotNamed(Invariant):
    """An event that names another named lane than its response's is told by RWS-LAN-003."""

    clause = "RWS-LAN-004"
    on = (IN_RESPONSE,)
    kind = "behaviour"
    transports = ("ws",)
    good = _BOTH + added("message")
    bad = _BOTH + s2c("failed", response={"id": "r1"}, stream_id="x")

    def see(self, event: Event) -> Says:
        response, named = live(event), event.get("stream_id")
        if response is None:
            return None
        if response.lane.name is None and response.asked:
            return named is None or f"{event.type} names the lane {named!r}, its response is on none"
        if response.asked or response.lane.last or not _begins(event, response):
            return None
        waits = _waiting(event, named=False) and not _waiting(event, named=True)
        return f"{event.type} names the lane {named!r}, and creates wait only on none" if waits else None
