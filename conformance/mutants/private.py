"""Mutants of CDX: the additions of a private client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.mutants.harness import mutant
from conformance.mutants.middle import Answer, Head, Out

Event = dict[str, Any]


@mutant("RWS-CDX-001", on="request")
def asks_what_was_processed(message: Any, memory: Event) -> Iterable[Out]:
    if message["type"] == "response.processed":
        message = {**message, "type": "response.unheard_of"}
    yield message


@mutant("RWS-CDX-003", on="request")
def overlooks_an_interrupt(message: Any, memory: Event) -> Iterable[Out]:
    if message["type"] != "response.interrupt":
        yield message


@mutant("RWS-CDX-004", on="request")
def includes_nothing(message: Any, memory: Event) -> Iterable[Out]:
    if message.get("include"):
        message = {**message, "include": "nothing"}
    yield message


@mutant("RWS-CDX-006", on="answer")
def asks_private_clients_to_leave(answer: Answer, memory: Event, head: Head) -> None:
    if head.get("x-codex-window-id") == "w:0" and not head.get("x-codex-turn-state"):
        answer.status, answer.reason = 403, "Forbidden"


@mutant("RWS-CDX-007", on="answer")
def forgets_the_turn_state(answer: Answer, memory: Event, head: Head) -> None:
    answer.set("x-codex-turn-state", None)
