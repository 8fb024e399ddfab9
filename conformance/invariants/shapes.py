"""The shape checks: each field table of the prose becomes a check of the events that it names.

A fault inside a named object is told to the clauses of that object's own table, if it has some.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import attrs

from conformance.match import same, show
from conformance.specdoc import Spec
from conformance.state import Event
from conformance.tables import ArrayOf, Choice, ErrorRow, Field, Literal, MapOf, Named, Simple, Table, Type


@attrs.frozen
class Fault:
    """What does not fit; ``clauses`` is empty where the using table's own clauses apply.

    An empty ``what`` is no fault: it says that the table of those clauses was looked at.
    """

    clauses: tuple[str, ...]
    path: str
    what: str


Faults = list[Fault]
# (value, path, faults): appends what does not fit
Check = Callable[[Any, str, Faults], None]

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}


class Shapes:
    """All checks of one specification."""

    def __init__(self, spec: Spec) -> None:
        self._named: dict[str, Check] = {}
        self._unions: dict[str, dict[str, Check]] = {}
        self._events: dict[str, tuple[tuple[str, ...], Check]] = {}
        self._requests: dict[str, Check] = {}
        self._every: list[tuple[tuple[str, ...], Check]] = []
        self._errors = {row.code: row for row in spec.errors}
        for table in spec.tables:
            self._add(table)

    @property
    def event_types(self) -> list[str]:
        return list(self._events)

    def _add(self, table: Table) -> None:
        check = self._table(table)
        if table.kind == "every":
            self._every.append((table.clauses, check))
        for name in table.names:
            if table.kind == "event":
                self._events[name] = (table.clauses, check)
            elif table.kind == "client":
                self._requests[name] = check
            elif table.kind == "object":
                self._named[name] = check
            elif table.kind != "every":
                self._unions.setdefault(table.kind, {})[name] = check

    # --- building -----------------------------------------------------------------------------------

    def _table(self, table: Table) -> Check:
        fields = [(field, self._type(field.type)) for field in table.fields]
        own = table.clauses if table.kind not in ("event", "every", "client") else ()
        quick = {field.name: _quick(field) for field, _ in fields}

        def check(value: Any, path: str, faults: Faults) -> None:
            found: Faults = []
            for field, test in fields:
                inner = value.get(field.name, _MISSING)
                if type(inner) in quick[field.name]:
                    continue
                _check_field(field, test, inner, f"{path}.{field.name}" if path else field.name, found)
            if own:
                found = [fault if fault.clauses else attrs.evolve(fault, clauses=own) for fault in found]
                found.append(Fault(own, path, ""))
            faults += found

        def whole(value: Any, path: str, faults: Faults) -> None:
            if isinstance(value, dict):
                check(value, path, faults)
            else:
                faults.append(Fault((), path, f"expected an object, got {show(value, 60)}"))

        return whole

    def _type(self, kind: Type) -> Check:
        if isinstance(kind, Simple):
            return _simple(kind.kind)
        if isinstance(kind, Literal):
            return _literal(kind.value)
        if isinstance(kind, ArrayOf):
            return _array(self._type(kind.of))
        if isinstance(kind, MapOf):
            return _map(self._type(kind.of))
        if isinstance(kind, Named):
            return self._reference(kind.name)
        return _choice(kind, [self._type(option) for option in kind.options])

    def _reference(self, name: str) -> Check:
        def check(value: Any, path: str, faults: Faults) -> None:
            target = self._named.get(name)
            if target is None:
                self._union(name, value, path, faults)
            else:
                target(value, path, faults)

        return check

    def _union(self, name: str, value: Any, path: str, faults: Faults) -> None:
        kind = value.get("type") if isinstance(value, dict) else None
        if not isinstance(kind, str):
            faults.append(Fault((), path, f"expected an object with a string `type`, got {show(value, 60)}"))
            return
        member = self._unions[name].get(kind)
        if member is not None:
            member(value, path, faults)

    # --- judging ------------------------------------------------------------------------------------

    def see(self, event: Event) -> list[tuple[str, str | None]]:
        """For each clause whose table was looked at: what does not fit, or None."""
        if event.dir != "s2c" or event.type is None or event.transport != "ws":
            return []
        out: list[tuple[str, str | None]] = []
        entry = self._events.get(event.type)
        for clauses, check in (entry, *self._every) if entry else self._every:
            faults: Faults = []
            check(event.body, "", faults)
            out += _verdicts(clauses, faults, event.type)
        if event.type == "error":
            out += self._error(event)
        return out

    def request_faults(self, body: dict[str, Any]) -> list[str]:
        """What does not fit in a message of the client, by the table of its type."""
        check = self._requests.get(str(body.get("type")))
        faults: Faults = []
        if check is not None:
            check(body, "", faults)
        return [f"{fault.path}: {fault.what}" for fault in faults if fault.what]

    def _error(self, event: Event) -> list[tuple[str, str | None]]:
        row = self._errors.get(str(event.get("error", "code")))
        if row is None:
            return []
        fault = _error_fault(row, event)
        return [(clause, fault) for clause in row.clauses]


@cache
def shapes_of(spec: Spec) -> Shapes:
    """The checks of a specification, made once."""
    return Shapes(spec)


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


_MISSING: Final = _Missing()


def _quick(field: Field) -> frozenset[type]:
    """The Python types that surely fit, so that the common case costs one look-up."""
    if field.presence == "never":
        return frozenset((_Missing,))
    kinds: set[type] = set() if field.presence == "always" else {_Missing}
    options = field.type.options if isinstance(field.type, Choice) else (field.type,)
    for option in options:
        if isinstance(option, Simple):
            kinds.update(_KINDS.get(option.kind, ()))
    return frozenset(kinds)


def _check_field(field: Field, test: Check, value: Any, path: str, faults: Faults) -> None:
    if value is _MISSING:
        if field.presence == "always":
            faults.append(Fault((), path, "is missing"))
    elif field.presence == "never":
        faults.append(Fault((), path, "must not be there"))
    else:
        test(value, path, faults)


def _simple(kind: str) -> Check:
    allowed = _KINDS.get(kind)

    def check(value: Any, path: str, faults: Faults) -> None:
        if allowed is not None and type(value) not in allowed:
            faults.append(Fault((), path, f"expected {kind}, got {show(value, 60)}"))

    return check


def _literal(wanted: Any) -> Check:
    def check(value: Any, path: str, faults: Faults) -> None:
        if not same(value, wanted):
            faults.append(Fault((), path, f"expected {show(wanted)}, got {show(value, 60)}"))

    return check


def _array(element: Check) -> Check:
    def check(value: Any, path: str, faults: Faults) -> None:
        if not isinstance(value, list):
            faults.append(Fault((), path, f"expected an array, got {show(value, 60)}"))
            return
        for place, inner in enumerate(value):
            element(inner, f"{path}[{place}]", faults)

    return check


def _map(element: Check) -> Check:
    def check(value: Any, path: str, faults: Faults) -> None:
        if not isinstance(value, dict):
            faults.append(Fault((), path, f"expected an object, got {show(value, 60)}"))
            return
        for key, inner in value.items():
            element(inner, f"{path}.{key}", faults)

    return check


def _choice(kind: Choice, checks: list[Check]) -> Check:
    def check(value: Any, path: str, faults: Faults) -> None:
        best: Faults | None = None
        for option, test in zip(kind.options, checks, strict=True):
            tried: Faults = []
            test(value, path, tried)
            if not any(fault.what for fault in tried):
                faults += tried
                return
            # A named object tells more precisely what is wrong than "none of these".
            if isinstance(value, dict) and isinstance(option, Named):
                best = tried
        faults += best or [Fault((), path, f"expected {kind}, got {show(value, 60)}")]

    return check


def _verdicts(clauses: Iterable[str], faults: Faults, kind: str) -> list[tuple[str, str | None]]:
    told: dict[str, str | None] = dict.fromkeys(clauses)
    for fault in faults:
        for clause in fault.clauses or tuple(clauses):
            told.setdefault(clause, None)
            if fault.what and not told[clause]:
                told[clause] = f"{kind}: {fault.path} {fault.what}"
    return list(told.items())


def _error_fault(row: ErrorRow, event: Event) -> str | None:
    error = event.get("error")
    status, param = event.get("status"), event.get("error", "param")
    if row.status is not None and not same(status, row.status):
        return f"{row.code}: expected status {row.status}, got {show(status)}"
    if row.type is not None and not same(error.get("type"), row.type):
        return f"{row.code}: expected type {row.type!r}, got {show(error.get('type'))}"
    if row.param is not None and not _param_fits(row.param, param):
        return f"{row.code}: expected param {row.param or 'null'}, got {show(param)}"
    if row.message is not None and not _message_fits(row.message, error.get("message")):
        return f"{row.code}: expected the message {row.message!r}, got {show(error.get('message'))}"
    return None


def _param_fits(wanted: str, param: Any) -> bool:
    if wanted == "any string":
        return isinstance(param, str)
    return param is None if not wanted else bool(param == wanted)


def _message_fits(wanted: str, message: Any) -> bool:
    pattern = ".*".join(re.escape(piece) for piece in wanted.split("{}"))
    return isinstance(message, str) and re.fullmatch(pattern, message, re.DOTALL) is not None
