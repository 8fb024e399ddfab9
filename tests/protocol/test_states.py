"""The transition tables themselves: complete, without dead ends, and ending where they should."""

from __future__ import annotations

import pytest

from responses_ref.protocol.events import SENDABLE
from responses_ref.protocol.states import CONNECTION, RESPONSE, STEER, TERMINAL, TURN, Table

# name -> (table, its first state, its last states)
TABLES: dict[str, tuple[Table, str, set[str]]] = {
    "RESPONSE": (RESPONSE, "idle", {"ended"}),
    "TURN": (TURN, "waiting", {"ended"}),
    "STEER": (STEER, "accepted", {"applied", "failed"}),
    "CONNECTION": (CONNECTION, "open", {"closed"}),
}


def _reached(table: Table, start: str) -> set[str]:
    seen, front = {start}, {start}
    while front:
        front = {after for (before, _), after in table.items() if before in front} - seen
        seen |= front
    return seen


@pytest.mark.parametrize("name", TABLES)
def test_every_state_is_reached_and_left(name: str) -> None:
    """Each state is reached from the first one, and leads to a last one."""
    table, start, last = TABLES[name]
    states = {state for (before, _), after in table.items() for state in (before, after)}
    assert _reached(table, start) == states
    backwards = {(after, f"{before} {what}"): before for (before, what), after in table.items()}
    for one in last:
        assert one in states
    assert set().union(*(_reached(backwards, one) for one in last)) == states


@pytest.mark.parametrize("name", ["RESPONSE", "TURN", "STEER"])
def test_an_end_is_an_end(name: str) -> None:
    """Nothing leads out of a last state: no event follows a terminal (RWS-ORD-004)."""
    table, _, last = TABLES[name]
    assert not {before for before, _ in table} & last


def test_only_a_terminal_ends_a_response() -> None:
    """The events that lead to the end are the three terminals, and they lead nowhere else (RWS-ORD-003)."""
    assert {what for (_, what), after in RESPONSE.items() if after == "ended"} == TERMINAL
    assert {after for (_, what), after in RESPONSE.items() if what in TERMINAL} == {"ended"}


def test_a_response_begins_with_created() -> None:
    """Nothing but response.created can come first, and it cannot come later (RWS-ORD-001)."""
    assert [
        (before, what) for before, what in RESPONSE if before == "idle" or what == "response.created"
    ] == [("idle", "response.created")]


def test_a_response_can_fail_anywhere() -> None:
    """Once it is created a response can fail in every state, and a stream error can come before that."""
    live = {before for before, _ in RESPONSE} - {"idle"}
    assert {before for before, what in RESPONSE if what == "response.failed"} == live
    assert {before for before, what in RESPONSE if what == "error"} == live - {"created", "paused", "erred"}


def test_after_a_stream_error_only_failed_can_come() -> None:
    """RWS-ORD-021."""
    assert [what for before, what in RESPONSE if before == "erred"] == ["response.failed"]


def test_all_events_are_known() -> None:
    """Each step of a response on the wire is an event of the table of events, and the other way round."""
    steps = {what.split()[0] for _, what in RESPONSE}
    assert steps == {kind for kind in SENDABLE if not kind.startswith("response.steer.")}


def test_items_nest_in_responses_and_parts_in_items() -> None:
    """An item is opened only where none is open, and a part only inside an item that has none open."""
    opened = {after for (_, what), after in RESPONSE.items() if what.startswith("response.output_item.added")}
    assert {before for before, what in RESPONSE if what.startswith("response.output_item.added")} == {"open"}
    assert {before for before, what in RESPONSE if "part.added" in what} <= opened
    assert {after for (_, what), after in RESPONSE.items() if what == "response.output_item.done"} == {"open"}
    assert {after for (_, what), after in RESPONSE.items() if what.endswith("part.done")} <= opened
