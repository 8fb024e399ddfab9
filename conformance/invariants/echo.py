"""RES-012: what the response object repeats of the create that asked for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from conformance.invariants.base import Invariant, Says
from conformance.invariants.common import LIFECYCLE, live, s2c
from conformance.match import same, show
from conformance.state import Event

_TOOL: Final = {"type": "function", "name": "f", "parameters": {"type": "object"}}
_ASKED: Final = (
    '> {"type":"response.create","previous_response_id":"r0","store":false,"tools":'
    '[{"type":"function","name":"f","parameters":{"type":"object"}}]}\n'
)


class EchoesItsCreate(Invariant):
    """Null is as good as nothing. A tool that lacks a key of RWS-RES-029 is told by that clause."""

    clause = "RWS-RES-012"
    on = LIFECYCLE
    kind = "behaviour"
    _FIELDS: Final = ("previous_response_id", "metadata", "store", "instructions", "tools", "tool_choice")
    _SAYS: Final = {"id": "r1", "previous_response_id": "r0", "store": False}
    good = _ASKED + s2c("created", response={**_SAYS, "tools": [{**_TOOL, "strict": None}]})
    bad = _ASKED + s2c("created", response={**_SAYS, "tools": [{**_TOOL, "parameters": {}}]})

    def see(self, event: Event) -> Says:
        response, resource = live(event), event.get("response")
        if response is None or response.request is None or not isinstance(resource, dict):
            return None
        asked = {name: response.request.body.get(name) for name in self._FIELDS}
        wanted = {name: value for name, value in asked.items() if value not in (None, {}, [])}
        for name, value in wanted.items():
            got = resource.get(name)
            if not _HOW.get(name, _fits)(value, got):
                return f"{event.type}: {name} is {show(got, 80)}, the create has {show(value, 80)}"
        return bool(wanted) or None


_ADDED: Final = frozenset(("description", "strict"))


def _tools_fit(asked: Any, got: Any) -> bool:
    """Whether the tools are the create's; a key that RWS-RES-029 asks for may be missing."""
    if not isinstance(asked, list) or not isinstance(got, list) or len(asked) != len(got):
        return False
    return all(
        _fits({key: value for key, value in one.items() if key in other or key not in _ADDED}, other)
        if isinstance(one, dict) and isinstance(other, dict)
        else same(one, other)
        for one, other in zip(asked, got, strict=True)
    )


def _fits(asked: Any, got: Any) -> bool:
    """Whether all that was asked is there: a server may add keys with its defaults."""
    if asked is None:
        return True
    if isinstance(asked, dict) and isinstance(got, dict):
        return all(_fits(value, got.get(key)) for key, value in asked.items())
    if isinstance(asked, list) and isinstance(got, list):
        return len(asked) == len(got) and all(map(_fits, asked, got))
    return same(asked, got)


# How a field is compared, where it is not as above.
_HOW: Final[dict[str, Callable[[Any, Any], bool]]] = {"tools": _tools_fit, "metadata": same}
