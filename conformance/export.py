"""``export``: the specification as data, for runners and ports in other languages.

Written into a directory: ``clauses.json``, ``cases.json`` (transcripts, compiled), ``events.schema.json``
(JSON Schema of all field tables), ``errors.json``, vectors of three levels (``oracle.json``, ``core.json``,
``emitter.json``), and the schemas of these files and of a report.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import attrs

from conformance import vectors
from conformance.places import Place
from conformance.report.data import schema as report_schema
from conformance.specdoc import SPEC_VERSION, Spec, requirements
from conformance.tables import ArrayOf, Choice, Literal, MapOf, Named, Simple, Table, Type
from conformance.transcript import Case, Either, Node, Repeat

EXPORT_VERSION: Final = 1
INTERPRETATION_VERSION: Final = 2
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
Json = dict[str, Any]


def export(spec: Spec, directory: Path) -> list[str]:
    """Write all files; gives their names."""
    files = {**documents(spec), **vectors.record()}
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (directory / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return list(files)


def documents(spec: Spec) -> dict[str, Json]:
    """The files that are made from the text alone."""
    return {
        "clauses.json": requirements(spec),
        "cases.json": cases(spec),
        "errors.json": errors(spec),
        "events.schema.json": events_schema(spec),
        "cases.schema.json": _schema("cases.schema.json"),
        "clauses.schema.json": _schema("clauses.schema.json"),
        "report.schema.json": report_schema(),
        "vectors.schema.json": _schema("vectors.schema.json"),
    }


def _schema(name: str) -> Json:
    loaded: Json = json.loads((Path(__file__).parent / "schemas" / name).read_text("utf-8"))
    return loaded


def _head() -> Json:
    return {
        "schema_version": EXPORT_VERSION,
        "spec_version": SPEC_VERSION,
        "interpretation_version": INTERPRETATION_VERSION,
    }


# --- cases ------------------------------------------------------------------------------------------


def cases(spec: Spec) -> Json:
    """All transcripts as trees of steps; what the verbs mean is INTERPRETING.md."""
    return {**_head(), "cases": [_case(case) for case in spec.cases.values()]}


def _case(case: Case) -> Json:
    return {
        "id": case.id,
        "title": case.title,
        "place": str(case.place),
        "covers": list(case.covers),
        "needs": list(case.needs),
        "deadline": case.deadline,
        "steps": [_node(node) for node in case.steps],
    }


def _node(node: Node) -> Json:
    if isinstance(node, Either):
        branches = [[_node(step) for step in branch] for branch in node.branches]
        return {"verb": "either", "line": node.line, "branches": branches, "tags": list(node.tags)}
    if isinstance(node, Repeat):
        body = [_node(step) for step in node.body]
        return {"verb": "repeat", "line": node.line, "times": node.times, "body": body}
    row = attrs.asdict(node)
    row.update(words=list(node.words), tags=list(node.tags))
    return {key: value for key, value in row.items() if value not in (None, [], 0) or key == "value"}


def errors(spec: Spec) -> Json:
    """The rows of the error tables; a column that is not looked at is null, `param` "" means null."""
    return {**_head(), "errors": [attrs.asdict(row, value_serializer=_plain) for row in spec.errors]}


def _plain(_owner: Any, _field: Any, value: Any) -> Any:
    return str(value) if isinstance(value, Place) else value


# --- JSON Schema of the tables ----------------------------------------------------------------------


def events_schema(spec: Spec) -> Json:
    """One schema: valid is an event of the server that fits its table; ``$defs`` has every object."""
    every = [table for table in spec.tables if table.kind == "every"]
    defs: Json = {}
    for table in spec.tables:
        for name in table.names:
            defs[_def_name(table.kind, name)] = _object(table)
    for kind in _unions(spec):
        defs[kind] = _union(
            kind, [name for table in spec.tables if table.kind == kind for name in table.names]
        )
    events = [name for table in spec.tables if table.kind == "event" for name in table.names]
    return {
        "$schema": DIALECT,
        "$id": f"urn:responses-conformance:events:{SPEC_VERSION}",
        "title": "Events of a server, over WebSocket",
        "allOf": [
            *({"$ref": f"#/$defs/{_def_name(table.kind, '*')}"} for table in every),
            *_by_type("event", events),
        ],
        "$defs": defs,
    }


def _unions(spec: Spec) -> list[str]:
    plain = ("event", "client", "every", "object")
    return sorted({table.kind for table in spec.tables if table.kind not in plain})


def _def_name(kind: str, name: str) -> str:
    return name if kind == "object" else "every" if kind == "every" else f"{kind}:{name}"


def _by_type(kind: str, names: list[str]) -> list[Json]:
    return [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"$ref": f"#/$defs/{kind}:{name}"},
        }
        for name in names
    ]


def _union(kind: str, names: list[str]) -> Json:
    """An object told apart by ``type``; an unknown type fits."""
    return {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"type": "string"}},
        "allOf": _by_type(kind, names),
    }


def _object(table: Table) -> Json:
    properties: Json = {}
    for field in table.fields:
        properties[field.name] = False if field.presence == "never" else _type(field.type)
    out: Json = {"type": "object", "properties": properties}
    required = [field.name for field in table.fields if field.presence == "always"]
    return {**out, "required": required} if required else out


def _type(kind: Type) -> Json:
    if isinstance(kind, Simple):
        return {} if kind.kind == "any" else {"type": kind.kind}
    if isinstance(kind, Literal):
        return {"const": kind.value}
    if isinstance(kind, ArrayOf):
        return {"type": "array", "items": _type(kind.of)}
    if isinstance(kind, MapOf):
        return {"type": "object", "additionalProperties": _type(kind.of)}
    if isinstance(kind, Named):
        return {"$ref": f"#/$defs/{kind.name}"}
    assert isinstance(kind, Choice)
    return {"anyOf": [_type(option) for option in kind.options]}
