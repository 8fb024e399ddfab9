"""What a target has that nobody told: one short conversation for each profile (INTERPRETING.md section 5).

A server that does not do what either kind of server would do is not guessed about.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import attrs

from conformance import transcript
from conformance.runner import run_case
from conformance.session import Outcome, Patience
from conformance.state import TERMINAL
from conformance.target import Target
from conformance.transcript import Case

# No wait of a probe lasts longer.
SECONDS: Final = 3.0

Json = dict[str, Any]
CREATE: Final = '> {"type":"response.create","model":"scripted",%s"input":"say: ready"}'
TYPES: Final = ("error", *sorted(TERMINAL))
ENDS: Final = f'<... until {{"type":"<in:{",".join(TYPES)}>"}}'


class Unclear(Exception):
    """Whether a target has a profile cannot be said; the text says why."""


def said(outcome: Outcome) -> list[Json]:
    """The JSON objects that the server sent in a case."""
    texts = (one["text"] for one in outcome.records if one["dir"] == "s2c" and one["kind"] == "text")
    values = (_object(text) for text in texts)
    return [value for value in values if value is not None]


def _object(text: str) -> Json | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _end(events: list[Json]) -> Json:
    """The message that ended the probe's turn; others may have come after it."""
    return next(event for event in events if event.get("type") in TYPES)


def _lanes(events: list[Json]) -> bool:
    if any(event.get("stream_id") == "probe" for event in events):
        return True
    last = _end(events)
    if last["type"] == "error" and "stream_id" not in json.dumps(last):
        raise Unclear(f"a create with a `stream_id` was answered with {json.dumps(last)[:200]}")
    return False


def _warm(events: list[Json]) -> bool:
    last = _end(events)
    if last["type"] in ("response.failed", "response.incomplete"):
        raise Unclear(f"a create with `generate` false ended with {last['type']}")
    response = last.get("response")
    return last["type"] == "response.completed" and isinstance(response, dict) and not response.get("output")


def _steer(events: list[Json]) -> bool:
    return any(event.get("type") == "response.steer.failed" for event in events)


@attrs.frozen
class Probe:
    """A conversation, and what its messages, the last of which ends it, say about the profile."""

    case: Case
    has: Callable[[list[Json]], bool]


def _probe(has: Callable[[list[Json]], bool], *lines: str) -> Probe:
    header = ["id: a-probe", "covers: RWS-ORD-001"]
    return Probe(transcript.parse("the suite itself", 1, [*header, *lines]), has)


PROBES: Final = {
    "LANES": _probe(_lanes, CREATE % '"stream_id":"probe",', ENDS),
    "WARM": _probe(_warm, CREATE % '"generate":false,', ENDS),
    "STEER": _probe(
        _steer,
        '> {"type":"response.steer","previous_response_id":"resp_probe","input":"say: nothing"}',
        CREATE % "",
        '<... until {"type":"response.completed"}',
    ),
}


async def has(target: Target, profile: str) -> bool:
    """Whether a server that can answer a plain turn has a profile; raises `Unclear`."""
    probe = PROBES.get(profile)
    if probe is None:
        raise Unclear("there is no probe for it")
    outcome = await run_case(probe.case, target, Patience(now=SECONDS))
    if outcome.broken or outcome.harness_error:
        raise Unclear(str(outcome.broken or outcome.harness_error))
    return probe.has(said(outcome))
