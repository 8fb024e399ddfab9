"""CLS and HS: how a connection may not end, and how it may not begin."""

from __future__ import annotations

import re
from typing import Final

from conformance.invariants.base import Invariant, Says
from conformance.invariants.common import CREATED
from conformance.state import Event


class NotNormalInTheMiddle(Invariant):
    clause = "RWS-CLS-006"
    on = ("s2c close",)
    kind = "framing"
    transports = ("ws",)
    good = CREATED + "<close 1011"
    bad = CREATED + "<close 1000"

    def see(self, event: Event) -> Says:
        if event.conn.client_closed:
            return None
        cut = event.record.get("code") == 1000 and event.conn.running
        return not cut or "Close 1000 while a response runs"


class NoForeignRedirect(Invariant):
    clause = "RWS-HS-014"
    on = ("c2s http", "s2c http")
    kind = "framing"
    transports = ("ws",)
    _UPGRADE: Final = re.compile(r"^upgrade:[ \t]*websocket", re.IGNORECASE | re.MULTILINE)
    _HOST: Final = re.compile(r"^host:[ \t]*([^\r\n]+?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
    _LOCATION: Final = re.compile(r"^location:[ \t]*\w+://([^/\s]+)", re.IGNORECASE | re.MULTILINE)
    _ASKS: Final = (
        '>http {"head":"GET /v1/responses HTTP/1.1\\r\\nHost: a\\r\\nUpgrade: websocket\\r\\n\\r\\n"}\n'
    )
    good = _ASKS + '<http {"head":"HTTP/1.1 101 Switching Protocols\\r\\n\\r\\n"}'
    bad = _ASKS + '<http {"head":"HTTP/1.1 302 Found\\r\\nLocation: https://b/v1/responses\\r\\n\\r\\n"}'

    def see(self, event: Event) -> Says:
        head, notes = str(event.record.get("head", "")), self.memory(event.conn)
        if event.dir == "c2s":
            host = self._HOST.search(head)
            notes["asked"] = host[1] if host and self._UPGRADE.search(head) else None
            return None
        asked = notes.pop("asked", None)
        if asked is None or not head:
            return None
        location = self._LOCATION.search(head)
        foreign = re.match(r"\S+ 3\d\d", head) and location and location[1].lower() != asked.lower()
        return not foreign or "the upgrade is redirected to another origin"
