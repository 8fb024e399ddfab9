"""Reads the specification: ``spec/*.md`` and ``cases/*.md`` -> `Spec` (INTERPRETING.md sections 1 to 3).

``python -m conformance.specdoc`` checks the text and writes ``spec/requirements.json``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from conformance import tables, transcript
from conformance.places import CLAUSE_ID, Malformed, Place, SpecError, cases_dir, spec_dir
from conformance.tables import ErrorRow, Table
from conformance.transcript import Case

# fmt: off
PROFILES: Final = (
    "CORE", "WARM", "LANES", "STEER", "STORE", "HTTP", "OPENRESPONSES", "APPEND", "CODEX", "REFERENCE",
)
AREAS: Final = (
    "HS", "FRM", "CRE", "ORD", "SEQ", "ITM", "FC", "RES", "ERR", "CTX", "CAC", "WRM", "LIM", "CLS", "LAN",
    "STR", "HTTP", "SIM", "APP", "CDX", "CLI",
)
# fmt: on
SPEC_VERSION: Final = "0.1"


@attrs.frozen
class Clause:
    """One requirement. ``test`` is wire, wire+scripted, client or untestable (then ``reason`` says why)."""

    id: str
    text: str
    keyword: str
    profile: str
    role: str
    test: str
    since: str
    provenance: str
    place: Place
    reason: str = ""
    refines: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def must(self) -> bool:
        return self.keyword.startswith("MUST")

    @property
    def testable(self) -> bool:
        """Whether a server can be judged by it."""
        return self.role == "server" and self.test.startswith("wire")


@attrs.define(eq=False)
class Spec:
    """Everything executable in the text. ``clauses`` and ``cases`` are in the order of the text."""

    clauses: dict[str, Clause] = attrs.Factory(dict)
    tables: list[Table] = attrs.Factory(list)
    errors: list[ErrorRow] = attrs.Factory(list)
    cases: dict[str, Case] = attrs.Factory(dict)


def load(spec: Path | None = None, cases: Path | None = None) -> Spec:
    """Read the specification and the further cases; raises `SpecError` with all that is wrong."""
    out, problems = read(spec or spec_dir(), cases or cases_dir())
    if problems:
        raise SpecError(problems)
    return out


def read(spec: Path, cases: Path | None = None) -> tuple[Spec, list[str]]:
    """As `load`, but gives the problems back beside what could be read."""
    out, problems = Spec(), []
    for directory in filter(None, (spec, cases)):
        for path in sorted(directory.glob("*.md")):
            name = f"{directory.name}/{path.name}"
            problems += _Document(name, path.read_text("utf-8"), out).read()
    if not out.clauses and not problems:
        problems.append(f"{spec}: no clause found")
    return out, problems + list(_cross_check(out))


# --- one file ---------------------------------------------------------------------------------------

_CLAUSE: Final = re.compile(rf"\*\*\[({CLAUSE_ID})\]\*\*\s*(.*)")
_KEYWORD: Final = re.compile(r"\b(MUST NOT|SHOULD NOT|MUST|SHOULD|MAY)\b")


class _Document:
    """Scans the lines of one file; faults are collected, so that a writer sees all of them at once."""

    def __init__(self, name: str, text: str, out: Spec) -> None:
        self.name, self.out = name, out
        self.lines = text.split("\n")
        self.problems: list[str] = []
        self.at = 0

    def read(self) -> list[str]:
        while self.at < len(self.lines):
            start = self.at
            try:
                self.block(self.lines[self.at])
            except Malformed as exc:
                self.problems.append(f"{self.name}:{exc.line}: {exc}")
            self.at = max(self.at, start + 1)
        return self.problems

    def block(self, line: str) -> None:
        number = self.at + 1
        if fence := re.match(r"(```+|~~~+)\s*(\S*)", line):
            self.fence(fence[1], fence[2])
        elif clause := _CLAUSE.match(line):
            self.clause(number, clause[1], clause[2])
        elif caption := tables.read_caption(number, line):
            self.table(caption)

    def fence(self, mark: str, info: str) -> None:
        first = self.at + 1
        self.at = first
        while self.at < len(self.lines) and self.lines[self.at].rstrip() != mark:
            self.at += 1
        if self.at == len(self.lines):
            raise Malformed(first, "a fenced block is not closed")
        body = self.lines[first : self.at]
        self.at += 1
        if info == "transcript":
            case = transcript.parse(self.name, first + 1, body)
            if case.id in self.out.cases:
                where = self.out.cases[case.id].place
                raise Malformed(first, f"the case id {case.id} is already used at {where}")
            self.out.cases[case.id] = case

    def clause(self, number: int, name: str, first: str) -> None:
        text = [first]
        self.at += 1
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            if line.startswith("`") and " · " in line:
                break
            if not line or _CLAUSE.match(line):
                raise Malformed(number, f"{name} has no line of fields")
            text.append(line)
            self.at += 1
        else:
            raise Malformed(number, f"{name} has no line of fields")
        self.at += 1
        clause = _read_clause(Place(self.name, number), name, " ".join(text).strip(), line.strip("`"))
        if name in self.out.clauses:
            raise Malformed(number, f"{name} is already used at {self.out.clauses[name].place}")
        self.out.clauses[name] = clause

    def table(self, caption: tables.Caption) -> None:
        self.at += 1
        while self.at < len(self.lines) and not self.lines[self.at].strip():
            self.at += 1
        rows = []
        while self.at < len(self.lines) and self.lines[self.at].startswith("|"):
            rows.append((self.at + 1, tables.split_row(self.lines[self.at])))
            self.at += 1
        if len(rows) < 3:
            raise Malformed(caption.line, "no table with rows follows the caption")
        if caption.kind == "errors":
            self.out.errors += tables.read_errors(self.name, caption, rows)
        else:
            self.out.tables.append(tables.read_fields(self.name, caption, rows))


def _read_clause(place: Place, name: str, text: str, fields: str) -> Clause:
    keywords = _KEYWORD.findall(re.sub(r"`[^`]*`", "", text))
    if len(keywords) != 1:
        found = ", ".join(keywords) or "none"
        raise Malformed(place.line, f"{name} needs exactly one keyword, found: {found}")
    if not text.endswith("."):
        raise Malformed(place.line, f"{name} does not end with a full stop")
    if name.split("-")[1] not in AREAS:
        raise Malformed(place.line, f"{name}: no such area")
    parts = [part.strip() for part in fields.split(" · ")]
    profile, role, test, reason, since, provenance = _read_required(place.line, name, parts)
    more = _read_options(place.line, name, parts[5:])
    return Clause(
        name, text, keywords[0], profile, role, test, since, provenance, place, reason=reason, **more
    )


_ALLOWED: Final = (
    PROFILES,
    ("server", "client"),
    ("wire", "wire+scripted", "client", "untestable"),
    ("documented", "observed", "chosen"),
)


def _read_required(line: int, name: str, parts: list[str]) -> tuple[str, str, str, str, str, str]:
    if len(parts) < 5:
        raise Malformed(line, f"{name} needs profile · role · test · since · provenance")
    profile, role, test, since, provenance = parts[:5]
    test, _, reason = test.partition(": ")
    for value, allowed in zip((profile, role, test, provenance), _ALLOWED, strict=True):
        if value not in allowed:
            raise Malformed(line, f"{name}: {value!r} is none of {', '.join(allowed)}")
    if (test == "untestable") != bool(reason):
        raise Malformed(line, f"{name}: `untestable` needs a reason, and nothing else has one")
    if not re.fullmatch(r"since \d+\.\d+", since):
        raise Malformed(line, f"{name}: {since!r} is not `since N.N`")
    return profile, role, test, reason, since.removeprefix("since "), provenance


def _read_options(line: int, name: str, parts: list[str]) -> dict[str, tuple[str, ...]]:
    out: dict[str, tuple[str, ...]] = {}
    for part in parts:
        key, _, value = part.partition(":")
        if key not in ("refines", "unless", "seeds", "needs") or not value.strip() or key in out:
            raise Malformed(line, f"{name}: cannot read the field {part!r}")
        out[key] = tuple(value.replace(",", " ").split())
    return out


# --- what only shows over all files -----------------------------------------------------------------


def _cross_check(spec: Spec) -> Iterator[str]:
    for clause in spec.clauses.values():
        yield from _check_clause(spec, clause)
    for case in spec.cases.values():
        for name in case.covers:
            if name not in spec.clauses:
                yield f"{case.place}: the case {case.id} covers {name}, which does not exist"
            elif spec.clauses[name].test == "untestable":
                yield f"{case.place}: the case {case.id} covers {name}, which is said to be untestable"
    yield from _check_tables(spec)


def _check_clause(spec: Spec, clause: Clause) -> Iterator[str]:
    at = f"{clause.place}: {clause.id}"
    for other in clause.refines:
        if other not in spec.clauses or other == clause.id:
            yield f"{at} refines {other}, which does not exist"
    for profile in clause.unless:
        if profile not in PROFILES:
            yield f"{at}: `unless: {profile}` is no profile"
    if clause.keyword == "MAY" and clause.test != "untestable":
        yield f"{at} is a MAY, so nothing can break it: it must be untestable"
    if clause.role == "client" and clause.test.startswith("wire"):
        yield f"{at} is about clients, so its test is `client` or untestable"
    if clause.role == "server" and clause.test == "client":
        yield f"{at} is about servers, so its test cannot be `client`"


def _check_tables(spec: Spec) -> Iterator[str]:
    yield from _check_duplicates(spec.tables)
    kinds = {table.kind for table in spec.tables} - {"event", "client", "every", "object"}
    names = kinds | {name for table in spec.tables if table.kind == "object" for name in table.names}
    used: set[str] = set()
    for table in spec.tables:
        for field in table.fields:
            for name in sorted(_names(field.type) - names):
                yield f"{table.place.file}:{field.line}: no table or union is called {name!r}"
            used |= _names(field.type)
    for table in spec.tables:
        if table.clauses:
            continue
        if table.kind in ("event", "every"):
            yield f"{table.place}: the table of an event needs the id of the clause that it judges"
        elif table.kind == "object" and not used.intersection(table.names):
            yield f"{table.place}: nothing uses this table"
    judged = [(table.place, table.clauses) for table in spec.tables]
    for place, clauses in judged + [(row.place, row.clauses) for row in spec.errors]:
        yield from (f"{place}: {name} does not exist" for name in clauses if name not in spec.clauses)


def _check_duplicates(every: list[Table]) -> Iterator[str]:
    known: dict[tuple[str, str], Place] = {}
    for table in every:
        for name in table.names:
            if (table.kind, name) in known:
                yield f"{table.place}: `{name}` has its table already at {known[table.kind, name]}"
            known[table.kind, name] = table.place


def _names(kind: tables.Type) -> set[str]:
    if isinstance(kind, tables.Named):
        return {kind.name}
    if isinstance(kind, tables.ArrayOf | tables.MapOf):
        return _names(kind.of)
    if isinstance(kind, tables.Choice):
        return set().union(*map(_names, kind.options))
    return set()


# --- requirements.json ------------------------------------------------------------------------------


def requirements(spec: Spec) -> dict[str, Any]:
    """What `spec/requirements.json` holds: the clauses without their line numbers, sorted by id."""
    rows = []
    for clause in sorted(spec.clauses.values(), key=lambda one: one.id):
        row = attrs.asdict(clause, recurse=False)
        row["file"] = row.pop("place").file
        row["cases"] = sorted(case.id for case in spec.cases.values() if clause.id in case.covers)
        rows.append({key: value for key, value in row.items() if value not in ("", ())})
    return {"schema_version": 1, "spec_version": SPEC_VERSION, "clauses": rows}


def requirements_text(spec: Spec) -> str:
    return json.dumps(requirements(spec), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    try:
        spec = load()
    except SpecError as exc:
        print(exc, file=sys.stderr)
        return 1
    target = spec_dir() / "requirements.json"
    target.write_text(requirements_text(spec), "utf-8")
    print(f"{len(spec.clauses)} clauses, {len(spec.tables)} tables, {len(spec.cases)} cases -> {target.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
