"""``diff``: two servers that do the same are alike, whatever they call things."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import trio
from servers import Good, Memory, spec, turn

from conformance import transcript
from conformance.diff import compare, fresh, said
from conformance.transcript import Case


def record(**event: Any) -> dict[str, Any]:
    return {"t": 0, "conn": "a", "dir": "s2c", "kind": "text", "text": json.dumps(event)}


def answer(response: str, item: str, call: str) -> list[dict[str, Any]]:
    return [
        record(type="response.created", response={"id": response, "previous_response_id": None}),
        record(type="response.output_item.added", item={"id": item, "call_id": call}),
        record(type="response.output_text.delta", item_id=item, delta="msg"),
        record(type="response.completed", response_id=response),
        record(type="error", error={"message": f"Response '{response}' is gone, not {item}."}),
    ]


def test_ids_are_told_by_their_order_however_short_they_are() -> None:
    assert said(answer("resp_1", "msg_544", "c1")) == said(answer("resp_9f3e77aa", "m2", "call_77"))
    assert said(answer("resp_1", "msg_544", "c1")) != said(answer("resp_1", "msg_544", "msg_544"))


def test_a_short_id_is_not_replaced_inside_of_words() -> None:
    assert '"delta": "msg"' in said(answer("r", "m", "c"))[2]
    assert "Response 'id1' is gone, not id2." in said(answer("r", "m", "c"))[4]


CONVERSATION = """id: a-case
covers: RWS-ORD-001
> {"type":"response.create","model":"scripted","input":"say: a","conversation":"conv_x"}
<... until {"type":"response.completed"}
repeat 2
> {"type":"response.create","model":"scripted","input":"say: a","conversation":{"id":"conv_x"}}
<... until {"type":"response.completed"}
end"""


def conversation() -> Case:
    return transcript.parse("x.md", 1, CONVERSATION.split("\n"))


class Remembering(Good):
    """Names everything anew, and tells how long a conversation is by now."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: dict[str, int] = {}
        self.names = count(1)

    def turn(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        found = message.get("conversation")
        name = str(found["id"] if isinstance(found, dict) else found)
        self.turns[name] = self.turns.get(name, 0) + 1
        return turn(f"r{next(self.names)}", ["a"] * self.turns[name])


async def test_a_server_is_like_itself_although_it_remembers(autojump_clock: trio.abc.Clock) -> None:
    async with trio.open_nursery() as nursery:
        target = Memory(nursery, Remembering().serve)
        assert await compare(conversation(), target, target) is None
        nursery.cancel_scope.cancel()


def test_conversations_are_new_each_time_and_the_same_within_a_case() -> None:
    case = conversation()
    one, other = fresh(case), fresh(case)
    first, second = (step.value["conversation"] for step in one.walk() if step.verb == "send")  # type: ignore[union-attr]
    assert first == second["id"] != "conv_x"
    assert one.steps != other.steps
    plain = spec().cases["a-whole-turn"]
    assert fresh(plain) is plain
