"""Where responses go that outlive their connection (``store: true``)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

import attrs

from responses_ref.protocol.cache import Node
from responses_ref.protocol.items import Item

MAX_STORED = 100_000  # responses; beyond it the oldest goes


class StoreFailed(Exception):
    """The store could not keep a node; its response then ends failed."""


class Store(Protocol):
    """The interface of every store. ``tenant`` keeps a server's keys apart (RWS-ERR-015, RWS-HTTP-025)."""

    async def put(self, tenant: int, node: Node) -> None:
        """Keep a node under its response's id, or as the newest of its conversation, or both.

        Raises:
            StoreFailed: the node was not kept.
        """

    async def get(self, tenant: int, key: str) -> Node | None:
        """The node of a response id or of a conversation id (RWS-HTTP-009, RWS-CRE-037)."""

    async def item(self, tenant: int, item_id: str) -> Item | None:
        """An item of a stored context, for an ``item_reference``."""

    async def delete(self, tenant: int, response_id: str) -> bool:
        """Forget a response; contexts that went on from it live on (RWS-HTTP-014)."""


@attrs.define
class MemoryStore:
    """The default: in this process, gone with it. It holds nodes, so a stored parent is warm."""

    nodes: OrderedDict[tuple[int, str], Node] = attrs.Factory(OrderedDict)
    items: dict[tuple[int, str], dict[str, Item]] = attrs.Factory(dict)  # by the response that brought it
    heads: OrderedDict[tuple[int, str], Node] = attrs.Factory(OrderedDict)

    async def put(self, tenant: int, node: Node) -> None:
        if node.store:
            self.nodes[tenant, node.response.id] = node
            for item_id, item in _brought(node):
                self.items.setdefault((tenant, item_id), {})[node.response.id] = item
        if node.conversation is not None:
            self.heads[tenant, node.conversation] = node
            self.heads.move_to_end((tenant, node.conversation))
        while len(self.nodes) > MAX_STORED:
            (owner, _), oldest = self.nodes.popitem(last=False)
            self._forget_items(owner, oldest)
        while len(self.heads) > MAX_STORED:
            self.heads.popitem(last=False)

    async def get(self, tenant: int, key: str) -> Node | None:
        return self.nodes.get((tenant, key)) or self.heads.get((tenant, key))

    async def item(self, tenant: int, item_id: str) -> Item | None:
        return next(iter(self.items.get((tenant, item_id), {}).values()), None)

    async def delete(self, tenant: int, response_id: str) -> bool:
        node = self.nodes.pop((tenant, response_id), None)
        if node is not None:
            self._forget_items(tenant, node)
        return node is not None

    def _forget_items(self, tenant: int, node: Node) -> None:
        for item_id, _ in _brought(node):
            owners = self.items.get((tenant, item_id), {})
            owners.pop(node.response.id, None)
            if not owners:
                self.items.pop((tenant, item_id), None)


def _brought(node: Node) -> Iterator[tuple[str, Item]]:
    """The items, by id, that came into the store with this node: its own and its unstored parents'."""
    for step in node.back():
        if step.store and step.response.id != node.response.id:  # a pause is a part of its response
            return
        yield from ((item.id, item) for item in step.items if item.id is not None)
