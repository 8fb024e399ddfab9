"""ERR: the shape of errors, and what their texts may not tell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from conformance.invariants.base import EVERY_REQUEST, Invariant, Says
from conformance.invariants.common import CREATED, s2c
from conformance.state import Event, whole

_GOOD: Final = (
    '< {"type":"error","status":400,"error":'
    '{"type":"invalid_request_error","code":"invalid_json","message":"No.","param":null}}\n'
)
_BARE: Final = '< {"type":"error","error":{"message":"No."}}\n'


class IntegerStatus(Invariant):
    clause = "RWS-ERR-002"
    on = ("error",)
    kind = "schema"
    transports = ("ws",)
    good = _GOOD
    bad = _BARE

    def see(self, event: Event) -> Says:
        status = event.get("status")
        if event.body is None or "sequence_number" in event.body:
            return None
        number = whole(status)
        return (number is not None and 400 <= number <= 599) or f"the status is {status!r}"


class TheSameErrorTwice(Invariant):
    """An error that nothing can have brought about but what the error before it has answered already."""

    clause = "RWS-ERR-001"
    on = (EVERY_REQUEST, "error")
    kind = "order"
    transports = ("ws",)
    good = ">text x\n" + _GOOD
    bad = ">text x\n" + _GOOD + _GOOD

    def see(self, event: Event) -> Says:
        notes = self.memory(event.conn)
        if event.dir == "c2s" or event.body is None or "sequence_number" in event.body:
            notes.clear()
            return None
        if event.get("error", "code") == "websocket_connection_limit_reached":
            return None  # it comes by itself, and refuses nothing
        waiting = event.conn.faulty or any(lane.pending for lane in event.conn.lanes.values())
        before, notes["last"] = notes.get("last"), event.body
        return bool(waiting) or before != event.body or "the same error once more, and nothing in between"


class NoStatusCode(Invariant):
    clause = "RWS-ERR-003"
    on = ("error",)
    kind = "schema"
    good = _GOOD
    bad = '< {"type":"error","status_code":400,"error":{"message":"No."}}'

    def see(self, event: Event) -> Says:
        assert event.body is not None
        return "status_code" not in event.body or "an error has status_code"


class StringCode(Invariant):
    clause = "RWS-ERR-005"
    on = ("error",)
    kind = "schema"
    transports = ("ws",)
    good = _GOOD
    bad = _BARE

    def see(self, event: Event) -> Says:
        error = event.get("error")
        if not isinstance(error, dict):
            return None
        return isinstance(error.get("code"), str) or f"error.code is {error.get('code')!r}"


class ParamIsThere(Invariant):
    clause = "RWS-ERR-006"
    on = ("error",)
    kind = "schema"
    transports = ("ws",)
    good = _GOOD
    bad = _BARE

    def see(self, event: Event) -> Says:
        error = event.get("error")
        if not isinstance(error, dict):
            return None
        if "param" not in error:
            return "no error.param"
        return error["param"] is None or isinstance(error["param"], str) or "error.param is no string"


class WhenToTryAgain(Invariant):
    clause = "RWS-ERR-012"
    on = ("error",)
    kind = "behaviour"
    transports = ("ws",)
    _AGAIN: Final = re.compile(r"try again in \d", re.IGNORECASE)
    good = '< {"type":"error","status":429,"error":{"message":"Please try again in 2s."}}'
    bad = '< {"type":"error","status":429,"error":{"message":"Too many."}}'

    def see(self, event: Event) -> Says:
        if event.get("status") != 429:
            return None
        headers = event.get("error", "headers")
        names = {str(name).lower() for name in headers} if isinstance(headers, dict) else set()
        text = event.get("error", "message")
        told = "retry-after" in names or (isinstance(text, str) and self._AGAIN.search(text))
        return bool(told) or "an error 429 does not say when to try again"


class NothingOfTheInside(Invariant):
    clause = "RWS-ERR-021"
    on = ("error", "response.failed", "s2c http")
    kind = "behaviour"
    _INSIDE: Final = re.compile(
        r"""Traceback|File "|\.py\b|object at 0x|responses_ref|\b\w+(?:Error|Exception)\b"""
        r"""|(?:^|[\s'"(])/(?!v1/)(?:[\w.-]+/)+[\w.-]+"""
    )
    good = _GOOD
    bad = CREATED + s2c("failed", response={"error": {"code": "server_error", "message": "KeyError: 'a'"}})

    def see(self, event: Event) -> Says:
        texts = list(self._texts(event))
        for text in texts:
            if inside := self._INSIDE.search(text):
                return f"an error's text holds {inside[0]!r}"
        return bool(texts) or None

    @staticmethod
    def _texts(event: Event) -> Iterator[str]:
        errors: list[Any] = [event.get("error"), event.get("response", "error"), event.body]
        if event.kind == "http" and event.body is None:
            errors = [_http_error(event.record.get("body"))]
        for error in errors:
            text = error.get("message") if isinstance(error, dict) else None
            if isinstance(text, str):
                yield text


def _http_error(body: object) -> Any:
    """The object `error` in the body of an HTTP answer, if there is one."""
    try:
        value = json.loads(body) if isinstance(body, str) and body.startswith("{") else None
    except ValueError:
        return None
    return value.get("error") if isinstance(value, dict) else None
