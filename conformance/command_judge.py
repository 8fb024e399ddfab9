"""``judge``: the invariants over anybody's recordings, streamed."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from conformance import judge as judging
from conformance import trace
from conformance.offer import read_profiles
from conformance.specdoc import Spec, load
from conformance.target import UsageError
from conformance.trace import TRACE_VERSION, Record, Unreadable


def judge(options: argparse.Namespace) -> int:
    """0 if all that was looked at holds, 1 if something required is broken in one of the files, 4 if the
    suite itself fell."""
    spec = load()
    found = {name: _read(spec, name) for name in options.traces}
    if options.json:
        rows = [{"file": name, **_data(one)} for name, one in found.items()]
        data = rows[0] if len(rows) == 1 else {"files": rows}
        print(json.dumps({"schema_version": 1, **data}, indent=1))
    else:
        print("\n".join(_text(spec, found)))
    if any(one.falls for one in found.values()):
        return 4
    return 1 if any(_counts(spec, one, name) for one in found.values() for name in one.broken) else 0


def _read(spec: Spec, name: str) -> judging.Judgement:
    """What a file shows of the profiles that it claims; raises `UsageError`."""
    try:
        with open(name, encoding="utf-8", errors="surrogateescape") as lines:
            found = judging.judge(spec, _understood(name, trace.read(lines)))
    except OSError as exc:
        raise UsageError(f"{name}: {exc.strerror}") from None
    if not found.records:
        raise UsageError(f"{name}: no record of a trace in it")
    looked_at = found.profiles | {"REFERENCE"}
    applies = {one.id for one in spec.clauses.values() if one.profile in looked_at}
    found.findings = [one for one in found.findings if one.clause in applies]
    found.held = Counter({clause: count for clause, count in found.held.items() if clause in applies})
    found.broken = Counter({clause: count for clause, count in found.broken.items() if clause in applies})
    return found


def _understood(
    name: str, records: Iterable[tuple[int, Record | Unreadable]]
) -> Iterator[tuple[int, Record | Unreadable]]:
    """The same, if what they say of themselves can be understood; raises `UsageError`."""
    for line, record in records:
        if isinstance(record, dict) and record["kind"] == "meta":
            _check_meta(f"{name}:{line}", record)
        yield line, record


def _check_meta(place: str, record: Record) -> None:
    version, profiles = record.get("trace_version", TRACE_VERSION), record.get("profiles", [])
    if version != TRACE_VERSION:
        raise UsageError(f"{place}: trace_version {version!r} is not known, only {TRACE_VERSION}")
    if not isinstance(profiles, list):
        raise UsageError(f"{place}: profiles must be a list")
    try:
        read_profiles(map(str, profiles))
    except UsageError as exc:
        raise UsageError(f"{place}: {exc}") from None


def _counts(spec: Spec, found: judging.Judgement, name: str) -> bool:
    """Whether a broken clause is a failure: a MUST of a profile that the recording claims."""
    clause = spec.clauses[name]
    return clause.must and clause.profile in found.profiles


def _data(found: judging.Judgement) -> dict[str, Any]:
    return {
        "records": found.records,
        "profiles": sorted(found.profiles),
        "findings": [attrs.asdict(one) for one in sorted(found.findings, key=lambda one: one.line)],
        "held": dict(sorted(found.held.items())),
        "broken": dict(sorted(found.broken.items())),
        "unreadable": [{"line": line, "why": why} for line, why in found.unreadable],
        "harness_errors": [attrs.asdict(one) for one in found.falls],
    }


def _text(spec: Spec, found: dict[str, judging.Judgement]) -> Iterator[str]:
    broken: Counter[str] = Counter()
    failing: set[str] = set()
    for name, one in found.items():
        yield from _findings(spec, one, f"{name}:" if len(found) > 1 else "line ")
        broken.update(one.broken)
        failing.update(clause for clause in one.broken if _counts(spec, one, clause))
    for name, count in sorted(broken.items()):
        yield f"{name} broken {count} times: {spec.clauses[name].text}"
    held = set().union(*(one.held for one in found.values())) - broken.keys()
    records = sum(one.records for one in found.values())
    warnings = len(broken) - len(failing)
    yield f"{records} records: {len(held)} held, {len(failing)} broken, {warnings} warnings"


def _findings(spec: Spec, found: judging.Judgement, place: str) -> Iterator[str]:
    for line, why in found.unreadable[: judging.KEPT]:
        yield f"{place}{line}: not a record: {why}"
    for fall in found.falls:
        yield f"{place}{fall.line}: harness-error{f' of {fall.clause}' * bool(fall.clause)}: {fall.what}"
    for one in sorted(found.findings, key=lambda one: (one.line, one.clause)):
        clause = spec.clauses[one.clause]
        mark = "" if _counts(spec, found, one.clause) else f" ({clause.keyword}, {clause.profile}: a warning)"
        yield f"{place}{one.line}: {one.clause}{mark} [{one.conn}]: {one.detail}"
