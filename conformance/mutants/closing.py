"""Mutants of CLS: who closes, when, and with which code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from conformance import raw
from conformance.mutants.harness import core_mutant, middle_mutant, mutant, server_mutant
from conformance.mutants.middle import Delay, Middle, Out
from responses_ref.protocol.actions import Action
from responses_ref.protocol.connection import Connection
from responses_ref.server.accept import Server

Event = dict[str, Any]


def close(code: int | None, reason: str = "") -> bytes:
    return raw.frame(raw.CLOSE, raw.close_payload(code, reason), masked=False)


def as_it_was(frame: raw.Frame) -> bytes:
    return raw.frame(frame.op, frame.payload, masked=False)


def code_of(frame: raw.Frame) -> int | None:
    return raw.parse_close(frame.payload)[0] if frame.op == raw.CLOSE else None


def leaves(frame: raw.Frame) -> bool:
    """Whether it is the Close of a server that has been told to stop."""
    return frame.op == raw.CLOSE and raw.parse_close(frame.payload) == (1001, "going away")


@mutant("RWS-CLS-005", on="frame")
def calls_the_limit_a_normal_end(frame: raw.Frame, memory: Event) -> Iterable[Out]:
    yield close(1000) if code_of(frame) == 1001 and not leaves(frame) else as_it_was(frame)


@mutant("RWS-CLS-001")
def closes_after_a_failure(event: Event, memory: Event) -> Iterable[Out]:
    yield event
    if event["type"] == "response.failed":
        yield close(1000)


class Answering(Middle):
    """Knows whether the client has closed, by a frame that is as it should be."""

    asked = False

    def client_frame(self, frame: raw.Frame) -> Iterable[bytes]:
        code = code_of(frame)
        legal = raw.may_be_sent(code) if code is not None else not frame.payload
        self.asked |= frame.op == raw.CLOSE and legal
        return super().client_frame(frame)


@middle_mutant("RWS-CLS-002")
class LeavesWithoutAnAnswer(Answering):
    def frame(self, frame: raw.Frame) -> Iterable[Out]:
        return [] if frame.op == raw.CLOSE and self.asked else super().frame(frame)


@middle_mutant("RWS-CLS-011")
class AnswersEveryCloseWith1000(Answering):
    def frame(self, frame: raw.Frame) -> Iterable[Out]:
        return [close(1000)] if frame.op == raw.CLOSE and self.asked else super().frame(frame)


@server_mutant("RWS-CLS-012")
def waits_for_an_answer_for_ever(server: Server) -> None:
    server.limits = attrs.evolve(server.limits, close_seconds=1e9)


@middle_mutant("RWS-CLS-006")
class SaysGoodbyeInTheMiddle(Middle):
    def event(self, event: Event) -> Iterable[Out]:
        self.memory["running"] = event["type"] != "response.completed"
        return [event]

    def frame(self, frame: raw.Frame) -> Iterable[Out]:
        cut = code_of(frame) == 1002 and self.memory.get("running")
        return [close(1000)] if cut else super().frame(frame)


@mutant("RWS-CLS-007", on="frame")
def leaves_as_if_all_was_done(frame: raw.Frame, memory: Event) -> Iterable[Out]:
    yield close(1000) if leaves(frame) else as_it_was(frame)


@mutant("RWS-CLS-008", on="frame")
def lets_idle_connections_wait_too(frame: raw.Frame, memory: Event) -> Iterable[Out]:
    if leaves(frame):
        yield Delay(3)
    yield as_it_was(frame)


class _Hasty(Connection):
    __slots__ = ()

    def drain(self, *, now: float) -> list[Action]:
        self.settings = attrs.evolve(self.settings, grace=0.1)
        return super().drain(now=now)


@core_mutant("RWS-CLS-009")
def cuts_running_responses_off(core: Connection) -> None:
    core.__class__ = _Hasty


class _SaysNothingMore(Connection):
    __slots__ = ()

    def refuse(self, why: Any, lane: str | None = None) -> None:
        if why.code != "server_shutting_down":
            super().refuse(why, lane)


@core_mutant("RWS-CLS-010")
def answers_nothing_while_it_drains(core: Connection) -> None:
    core.__class__ = _SaysNothingMore
