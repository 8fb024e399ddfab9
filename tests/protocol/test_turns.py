"""One conversation on the default lane: messages in, events out."""

from __future__ import annotations

from typing import Any

import pytest
from core_bench import Bench, Step, call, create, lines, output, play

from responses_ref.protocol.actions import Bill, CancelModel, Send, StartModel
from responses_ref.protocol.batch import Finished, ItemStarted
from responses_ref.protocol.connection import MAX_REMEMBERED
from responses_ref.protocol.errors import CATALOGUE, problem
from responses_ref.protocol.settings import Settings

SAID = "+message (output_text 'ok' ='ok' )output_text -message"
NOT_FOUND = "error previous_response_not_found @previous_response_id"
START = "created in_progress"
WARM = {"generate": False}


def after(number: int) -> dict[str, str]:
    return {"previous_response_id": f"resp_{number}"}


def cut(bench: Bench) -> None:
    bench.say(Finished("max_output_tokens"))


def calls(bench: Bench) -> None:
    bench.say(*call(), Finished())


def binary(bench: Bench) -> None:
    bench.feed(bench.core.receive_binary, b"{}")


# (doc, what happens, what is sent)
TURNS: list[tuple[str, list[Step], str]] = [
    ("a plain turn", [create(), Bench.finish], f"{START} {SAID} completed"),
    ("a continuation", [create(), Bench.finish, create(**after(1)), Bench.finish],
     f"{START} {SAID} completed " * 2),
    ("an unknown parent", [create(**after(9))], NOT_FOUND),
    ("no JSON", ["{"], "error invalid_json"),
    ("JSON, no object", ["[1]"], "error invalid_event"),
    ("a binary message", [binary], "error invalid_event"),
    ("no type", [{"model": "m"}], "error unknown_event_type @type"),
    ("a type by number", [{"type": 7}], "error unknown_event_type @type"),
    ("a type that does not exist", [{"type": "response.cancel"}], "error unknown_event_type @type"),
    ("the prototype's type", [{"type": "response.append"}], "error unknown_event_type @type"),
    ("a message that wants no answer", [{"type": "response.processed", "response_id": "x"}], ""),
    ("no model", [create(model=None)], "error missing_required_parameter @model"),
    ("an error costs nothing", ["{", create(), Bench.finish], f"error invalid_json {START} {SAID} completed"),
    ("a failure costs nothing", [create(), Bench.fail, create()], f"{START} failed server_error {START}"),
    ("a failed response goes on", [create(), Bench.fail, create(**after(1))],
     f"{START} failed server_error {START}"),
    ("an incomplete one goes on", [create(), cut, create(**after(1))],
     f"{START} incomplete max_output_tokens {START}"),
    ("a second create waits", [create(), create()], START),
    ("and starts when the first has ended", [create(), create(), Bench.finish],
     f"{START} {SAID} completed {START}"),
    ("a waiting create is judged when its turn comes", [create(), create(model=None), Bench.finish],
     f"{START} {SAID} completed error missing_required_parameter @model"),
    ("it may name the one before", [create(), create(**after(1)), Bench.finish],
     f"{START} {SAID} completed {START}"),
    ("after a refusal the next one starts", [create(), create([5]), create(), Bench.finish],
     f"{START} {SAID} completed error invalid_type @input[0] {START}"),
    ("JSON is judged at once", [create(), "{"], f"{START} error invalid_json"),
    ("the type is judged at once", [create(), {"type": "x"}], f"{START} error unknown_event_type @type"),
    ("a warm-up", [create(**WARM)], "created completed"),
    ("a warm-up goes on", [create(**WARM), create([], **after(1)), Bench.finish],
     f"created completed {START} {SAID} completed"),
    ("an empty warm-up goes on", [create([], **WARM), create([], **after(1))], f"created completed {START}"),
    ("a stored warm-up", [create(store=True, **WARM)], "created completed"),
    ("a tool loop", [create(), calls, create([output("call_1")], **after(1)), Bench.finish],
     f"{START} +function_call '{{}}' ='{{}}' -function_call completed {START} {SAID} completed"),
    ("a conversation", [create(conversation="c"), Bench.finish, create(conversation={"id": "c"})],
     f"{START} {SAID} completed {START}"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "sent"), [row[1:] for row in TURNS], ids=[row[0] for row in TURNS])
def test_a_turn(steps: list[Step], sent: str) -> None:
    """One lane, one turn after another."""
    assert play(Bench(), steps) == sent.strip()


# (doc, a create with two faults, the fault that is told): RWS-CRE-038
ORDER: list[tuple[str, dict[str, Any], str]] = [
    ("the model before all else", {"model": None, "temperature": "x"}, "missing_required_parameter @model"),
    ("types before values", {"temperature": 9, "store": 1}, "invalid_type @store"),
    (
        "the request before the model's name",
        {"model": "none", "temperature": 9},
        "invalid_value @temperature",
    ),
    ("the model's name before the parent", {"model": "none", **after(9)}, "model_not_found @model"),
    ("the parent before the items", {"input": [5], **after(9)}, NOT_FOUND.removeprefix("error ")),
    ("items in their order", {"input": [output("none"), 5]}, "tool_call_not_found @input"),
]


@pytest.mark.parametrize(("fields", "told"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER])
def test_the_first_fault_is_told(fields: dict[str, Any], told: str) -> None:
    """Of several faults one is told, in the order in which a create is judged."""
    assert play(Bench(Settings(models=("m",))), [create() | fields]) == f"error {told}"


def test_the_context_of_a_conversation_goes_on() -> None:
    """A conversation is a context in the store under its own id, also for store:false (RWS-CRE-037)."""
    bench = Bench()
    bench.send(create("one", conversation="c"))
    bench.finish()
    bench.send(create("two", conversation="c"))
    node = bench.playing[0].parent
    assert node is not None
    assert node.response.id == "resp_1"
    assert "resp_1" not in bench.kept
    assert bench.send(create(conversation="other")) == []
    assert bench.send(create(stream_id="a", previous_response_id="c")) == [f"a: {NOT_FOUND}"]


def test_without_warm_up() -> None:
    """A server that does not offer it must not take a warm-up for a turn (RWS-WRM-010)."""
    bench = Bench(Settings(profiles=frozenset({"core"})))
    assert play(bench, [create(**WARM)]) == "error unsupported_parameter @generate"
    assert (
        play(bench, [create(prompt_cache_options={"prewarm": True})])
        == "error unsupported_parameter @generate"
    )


def test_without_steering() -> None:
    """A server that does not offer it answers, as to any type it does not know (RWS-CRE-036)."""
    bench = Bench(Settings(profiles=frozenset({"core"})))
    steer = {"type": "response.steer", "previous_response_id": "resp_1", "input": "x"}
    assert play(bench, [create(), steer]) == f"{START} error unknown_event_type @type"


def test_without_the_private_dialect() -> None:
    """``response.processed`` is private to one client."""
    bench = Bench(Settings(profiles=frozenset({"core"})))
    assert play(bench, [{"type": "response.processed"}]) == "error unknown_event_type @type"


def test_an_http_create() -> None:
    """A body is a create without a type, a lane and a warm-up (RWS-HTTP-003, RWS-HTTP-004)."""
    bench = Bench()
    bench.feed(bench.core.post, {"model": "m", "input": "hi", "stream_id": "a", "generate": False}, 10)
    bench.finish()
    assert " ".join(lines(bench.events)) == f"{START} {SAID} completed"
    assert "stream_id" not in bench.events[0]


# --- What is held, and what is done in which order. ---


def test_the_parent_is_loaded_then_prepared_then_played() -> None:
    """Nothing is sent before the pipeline has let the turn pass (RWS-CRE-035)."""
    bench = Bench(held={"LoadParent", "Prepare"})
    assert bench.send(create(**after(9))) == []
    assert bench.loads() == [NOT_FOUND]
    bench.send(create(store=True))
    assert bench.prepares() == ["created", "in_progress"]
    bench.finish()
    bench.send(create())
    bench.prepares()
    bench.finish()
    assert bench.send(create(**after(1))) == []
    assert bench.loads(bench.kept["resp_1"]) == []
    assert bench.prepares() == ["created", "in_progress"]
    node = bench.playing[0].parent
    assert node is bench.kept["resp_1"]


def test_a_turn_is_refused_while_it_is_prepared() -> None:
    """The pipeline's refusal is the turn's only answer, and frees its lane."""
    bench = Bench(held={"Prepare"})
    bench.sends(create(), create())
    assert bench.refuses(problem("invalid_prompt")) == ["error invalid_prompt @input"]
    assert bench.prepares() == ["created", "in_progress"]


def test_late_answers_are_nobodys() -> None:
    """What comes for a turn that no longer waits for it changes nothing."""
    bench = Bench()
    bench.send(create())
    turn = bench.playing[0]
    core, prepared = bench.core, turn.prepared
    for late in (
        (core.parent_loaded, turn, None),
        (core.prepared, turn, prepared),
        (core.refused, turn, problem("invalid_prompt")),
        (core.stored, turn),
        (core.store_failed, turn),
    ):
        assert bench.feed(*late) == []
    bench.finish()
    assert bench.say(Finished(), turn=turn) == []


def test_the_model_starts_after_in_progress() -> None:
    """First the events, then the model; the account comes last."""
    done: list[Any] = []
    bench = Bench(watch=done.append)
    bench.send(create())
    kinds = [type(action) for action in done]
    assert kinds.index(StartModel) > max(n for n, kind in enumerate(kinds) if kind is Send)
    bench.finish()
    kinds = [type(action) for action in done]
    assert kinds.index(Bill) > max(n for n, kind in enumerate(kinds) if kind is Send)
    assert CancelModel not in kinds


def test_each_response_is_accounted_for_once() -> None:
    """Completed, failed and warm-up responses are billed; refused creates are not."""
    bench = Bench()
    play(bench, [create(), Bench.finish, create(**WARM), create([5]), create(), Bench.fail])
    assert bench.bills == [("resp_1", "completed"), ("resp_2", "completed"), ("resp_3", "failed")]


def test_an_empty_batch_is_nothing() -> None:
    """A tick of the clock on which nothing is due."""
    bench = Bench()
    bench.send(create())
    assert bench.say() == []
    assert bench.say(ItemStarted("message")) == ["+message"]


def test_the_response_as_it_goes() -> None:
    """Status, error, details, times and usage are those of the event that carries the response."""
    bench = Bench()
    play(
        bench,
        [create(), Bench.finish, create(), Bench.fail, create(), lambda b: b.say(Finished("content_filter"))],
    )
    seen = [event["response"] for event in bench.events if "response" in event]
    assert [response["status"] for response in seen] == [
        "in_progress", "in_progress", "completed", "in_progress", "in_progress", "failed",
        "in_progress", "in_progress", "incomplete",
    ]  # fmt: skip
    assert [response["completed_at"] for response in seen if response["completed_at"]] == [1000]
    assert [response["error"] for response in seen if response["error"]] == [
        {"code": "server_error", "message": "It broke."}
    ]
    assert [r["incomplete_details"] for r in seen if r["incomplete_details"]] == [
        {"reason": "content_filter"}
    ]
    assert [bool(response["usage"]) for response in seen] == [False, False, True] * 3


def test_what_an_error_looks_like() -> None:
    """One object in one shape: status, type, code, message, param; headers only where there are some."""
    bench = Bench(Settings(max_queued=0))
    bench.sends(create(model=None), create(), create())
    first, last = bench.events[0], bench.events[-1]
    assert first == {
        "type": "error",
        "status": 400,
        "error": {
            "type": "invalid_request_error",
            "code": "missing_required_parameter",
            "message": "Missing required parameter: 'model'.",
            "param": "model",
        },
    }
    assert last["status"] == 429
    assert last["error"]["headers"] == {"retry-after": "1"}
    assert last["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize("code", CATALOGUE)
def test_the_catalogue(code: str) -> None:
    """Each row has a status that is an error and a text that takes its arguments (RWS-ERR-002, -004)."""
    words = {"id", "call_id", "kind", "why", "param", "expected", "name", "model", "limit", "method"}
    made = problem(code, **{word: f"<{word}>" for word in words})
    assert 400 <= made.status < 600
    assert made.message.endswith((".", ">"))
    assert "{" not in made.message
    assert made.type.endswith("_error")


def test_ended_responses_are_remembered_within_bounds() -> None:
    """A late steer gets the right refusal, for the last thousand responses."""
    bench = Bench()
    for _ in range(MAX_REMEMBERED + 2):
        bench.send(create(**WARM))
    steer = {"type": "response.steer", "input": "x"}
    assert bench.send(steer | {"previous_response_id": "resp_2"}) == ["steer.failed response_not_found"]
    assert bench.send(steer | {"previous_response_id": "resp_3"}) == [
        "steer.failed response_already_completed"
    ]
