"""Mutants of SEQ: the numbers of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.mutants.harness import mutant
from conformance.mutants.middle import Out

Event = dict[str, Any]


@mutant("RWS-SEQ-002")
def numbers_step_by_two(event: Event, memory: Event) -> Iterable[Out]:
    if "sequence_number" in event:
        event = {**event, "sequence_number": event["sequence_number"] * 2}
    yield event


@mutant("RWS-SEQ-005")
def numbers_begin_with_one(event: Event, memory: Event) -> Iterable[Out]:
    if "sequence_number" in event:
        event = {**event, "sequence_number": event["sequence_number"] + 1}
    yield event
