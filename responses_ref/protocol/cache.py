"""The connection's cached state: contexts as parent-linked nodes, and which of them can be named.

A :class:`Node` is all that one response leaves behind: its new input and its
output, the calls that still wait for an output, and ``chain``, what the
pipeline knows about the whole context up to here.  A node never changes and
holds its parent, so a context is a walk from the newest node back, nothing of
it is copied per turn, and forks share what they have in common.

A :class:`Cache` says which nodes a client may still name.  Dropping an entry
drops a name: a child keeps its parent's context alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakValueDictionary

import attrs

from .items import Call, CallOutput, Item
from .resource import Response


@attrs.frozen(eq=False)
class Node:
    """What one response adds to the context of its parent."""

    response: Response
    parent: Node | None
    input: tuple[Item, ...]
    output: tuple[Item, ...]
    output_tokens: int
    open_calls: Mapping[str, Call]
    chain: Any
    store: bool
    conversation: str | None = None

    def back(self) -> Iterator[Node]:
        """This node, its parent, and so on to the first."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def items(self) -> tuple[Item, ...]:
        """What the node adds to its parent's context, in order (RWS-CTX-001)."""
        return self.input + self.output


@attrs.frozen
class Prepared:
    """What the pipeline found out about a turn before it may start.

    ``items``: the new input, references resolved and repetitions dropped.
    ``open_calls``: calls of the context without an output, this input counted.
    ``input_tokens`` counts the whole context, ``cached_tokens`` its known prefix.
    ``plan``: what the model will say, opaque to this room. ``work``: counts for the trace.
    """

    items: tuple[Item, ...]
    open_calls: Mapping[str, Call]
    chain: Any
    input_tokens: int
    cached_tokens: int
    plan: Any
    work: Mapping[str, int]


@attrs.frozen
class Entry:
    """A node that can be named, and the lane that owns the name."""

    node: Node
    lane: str | None


@attrs.define
class Cache:
    """The responses of one connection that can be named, each owned by the lane it ran on."""

    entries: dict[str, Entry] = attrs.Factory(dict)
    # Items by id, while a context holds them. Made when a response has ended: most connections just wait.
    known: WeakValueDictionary[str, Any] | None = None

    def get(self, response_id: str) -> Node | None:
        """The node with this id, or None: then only the store can know it."""
        entry = self.entries.get(response_id)
        return None if entry is None else entry.node

    def item(self, item_id: str) -> Item | None:
        """An item that came over this connection, while some context still holds it (RWS-ITM-025)."""
        return None if self.known is None else self.known.get(item_id)

    def ended(self, lane: str | None, node: Node) -> None:
        """Keep the lane's new response, and drop what it makes obsolete (RWS-CAC-007, RWS-CAC-011)."""
        failed = node.response.status == "failed"
        own = [key for key, entry in self.entries.items() if entry.lane == lane]
        for key in own:
            earlier = self.entries[key].node
            # A failed response replaces failed ones only, and not its own parent, which may be tried again.
            if not failed or (earlier.response.status == "failed" and earlier is not node.parent):
                del self.entries[key]
        self.entries[node.response.id] = Entry(node, lane)
        self.learn(node)

    def learn(self, node: Node) -> None:
        """Let the items that came with a node be found by their ids."""
        if self.known is None:
            self.known = WeakValueDictionary()
        self.known.update({item.id: item for item in node.items if item.id is not None})

    def refused(self, lane: str | None, response_id: str | None) -> None:
        """A create was refused: drop the parent it named, if this lane owns it (RWS-CAC-004, RWS-LAN-021)."""
        entry = self.entries.get(response_id or "")
        if entry is not None and entry.lane == lane:
            del self.entries[entry.node.response.id]


def call_in(node: Node | None, call_id: str) -> Call | None:
    """The call with this id in the context up to ``node``; a walk, for repetitions and faults only."""
    call: Call | None = _find(node, call_id, Call)
    return call


def output_in(node: Node | None, call_id: str) -> CallOutput | None:
    """The output that answered this call in the context up to ``node``."""
    output: CallOutput | None = _find(node, call_id, CallOutput)
    return output


def _find(node: Node | None, call_id: str, kind: Any) -> Any:
    if node is not None:
        for step in node.back():
            for item in step.items:
                if isinstance(item, kind) and item.call_id == call_id:
                    return item
    return None


def item_in(node: Node | None, item_id: str) -> bool:
    """Whether the context up to ``node`` holds an item with this id."""
    return node is not None and any(item.id == item_id for step in node.back() for item in step.items)
