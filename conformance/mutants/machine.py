"""Mutants by machine: recorded turns of the reference server, changed in one place each, and judged.

Each required field dropped, each pair of neighbours swapped, each event doubled, each type changed, a number
skipped, an id changed. Where events move, they are numbered anew: that the numbers tell is no merit. What the
judge lets pass must stand in `survivors`, with the reason.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import attrs

from conformance.judge import Judge
from conformance.mutants.harness import play_run
from conformance.mutants.survivors import SURVIVORS
from conformance.specdoc import Spec
from conformance.tables import ArrayOf, Choice, Named, Table, Type
from conformance.trace import Record

# The turns to work on: one of each kind of output, and of each end.
CASES: Final = (
    "a-whole-turn",
    "a-refusal",
    "reasoning-and-an-answer",
    "a-tool-loop",
    "a-custom-tool",
    "a-response-that-fails",
    "events-a-stream-error",
    "response-incomplete-by-script",
    "events-several-items",
    "events-compaction",
    "an-error-and-a-next-try",
    "two-lanes-side-by-side",
    "steering-a-running-response",
    "steering-a-response-that-calls",
    "steering-a-response-that-fails",
    "steering-nobody",
)

# What has to be caught at least.
SHARE: Final = 0.99

# Types that an event is given instead of its own; the first is none.
_OTHERS: Final = ("response.something", "response.output_text.delta", "response.in_progress", "error")

Json = dict[str, Any]
Key = tuple[str, str, str]


@attrs.frozen
class Changed:
    """A recorded turn with one change. ``where`` tells people what was done to it."""

    change: str
    event: str
    where: str
    records: tuple[Record, ...]


@attrs.frozen
class Score:
    """How many changes of each kind there are; which of them passed for a reason, and which for none.

    ``stale``: entries of `SURVIVORS` that no change needs.
    """

    totals: dict[str, int]
    excused: tuple[str, ...]
    missed: tuple[str, ...]
    stale: tuple[Key, ...]

    @property
    def total(self) -> int:
        return sum(self.totals.values())

    @property
    def caught(self) -> int:
        return self.total - len(self.excused) - len(self.missed)

    @property
    def good(self) -> bool:
        return self.caught >= SHARE * self.total and not self.missed and not self.stale

    def told(self) -> str:
        """The text for a terminal."""
        out = [f"{change:<20} {count}" for change, count in self.totals.items()]
        out += [f"passed for a reason: {line}" for line in self.excused]
        out += [f"passed: {line}" for line in self.missed]
        out += [f"listed as a survivor, but caught: {', '.join(key)}" for key in self.stale]
        share = f"{self.caught / self.total:.2%}"
        passed = f"{len(self.excused)} passed for a reason, {len(self.missed)} for none"
        return "\n".join([*out, f"{self.total} changes, {self.caught} caught ({share}), {passed}"])


def score(spec: Spec) -> Score:
    """Judge all of them."""
    totals: Counter[str] = Counter()
    used: set[Key] = set()
    excused, missed = [], []
    for case, changed in every(spec):
        totals[changed.change] += 1
        if not _is_caught(spec, changed):
            line = f"{case}: {changed.change} {changed.where}"
            keys = [(name, changed.change, changed.event) for name in (case, "*")]
            key = next((key for key in keys if key in SURVIVORS), None)
            if key is None:
                missed.append(line)
            else:
                used.add(key)
                excused.append(f"{line} ({SURVIVORS[key]})")
    return Score(dict(totals), tuple(excused), tuple(missed), tuple(sorted(SURVIVORS.keys() - used)))


def every(spec: Spec) -> Iterator[tuple[str, Changed]]:
    """(case, one change to its trace)."""
    chosen = [spec.cases[name] for name in CASES if name in spec.cases]
    for name, result in play_run(spec, chosen)[1].cases.items():
        records = [record for record in result.records if record["kind"] in ("text", "http")]
        yield from ((name, changed) for changed in changes(spec, records))


def _is_caught(spec: Spec, changed: Changed) -> bool:
    judge = Judge(spec)
    for line, record in enumerate(changed.records, 1):
        judge.feed(line, record)
    return bool(judge.finish().broken)


# --- what is done to a turn -------------------------------------------------------------------------


def changes(spec: Spec, records: list[Record]) -> Iterator[Changed]:
    """Every change to every event of the server in these records."""
    tables = _Tables(spec)
    places = [place for place, record in enumerate(records) if _event(record) is not None]
    for place in places:
        event = _event(records[place])
        assert event is not None
        kind, where = str(event["type"]), f"{event['type']} at record {place}"
        for path in tables.required(event):
            yield _with(records, place, "drop", kind, f"{_text(path)} of {where}", _without(event, path))
        for path in _ids(event):
            made = _set(event, path, "id_of_something_else")
            yield _with(records, place, "rename", kind, f"{_text(path)} of {where}", made)
        for other in _OTHERS:
            if other != kind:
                made = {**event, "type": other}
                yield _with(records, place, "retype", kind, f"{where} to {other}", made)
        yield Changed("double", kind, where, tuple(_doubled(records, place)))
        if event.get("sequence_number") is not None:
            yield Changed("skip a number from", kind, where, tuple(_shifted(records, place, 1)))
    for first, second in pairwise(places):
        if second == first + 1 and _event(records[first]) != _event(records[second]):
            event = _event(records[first]) or {}
            where = f"{event['type']} at record {first}"
            yield Changed("swap", str(event["type"]), where, tuple(_swapped(records, first)))


def _event(record: Record) -> Json | None:
    """The server's event in a record, if it is one of the API."""
    if record["dir"] != "s2c" or record["kind"] != "text" or not record["text"].startswith("{"):
        return None
    event = json.loads(record["text"])
    known = isinstance(event, dict) and ("sequence_number" in event or event.get("type") == "error")
    return event if known else None


def _record(like: Record, event: Json) -> Record:
    return {**like, "text": json.dumps(event)}


def _with(records: list[Record], place: int, change: str, kind: str, where: str, event: Json) -> Changed:
    made = [*records[:place], _record(records[place], event), *records[place + 1 :]]
    return Changed(change, kind, where, tuple(made))


def _shifted(records: list[Record], start: int, by: int) -> Iterator[Record]:
    """The records, with the response's numbers from ``start`` on moved, until they begin anew."""
    ended = False
    for place, record in enumerate(records):
        event = _event(record) if place >= start and not ended else None
        number = event.get("sequence_number") if event else None
        if event is None or number is None or (place > start and number == 0):
            ended = ended or number is not None
            yield record
        else:
            yield _record(record, {**event, "sequence_number": number + by})


def _doubled(records: list[Record], place: int) -> list[Record]:
    return [*records[: place + 1], *_shifted(records[place:], 0, 1)]


def _swapped(records: list[Record], first: int) -> list[Record]:
    one, other = _event(records[first]) or {}, _event(records[first + 1]) or {}
    if other.get("sequence_number", -1) == one.get("sequence_number", 0) + 1:
        one, other = (
            {**one, "sequence_number": other["sequence_number"]},
            {**other, "sequence_number": one["sequence_number"]},
        )
    changed = [_record(records[first], other), _record(records[first + 1], one)]
    return [*records[:first], *changed, *records[first + 2 :]]


# --- places inside of an event ----------------------------------------------------------------------

Path = tuple[Any, ...]
_IDS: Final = frozenset(("id", "item_id", "call_id", "previous_response_id"))


def _text(path: Path) -> str:
    return ".".join(map(str, path))


def _ids(event: Json) -> Iterator[Path]:
    """The ids by which an event names responses, items, calls and steers."""
    for path, value in _walk(event):
        if path[-1] in _IDS and isinstance(value, str):
            yield path


def _walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key), value[key]
        yield from _walk(value[key], (*path, key))


def _set(event: Json, path: Path, value: Any) -> Json:
    made = copy.deepcopy(event)
    _parent(made, path)[path[-1]] = value
    return made


def _without(event: Json, path: Path) -> Json:
    made = copy.deepcopy(event)
    del _parent(made, path)[path[-1]]
    return made


def _parent(value: Any, path: Path) -> Any:
    for key in path[:-1]:
        value = value[key]
    return value


class _Tables:
    """Finds the required fields of an event by the field tables, also inside of the objects it holds."""

    def __init__(self, spec: Spec) -> None:
        self.every = [table for table in spec.tables if table.kind == "every"]
        self.by_name = {(table.kind, name): table for table in spec.tables for name in table.names}

    def required(self, event: Json) -> Iterator[Path]:
        found = self.by_name.get(("event", str(event.get("type"))))
        for table in (*self.every, *((found,) if found else ())):
            yield from self._of_table(table, event, ())
        if "sequence_number" in event:
            yield ("sequence_number",)

    def _of_table(self, table: Table, value: Any, path: Path) -> Iterator[Path]:
        for field in table.fields:
            if isinstance(value, dict) and field.name in value:
                if field.presence == "always":
                    yield (*path, field.name)
                yield from self._of_type(field.type, value[field.name], (*path, field.name))

    def _of_type(self, kind: Type, value: Any, path: Path) -> Iterator[Path]:
        if isinstance(kind, Choice):
            for option in kind.options:
                yield from self._of_type(option, value, path)
        elif isinstance(kind, ArrayOf) and isinstance(value, list):
            for place, inner in enumerate(value):
                yield from self._of_type(kind.of, inner, (*path, place))
        elif isinstance(kind, Named) and isinstance(value, dict):
            member = (kind.name, str(value.get("type")))
            table = self.by_name.get(("object", kind.name)) or self.by_name.get(member)
            if table:
                yield from self._of_table(table, value, path)
