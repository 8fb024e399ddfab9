"""``run``: play the cases against a server, write the reports, print the sum."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Final

import attrs
import trio

from conformance import core
from conformance.known import Known, read_known
from conformance.offer import Features, Foreign, Offer, read_features, read_profiles
from conformance.report import forms, write
from conformance.report.data import Report, build
from conformance.specdoc import Spec, load
from conformance.suite import CaseResult, Run, Suite, narrow
from conformance.target import UsageError, parse_url
from conformance.transcript import Case
from conformance.verdict import Result, Selection, exit_code, judge_all

OWN_JOBS: Final = 4


def run(options: argparse.Namespace) -> int:
    """``run``: play the cases against a server, write the reports, print the sum."""
    spec = load()
    cases, only = narrow(spec, options.glob)
    known = read_known(Path(options.known_failures), spec) if options.known_failures else []
    asked = _asked(options)
    if asked.core:
        cases = [case for case in cases if not core.needs_socket(case, asked.features.profiles)]
    _writable(options)
    progress = Progress(len(cases))
    report, run, results = trio.run(_run, asked, spec, cases, only, known, progress)
    progress.clear()
    if options.report:
        write.directory(Path(options.report), report, run)
    if options.junit:
        write.text(Path(options.junit), forms.junit(report))
    if options.json:
        print(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        print(forms.console(report, written=bool(options.report)))
    return exit_code(results)


def _writable(options: argparse.Namespace) -> None:
    """Find out before a run of minutes that its reports cannot be written; raises `UsageError`."""
    if options.report:
        write.try_directory(Path(options.report))
    if options.junit:
        write.try_file(Path(options.junit))


@attrs.frozen
class Asked:
    """What the options of ``run`` ask for; neither URL nor core: the reference server inside."""

    url: str | None
    features: Features
    key: str | None
    jobs: int
    core: tuple[str, ...] = ()

    def offer(self, nursery: trio.Nursery) -> Offer:
        if self.url is not None:
            return Foreign(self.url, self.features, self.key)
        if self.core:
            return core.Core(self.core, self.features, nursery)
        from conformance.embedded import Embedded

        return Embedded(self.features, nursery)


async def _run(
    asked: Asked,
    spec: Spec,
    cases: list[Case],
    only: frozenset[str] | None,
    known: list[Known],
    progress: Progress,
) -> tuple[Report, Run, list[Result]]:
    async with trio.open_nursery() as nursery:
        offer, features = asked.offer(nursery), asked.features
        selection = Selection(profiles=features.profiles, scripted=features.scripted, only=only)
        run = await Suite(spec, offer, selection, jobs=asked.jobs, progress=progress).play(cases)
        nursery.cancel_scope.cancel()
    if asked.core:
        selection = attrs.evolve(selection, beyond=core.beyond(spec, run.ledger, features.profiles))
    results = judge_all(spec, run.ledger, selection, known)
    return build(results, run, features, offer.name, features.profiles), run, results


def _asked(options: argparse.Namespace) -> Asked:
    """Understand the options; raises `UsageError`."""
    if options.jobs is not None and options.jobs < 1:
        raise UsageError("--jobs needs a number from 1")
    if options.url is None and options.core is None:
        return Asked(None, _own_features(options), None, options.jobs or OWN_JOBS)
    command = _command(options)
    features = read_features(Path(options.features)) if options.features else Features()
    if options.profiles:
        features = attrs.evolve(features, profiles=read_profiles(options.profiles))
    if options.model:
        features = attrs.evolve(features, model=options.model, scripted=False)
    return Asked(options.url, features, _key(options.api_key_env), options.jobs or 1, command)


def _command(options: argparse.Namespace) -> tuple[str, ...]:
    """The words of ``--core``, none for a URL; raises `UsageError`."""
    if options.core is None:
        parse_url(options.url)
        return ()
    for name, value in (("a URL", options.url), ("--api-key-env", options.api_key_env)):
        if value:
            raise UsageError(f"--core and {name} exclude each other")
    return core.command_of(options.core)


def _own_features(options: argparse.Namespace) -> Features:
    for name in ("features", "model", "api_key_env"):
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} needs a URL")
    from conformance.embedded import landed

    return Features(profiles=read_profiles(options.profiles) if options.profiles else landed())


def _key(variable: str | None) -> str | None:
    if not variable:
        return None
    key = os.environ.get(variable)
    if not key:
        raise UsageError(f"the environment variable {variable} is empty or not set")
    return key


class Progress:
    """One line that is written over, on a terminal only."""

    def __init__(self, total: int) -> None:
        self.total, self.count, self.bad = total, 0, 0
        self.shown = sys.stderr.isatty()

    def __call__(self, result: CaseResult) -> None:
        self.count += 1
        self.bad += result.state != "ran"
        if self.shown:
            text = f"{self.count}/{self.total} cases, {self.bad} not played to their end: {result.case.id}"
            print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
