"""The memory store: what is kept under which key, for whom, and how much of it."""

from __future__ import annotations

from typing import Any

import pytest

from responses_ref import store
from responses_ref.protocol.cache import Node
from responses_ref.protocol.items import Item, Message
from responses_ref.protocol.resource import Response
from responses_ref.store import MemoryStore


def node(name: str, *items: Item, stored: bool = True, conversation: str | None = None, **more: Any) -> Node:
    response = Response(name, 0, {}, output=items)
    return Node(response, more.get("parent"), (), items, 0, {}, None, stored, conversation)


def message(name: str) -> Message:
    return Message("assistant", (), name)


async def test_a_response_is_found_by_its_id() -> None:
    """What was put is what is got, context and all."""
    memory = MemoryStore()
    first = node("resp_1", message("msg_1"))
    second = node("resp_2", message("msg_2"), parent=first)
    await memory.put(0, second)
    assert await memory.get(0, "resp_2") is second
    assert (await memory.get(0, "resp_2")).parent is first  # type: ignore[union-attr]
    assert await memory.get(0, "resp_1") is None
    assert await memory.get(0, "resp_3") is None


async def test_an_item_is_found_by_its_id() -> None:
    """The items of a stored response can be referred to, those without an id cannot."""
    memory = MemoryStore()
    await memory.put(0, node("resp_1", message("msg_1"), Message("assistant", ())))
    assert await memory.item(0, "msg_1") == message("msg_1")
    assert await memory.item(0, "msg_2") is None
    assert list(memory.items) == [(0, "msg_1")]


async def test_an_item_of_an_unstored_parent_is_found() -> None:
    """With a response its whole context is stored (RWS-CTX-013), and goes with it."""
    memory = MemoryStore()
    stored = node("resp_1", message("msg_1"))
    unstored = node("resp_2", message("msg_2"), parent=stored, stored=False)
    await memory.put(0, stored)
    await memory.put(0, node("resp_3", message("msg_3"), parent=unstored))
    assert await memory.item(0, "msg_2") == message("msg_2")
    assert await memory.delete(0, "resp_3")
    assert await memory.item(0, "msg_2") is None
    assert await memory.item(0, "msg_1") == message("msg_1")


async def test_an_item_from_before_a_pause_is_found() -> None:
    """A paused response is several nodes of one id, of which only the last is put."""
    memory = MemoryStore()
    paused = node("resp_1", message("msg_1"))
    await memory.put(0, node("resp_1", message("msg_2"), parent=paused))
    assert await memory.item(0, "msg_1") == message("msg_1")


async def test_an_item_that_two_responses_have_stays_with_the_other() -> None:
    """Clients send items again by their id: to forget one of the responses is not to forget the item."""
    memory = MemoryStore()
    for name in ("resp_1", "resp_2"):
        await memory.put(0, node(name, message("msg_1")))
    for name in ("resp_2", "resp_1"):
        assert await memory.item(0, "msg_1") == message("msg_1")
        assert await memory.delete(0, name)
    assert await memory.item(0, "msg_1") is None
    assert memory.items == {}


async def test_tenants_do_not_see_each_other() -> None:
    """An id of another key's is no id (RWS-ERR-015, RWS-HTTP-025)."""
    memory = MemoryStore()
    await memory.put(1, node("resp_1", message("msg_1"), conversation="conv_1"))
    for key in ("resp_1", "conv_1"):
        assert await memory.get(2, key) is None
    assert await memory.item(2, "msg_1") is None
    assert not await memory.delete(2, "resp_1")
    assert await memory.delete(1, "resp_1")


async def test_a_conversation_is_its_newest_context() -> None:
    """Under its own id; a store:false response of it is not found under the response's (RWS-CRE-037)."""
    memory = MemoryStore()
    await memory.put(0, node("resp_1", message("msg_1"), stored=False, conversation="conv_1"))
    newest = node("resp_2", stored=False, conversation="conv_1")
    await memory.put(0, newest)
    assert await memory.get(0, "conv_1") is newest
    assert await memory.get(0, "resp_2") is None
    assert await memory.item(0, "msg_1") is None


async def test_what_is_deleted_is_gone() -> None:
    """Once, with its items; contexts that went on from it live on (RWS-HTTP-014)."""
    memory = MemoryStore()
    first = node("resp_1", message("msg_1"))
    await memory.put(0, first)
    await memory.put(0, node("resp_2", message("msg_2"), parent=first))
    assert await memory.delete(0, "resp_1")
    assert not await memory.delete(0, "resp_1")
    assert await memory.get(0, "resp_1") is None
    assert await memory.item(0, "msg_1") is None
    assert (await memory.get(0, "resp_2")).parent is first  # type: ignore[union-attr]
    assert await memory.item(0, "msg_2") is not None


async def test_a_client_may_use_an_item_id_twice() -> None:
    """The newest item of that id is meant, and stays when an older response is deleted (RWS-ITM-029)."""
    memory = MemoryStore()
    old, new = Message("user", (), "mine"), Message("user", (), "mine")
    await memory.put(0, node("resp_1", old))
    await memory.put(0, node("resp_2", new))
    assert await memory.delete(0, "resp_1")
    assert await memory.item(0, "mine") is new


async def test_the_store_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its bound the oldest goes, with its items; the same for conversations."""
    monkeypatch.setattr(store, "MAX_STORED", 2)
    memory = MemoryStore()
    for number in range(3):
        said = (message(f"msg_{number}"), Message("user", ()))
        await memory.put(0, node(f"resp_{number}", *said, conversation=f"conv_{number}"))
    assert [key for _, key in memory.nodes] == ["resp_1", "resp_2"]
    assert [key for _, key in memory.items] == ["msg_1", "msg_2"]
    assert [key for _, key in memory.heads] == ["conv_1", "conv_2"]


async def test_a_conversation_that_goes_on_is_not_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound drops the conversation that has been silent longest, not the one that began first."""
    monkeypatch.setattr(store, "MAX_STORED", 2)
    memory = MemoryStore()
    for name in ("a", "b", "a", "c"):
        await memory.put(0, node(f"resp_{name}", stored=False, conversation=name))
    assert [key for _, key in memory.heads] == ["a", "c"]
