"""The inner level of the oracle: what the core was told, what it drew, and what it wanted done, as JSON.

A port that has its own core compares itself here, step by step, before it has a
model, a pipeline or a store: the inputs carry all that those would have said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from .protocol import codec
from .protocol.actions import (
    Action,
    Bill,
    CancelModel,
    Close,
    LoadParent,
    Prepare,
    Send,
    SetDeadline,
    StartModel,
    Store,
)
from .protocol.cache import Node, Prepared
from .protocol.errors import Problem
from .protocol.events import Event
from .protocol.lanes import Turn
from .server.ids import SeededIds


@attrs.define
class RecordingIds(SeededIds):
    """Seeded ids that remember which of them were drawn since the last step."""

    drawn: list[str] = attrs.Factory(list)

    def new(self, prefix: str) -> str:
        self.drawn.append(super().new(prefix))
        return self.drawn[-1]

    def taken(self) -> list[str]:
        """The ids drawn since the last call."""
        drawn = list(self.drawn)
        self.drawn.clear()  # the turns' own ids go into the same list
        return drawn


def step(happened: str, arguments: tuple[Any, ...], now: float, ids: list[str], actions: list[Action]) -> Any:
    """One input of the core and its actions. ``with``: the arguments by kind; ``ids``: drawn, in order."""
    given = dict(argument for value in arguments for argument in _argument(value))
    return {
        "input": happened,
        "now": now,
        "with": given,
        "ids": ids,
        "actions": [_action(a) for a in actions],
    }


def _argument(value: Any) -> list[tuple[str, Any]]:
    for kind, describe in ARGUMENTS:
        if isinstance(value, kind):
            return describe(value)
    return []


def _items(node: Node) -> list[Any]:
    return [codec.wire(item) for step in reversed(list(node.back())) for item in step.items]


def _prepared(value: Prepared) -> list[tuple[str, Any]]:
    return [
        ("items", [codec.wire(item) for item in value.items]),
        ("input_tokens", value.input_tokens),
        ("cached_tokens", value.cached_tokens),
    ]


def _batch(parts: Any) -> list[Any]:
    return [{"part": type(part).__name__, **_named(part)} for part in parts]


def _named(part: Any) -> dict[str, Any]:
    return {("kind" if name == "part" else name): value for name, value in attrs.asdict(part).items()}


ARGUMENTS: list[tuple[Any, Callable[[Any], list[tuple[str, Any]]]]] = [
    (Turn, lambda turn: [("turn", turn.number)]),
    (Node, lambda node: [("parent", node.response.id), ("context", _items(node))]),
    (Prepared, _prepared),
    (Problem, lambda problem: [("problem", attrs.asdict(problem))]),
    (str, lambda text: [("text", text)]),
    (bytes, lambda data: [("bytes", data.hex())]),
    (int, lambda code: [("code", code)]),
    (dict, lambda found: [("found", {key: codec.wire(item) for key, item in found.items()})]),
    ((list, tuple), lambda parts: [("batch", _batch(parts))]),
]


def _action(action: Action) -> dict[str, Any]:
    return {"action": type(action).__name__, **dict(ACTIONS[type(action)](action))}


def _event(event: Any) -> list[Any]:
    texts = [codec.decode(text.decode()) for text in codec.encode(event)]
    return [("event", texts[0])] if isinstance(event, Event) else [("events", texts)]


ACTIONS: dict[type, Callable[[Any], list[tuple[str, Any]]]] = {
    Send: lambda a: _event(a.event),
    LoadParent: lambda a: [("turn", a.turn.number), ("id", a.id), ("items", list(a.items))],
    Prepare: lambda a: [("turn", a.turn.number), ("input", [*a.turn.steered, *a.turn.asked.input])],
    StartModel: lambda a: [("turn", a.turn.number)],
    CancelModel: lambda a: [("turn", a.turn.number)],
    Store: lambda a: [("turn", a.turn.number), ("id", a.node.response.id)],
    Bill: lambda a: [("id", a.response.id), ("usage", a.response.usage and a.response.usage.wire())],
    SetDeadline: lambda a: [("name", a.name), ("at", a.at)],
    Close: lambda a: [("code", a.code), ("reason", a.reason)],
}
