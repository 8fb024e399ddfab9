"""Which responses of a connection can still be named, and when they are dropped (chapter 60)."""

from __future__ import annotations

import pytest
from core_bench import Bench, call, create, output

from responses_ref.protocol.actions import LoadParent
from responses_ref.protocol.batch import Finished
from responses_ref.protocol.errors import problem
from responses_ref.protocol.items import Message
from responses_ref.protocol.settings import Settings

NOT_FOUND = "error previous_response_not_found @previous_response_id"


def known(bench: Bench) -> set[int]:
    """The numbers of the responses that a client may still name without the store."""
    return {int(name.removeprefix("resp_")) for name in bench.core.cache.entries}


def after(bench: Bench, parent: int | None) -> dict[str, str | None]:
    return {} if parent is None else {"previous_response_id": f"resp_{parent}"}


# (doc, steps, the responses that are known in the end).  A step is (how it ends, its parent) on the default
# lane, or (how, parent, lane); "refused" is a 4xx when its turn has come.
Step = tuple[str, int | None] | tuple[str, int | None, str]
HISTORIES: list[tuple[str, list[Step], set[int]]] = [
    ("the newest is known", [("completed", None)], {1}),
    ("an older one is dropped", [("completed", None), ("completed", 1)], {2}),
    ("also by a new chain on its lane", [("completed", None), ("completed", None)], {2}),
    ("an incomplete one drops it too", [("completed", None), ("incomplete", 1)], {2}),
    ("an incomplete one is dropped too", [("incomplete", None), ("completed", 1)], {2}),
    ("a failed one stands beside its parent", [("completed", None), ("failed", 1)], {1, 2}),
    ("a failed one without a parent", [("failed", None)], {1}),
    ("a second failure drops the first", [("completed", None), ("failed", 1), ("failed", 1)], {1, 3}),
    ("but not its parent", [("completed", None), ("failed", 1), ("failed", 2)], {1, 2, 3}),
    ("and the third drops what is older",
     [("completed", None), ("failed", 1), ("failed", 2), ("failed", 3)], {1, 3, 4}),
    ("the next end drops all of them",
     [("completed", None), ("failed", 1), ("failed", 2), ("completed", 3)], {4}),
    ("a refused continuation costs its parent", [("completed", None), ("refused", 1)], set()),
    ("a refusal without a parent costs nothing", [("completed", None), ("refused", None)], {1}),
    ("a refused one costs no other", [("completed", None), ("failed", 1), ("refused", 2)], {1}),
    ("the failed one stays when its parent goes", [("completed", None), ("failed", 1), ("refused", 1)], {2}),
    ("a fork leaves its parent's lane alone", [("completed", None), ("completed", 1, "a")], {1, 2}),
    ("a fork owns its own", [("completed", None), ("completed", 1, "a"), ("completed", 2, "a")], {1, 3}),
    ("the source advances", [("completed", None), ("completed", 1, "a"), ("completed", 1)], {2, 3}),
    ("a refused fork costs nothing", [("completed", None), ("refused", 1, "a")], {1}),
    ("a failed fork costs nothing", [("completed", None), ("failed", 1, "a")], {1, 2}),
    ("a fork's own chain is refused", [("completed", None), ("completed", 1, "a"), ("refused", 2, "a")], {1}),
    ("back to the source's lane", [("completed", None), ("completed", 1, "a"), ("refused", 2)], {1, 2}),
    ("a warm-up is a response", [("warm", None)], {1}),
    ("a warm-up in the middle", [("completed", None), ("warm", 1), ("completed", 2)], {3}),
    ("each lane has its newest",
     [("completed", None, "a"), ("completed", None, "b"), ("completed", None)], {1, 2, 3}),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "left"), [row[1:] for row in HISTORIES], ids=[row[0] for row in HISTORIES])
def test_a_history(steps: list[Step], left: set[int]) -> None:
    """Completed and incomplete ends drop the lane's others, failures little, refusals the named parent."""
    bench = Bench()
    for how, parent, *lane in steps:
        fields = after(bench, parent) | ({"stream_id": lane[0]} if lane else {})
        if how == "refused":
            bench.send(create([output("call_none")], **fields))
        elif how == "warm":
            bench.send(create(generate=False, **fields))
        else:
            bench.send(create(**fields))
            ends = {"completed": bench.finish, "failed": bench.fail}
            ends[how]() if how in ends else bench.say(Finished("max_output_tokens"))
    assert known(bench) == left


def test_what_is_dropped_is_not_found() -> None:
    """RWS-CAC-003, RWS-CAC-007; and the refusal costs nothing more, there being nothing left to drop."""
    bench = Bench()
    for fields in ({}, after(bench, 1)):
        bench.send(create(**fields))
        bench.finish()
    assert bench.send(create(**after(bench, 1))) == [NOT_FOUND]
    assert bench.events[-1]["error"]["message"] == "Previous response with id 'resp_1' not found."
    assert bench.send(create(**after(bench, 2)))[0] == "created"


@pytest.mark.parametrize(
    "bad",
    [
        create(model=None),
        create(model=7),
        create(temperature=9),
        create([output("none")]),
        create([{"type": "item_reference", "id": "none"}]),
        create([5]),
        create(background=True),
    ],
)
def test_every_refusal_of_a_continuation_costs_its_parent(bad: dict[str, object]) -> None:
    """Whatever the reason, also the new input alone (RWS-CAC-004, RWS-CAC-005)."""
    bench = Bench()
    bench.send(create())
    bench.finish()
    bench.send({**bad, "previous_response_id": "resp_1"})
    assert bench.events[-1]["type"] == "error"
    assert known(bench) == set()


def test_what_is_refused_at_once_costs_nothing() -> None:
    """A message that never was a turn, and a create beyond the queue, drop nothing (RWS-LIM-016)."""
    bench = Bench(Settings(max_queued=1))
    bench.send(create())
    bench.finish()
    named = after(bench, 1)
    bench.sends("{", "[]", {"type": "x", **named}, create(stream_id="", **named))
    bench.sends(create(stream_id="a"), create(stream_id="a"))
    assert bench.send(create(stream_id="a", **named)) == ["a: error too_many_queued_responses"]
    assert known(bench) == {1}


def test_the_fork_holds_what_its_source_drops() -> None:
    """A fork has its parent from its response.in_progress on, whatever the source does (RWS-LAN-020)."""
    bench = Bench()
    bench.send(create("first"))
    bench.finish()
    bench.send(create("fork", stream_id="a", **after(bench, 1)))
    bench.send(create("on", **after(bench, 1)))
    bench.finish(turn=bench.turn_on(None))
    assert known(bench) == {3}
    bench.finish(turn=bench.turn_on("a"))
    node = bench.core.cache.get("resp_2")
    assert node is not None
    assert [step.response.id for step in node.back()] == ["resp_2", "resp_1"]


def test_a_waiting_fork_may_come_too_late() -> None:
    """A fork that waits for its lane binds nothing: its source may drop the parent first (RWS-LAN-022)."""
    bench = Bench()
    bench.send(create())
    bench.finish()
    bench.sends(create(stream_id="a"), create(stream_id="a", **after(bench, 1)), create(**after(bench, 1)))
    bench.finish(turn=bench.turn_on(None))
    assert bench.finish(turn=bench.turn_on("a"))[-1] == f"a: {NOT_FOUND}"


def test_a_stored_response_survives_in_the_store() -> None:
    """store:true is found again when the connection has dropped it, also after a refusal."""
    bench = Bench()
    bench.send(create(store=True))
    bench.finish()
    bench.send(create())
    bench.finish()
    assert 1 not in known(bench)
    bench.send(create([output("none")], **after(bench, 1)))
    assert bench.send(create(**after(bench, 1)))[0] == "created"


def test_the_store_is_asked_only_for_what_is_not_here() -> None:
    """A parent in the connection's memory costs no look-up; a strange item is one for that item alone."""
    bench = Bench(held={"LoadParent"})
    bench.send(create(store=True))
    bench.finish()
    assert bench.send(create(**after(bench, 1))) == ["created", "in_progress"]
    bench.finish()
    known, strange = ({"type": "item_reference", "id": name} for name in ("msg_1", "msg_9"))
    bench.send(create([known, strange, strange], **after(bench, 2)))
    action = bench.take(LoadParent)
    assert (action.id, action.items) == (None, ("msg_9",))
    bench.feed(bench.core.parent_loaded, action.turn, None, {"msg_9": Message("user", (), "msg_9")})
    bench.finish()
    bench.send(create(**after(bench, 1)))
    assert bench.take(LoadParent).id == "resp_1"


def test_the_store_gets_the_whole_context() -> None:
    """A store:true continuation of a store:false response takes that along (RWS-CTX-013)."""
    bench = Bench()
    bench.send(create("one"))
    bench.finish()
    bench.send(create("two", store=True, **after(bench, 1)))
    bench.finish()
    assert set(bench.kept) == {"resp_2"}
    assert [step.response.id for step in bench.kept["resp_2"].back()] == ["resp_2", "resp_1"]


def test_what_is_kept_is_what_was_said() -> None:
    """The stored response, the cached one and the one of the terminal event are one and the same."""
    bench = Bench()
    bench.send(create(store=True))
    bench.finish()
    assert bench.kept["resp_1"] is bench.core.cache.get("resp_1")


def test_a_failed_store_fails_the_response() -> None:
    """The client must not believe that it was kept; on this connection it can still be continued."""
    bench = Bench(held={"Store"})
    bench.send(create(store=True))
    assert bench.finish()[-1] == "-message"
    assert bench.stores(works=False) == ["failed server_error"]
    assert bench.kept == {}
    assert bench.send(create(**after(bench, 1)))[0] == "created"


def test_the_terminal_event_waits_for_the_store() -> None:
    """A client that has seen the end can retrieve the response (RWS-RES-028), and its lane is free then."""
    bench = Bench(held={"Store"})
    bench.sends(create(store=True), create())
    assert "completed" not in bench.finish()
    assert bench.stores() == ["completed", "created", "in_progress"]


def test_another_lanes_refused_create_names_a_stranger() -> None:
    """Only the lane that owns a response loses it (RWS-LAN-021)."""
    bench = Bench(held={"Prepare"})
    bench.send(create(stream_id="a"))
    bench.prepares()
    bench.finish()
    bench.send(create(**after(bench, 1)))
    assert bench.refuses(problem("invalid_prompt")) == ["error invalid_prompt @input"]
    assert known(bench) == {1}


def test_tools_that_stay_the_same_are_kept_once() -> None:
    """A client sends its tools with each create; a chain of responses holds one copy of equal ones."""
    tools = [{"type": "function", "name": "f", "strict": True}]
    bench = Bench()
    for number, sent in enumerate((tools, tools, [{**tools[0], "strict": 1}])):
        bench.send(create(tools=sent, instructions="Be " + "kind", **after(bench, number or None)))
        bench.finish()
    node = bench.core.cache.get("resp_3")
    assert node is not None
    third, second, first = (step.response.echo for step in node.back())
    assert first["tools"] is second["tools"]
    assert first["instructions"] is second["instructions"] is third["instructions"]
    assert third["tools"][0]["strict"] is not True


def test_items_of_the_dropped_are_dropped() -> None:
    """A child keeps its parent's context alive; without one it goes, items and all."""
    bench = Bench()
    bench.send(create())
    bench.say(*call(), Finished())
    bench.send(create([output("call_1")], **after(bench, 1)))
    bench.finish()
    assert bench.core.cache.item("fc_1") is not None
    bench.send(create())
    bench.finish()
    assert bench.core.cache.item("fc_1") is None
    assert bench.core.cache.item("msg_2") is not None
