"""FRM: each message is one JSON object, and strict JSON."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from conformance.invariants.base import EVERY_EVENT, SERVER_TEXT, Invariant, Says
from conformance.state import Event

_RESERVED: Final = frozenset(("raw", "close", "event", "reconnecting", "reconnected", "open"))


class OneObject(Invariant):
    """NaN and repeated keys are told by RWS-FRM-005."""

    clause = "RWS-FRM-001"
    on = (SERVER_TEXT,)
    kind = "framing"
    transports = ("ws",)
    good = """< {"type":"response.created"}"""
    bad = """<text [DONE]"""

    def see(self, event: Event) -> Says:
        if event.body is not None:
            return True
        try:
            value = json.loads(event.text or "")
        except (ValueError, RecursionError):
            return "a message that is not JSON"
        return isinstance(value, dict) or "a message that is no JSON object"


class Strict(Invariant):
    clause = "RWS-FRM-005"
    on = (SERVER_TEXT,)
    kind = "framing"
    good = """< {"type":"response.created"}"""
    bad = """<text {"type":"response.created","type":"response.created"}"""

    def see(self, event: Event) -> Says:
        text = event.text or ""
        try:
            value = _decoder.decode(text)
            if "\\u" in text:
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return "half of a surrogate pair"
        except json.JSONDecodeError:
            return None
        except (ValueError, RecursionError) as exc:
            return str(exc)
        return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return fields


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_decoder: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_number)


class NotReserved(Invariant):
    clause = "RWS-FRM-004"
    on = (EVERY_EVENT,)
    kind = "framing"
    transports = ("ws",)
    good = """< {"type":"response.created"}"""
    bad = """< {"type":"close"}"""

    def see(self, event: Event) -> Says:
        if event.type is None:
            return None
        return event.type not in _RESERVED or f"the type {event.type} is reserved"
