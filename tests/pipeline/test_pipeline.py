"""What the pipeline makes of one turn: counts, refusals, slices."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from core_bench import Bench, MuteModel, call, create, message, output, refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from responses_ref.model.tokens import tokenise
from responses_ref.oracle import Oracle
from responses_ref.pipeline import Pipeline
from responses_ref.pipeline.classify import WORDS, Scan
from responses_ref.protocol.batch import Failed, Finished, ItemStarted, Piece
from responses_ref.protocol.cache import Prepared

FLAGGED = "error invalid_prompt @input"


def prepared(bench: Bench) -> Prepared:
    result = bench.playing[-1].prepared
    assert result is not None
    return result


def turn(bench: Bench, said: Any, number: int = 0, **fields: Any) -> tuple[int, int]:
    """One whole turn; gives its input tokens and how many of them were cached."""
    parent = {"previous_response_id": f"resp_{number}"} if number else {}
    bench.send(create(said, **parent, **fields))
    counts = prepared(bench).input_tokens, prepared(bench).cached_tokens
    bench.finish("ok")
    return counts


# --- Counting tokens (RWS-RES-023 to -025). ---


def test_the_whole_context_is_counted() -> None:
    """An item is a header and its tokens; output counts as it was said; the rest of the context is cached."""
    bench = Bench()
    assert turn(bench, "one two three") == (1 + 3, 0)
    assert turn(bench, "four", 1) == (4 + 2 + 2, 4 + 2)
    assert turn(bench, [], 2) == (8 + 2, 8 + 2)


def test_tools_and_instructions_stand_before_the_items() -> None:
    """They count, and are cached while they stay the same; what follows a change is new."""
    tools = [{"type": "function", "name": "f"}]
    size = 1 + len(tokenise(json.dumps(tools, separators=(",", ":"))))
    bench = Bench()
    assert turn(bench, "a", tools=tools, instructions="Be kind.") == (size + 4 + 2, 0)
    kept = size + 4 + 2 + 2
    assert turn(bench, [], 1, tools=tools, instructions="Be kind.") == (kept, kept)
    assert turn(bench, [], 2, tools=tools, instructions="Be brief.") == (kept + 2, size)
    assert turn(bench, [], 3, tools=tools) == (kept, size)
    assert turn(bench, [], 4) == (2 + 4 * 2, 0)


def test_parts_that_are_not_read_count_as_one_token() -> None:
    """An image is a token, in a message and in a tool's output (RWS-SIM annex)."""
    image = {"type": "input_image", "image_url": "data:,x"}
    bench = Bench()
    assert turn(bench, [{"role": "user", "content": [image, image]}]) == (3, 0)
    bench.send(create("a"))
    bench.say(*call("f", "{}"), Finished())
    bench.send(create([output("call_1", [image])], previous_response_id="resp_2"))
    assert prepared(bench).input_tokens == 2 + 2 + 2


SCRIPTS = st.sampled_from([
    "say: to be or not", "think: hm\nsay: yes", "refuse: not this", "tokens: 7", "custom: g a b",
    "call: f {\"a\":1}",
    "call: f {}\ncall: f {}", "say:", "compact:\nsay: x", "think:\ncall: f {}", "say: a\nfail: server_error",
    "say: a\nincomplete: content_filter",
])  # fmt: skip


def _receive(oracle: Oracle, **fields: Any) -> list[dict[str, Any]]:
    text = json.dumps({"type": "response.create", "model": "scripted", "store": False, **fields})
    lines = oracle.step({"do": "receive", "conn": "a", "text": text})
    return [json.loads(line["text"]) for line in lines if line["out"] == "send"]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(SCRIPTS, min_size=1, max_size=4), st.integers(0, 6))
def test_going_on_counts_like_starting_over(scripts: list[str], budget: int) -> None:
    """A continuation has as many input tokens as the same items sent all at once."""
    oracle = Oracle()
    oracle.step({"do": "open", "conn": "a"})
    history: list[Any] = []
    parent: dict[str, Any] = {}
    due: list[Any] = []
    for number, script in enumerate(scripts):
        new = [*due, {"type": "message", "role": "user", "content": script}]
        bound = {"max_output_tokens": budget} if budget and number == 0 else {}
        last = _receive(oracle, input=new, **parent, **bound)[-1]
        parent = {"previous_response_id": last["response"]["id"]}
        said = last["response"]["output"]
        due = [output(item["call_id"]) for item in said if item["type"] == "function_call"]
        due += [
            output(i["call_id"], kind="custom_tool_call_output")
            for i in said
            if i["type"] == "custom_tool_call"
        ]
        history += [*new, *said]
    counts = []
    for way in ({"input": due, **parent}, {"input": [*history, *due]}):
        last = _receive(oracle, generate=False, **way)[-1]
        assert last["type"] == "response.completed"
        counts.append(last["response"]["usage"]["input_tokens"])
    assert counts[0] == counts[1]


@pytest.mark.parametrize("pair", [(1, 1.0), (1, True), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_tools_that_python_takes_for_equal_are_others(pair: tuple[Any, Any]) -> None:
    """Their JSON differs, so they are rendered anew and save nothing (RWS-RES-024)."""
    bench = Bench()
    for number, value in enumerate(pair):
        tool = {"type": "function", "name": "f", "parameters": {"x": value}}
        parent = {"previous_response_id": "resp_1"} if number else {}
        bench.send(create(tools=[tool], **parent))
        bench.finish()
    assert bench.events[-1]["response"]["usage"]["input_tokens_details"]["cached_tokens"] == 0


@pytest.mark.parametrize("pair", [(None, ""), ("", None)])
def test_empty_instructions_are_none(pair: tuple[Any, Any]) -> None:
    """They are no token, so the whole context is still the chain's (RWS-RES-024)."""
    bench = Bench()
    for number, instructions in enumerate(pair):
        parent = {"previous_response_id": "resp_1"} if number else {}
        bench.send(create(instructions=instructions, **parent))
        bench.finish()
    usage = bench.events[-1]["response"]["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] == usage["input_tokens"] - 2


def test_an_item_that_was_never_finished_is_no_context() -> None:
    """What a failed response had begun is not in the context of the next one (RWS-RES-023)."""
    counts = []
    for broken in ([], [ItemStarted("message"), Piece("a", "output_text"), Piece(" b", "output_text")]):
        bench = Bench()
        bench.send(create())
        bench.say(*message("one"), *broken, Failed("server_error", "It broke."))
        bench.send(create("two", previous_response_id="resp_1"))
        bench.finish()
        counts.append([event["response"]["usage"] for event in bench.events if "response" in event][-1])
    assert counts[0] == counts[1]


# --- The safety check. ---


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("form", ["{}", "please {} now", "{}\n"])
def test_a_word_of_the_list_is_flagged(word: str, form: str) -> None:
    """In any case and anywhere in a text."""
    for said in (word, word.upper()):
        assert Bench().send(create(form.format(said))) == [FLAGGED]


def test_a_word_is_flagged_across_items_and_turns() -> None:
    """A word that is cut in two is a word all the same."""
    word = WORDS[0]
    for cut in range(1, len(word)):
        first, second = word[:cut], word[cut:]
        assert Bench().send(create([{"role": "user", "content": one} for one in (first, second)])) == [
            FLAGGED
        ]
        bench = Bench()
        turn(bench, first)
        assert bench.send(create(second, previous_response_id="resp_1")) == [FLAGGED]
        assert bench.send(create(second)) == ["created", "in_progress"]


@settings(deadline=None, derandomize=True)
@given(st.text("frobnicate the wp.\nİẞ", max_size=60), st.lists(st.integers(0, 60), max_size=4))
def test_a_scan_sees_the_same_however_it_is_cut(text: str, cuts: list[int]) -> None:
    """Reading in pieces finds what reading at once finds."""
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})

    def in_pieces() -> Scan:
        scan = Scan()
        for start, end in pairwise(places):
            scan = scan.over(text[start:end])
        return scan

    assert (refusal(in_pieces) is None) == (refusal(lambda: Scan().over(text)) is None)


def test_a_refused_turn_leaves_its_parent_as_it_was() -> None:
    """What was read of a refused request is not part of any context: a fork goes on."""
    bench = Bench()
    turn(bench, "ok")
    assert bench.send(create(WORDS[0], previous_response_id="resp_1", stream_id="a")) == [f"a: {FLAGGED}"]
    assert bench.send(create("fine", previous_response_id="resp_1")) == ["created", "in_progress"]


# --- The route, and what a heavier service would cost. ---


def test_a_model_is_looked_up_once_in_a_chain() -> None:
    """A new chain asks, a continuation does not, another model is another question."""
    bench = Bench()
    lookups = []
    for number, model in enumerate(("m", "m", "m", "other", "other")):
        turn(bench, "x", number, model=model)
        lookups.append(bench.newest.prepared.work["lookups"])  # type: ignore[union-attr]
    assert lookups == [1, 0, 0, 1, 0]


def _steps(pipeline: Pipeline, **fields: Any) -> list[float]:
    """The pauses that one create makes."""
    bench = Bench(pipeline=pipeline, held={"Prepare"})
    bench.send(create(**fields))
    (action,) = bench.pending
    return [step for step in pipeline.prepare(action.turn, lambda _: None) if not isinstance(step, Prepared)]  # type: ignore[attr-defined]


def test_a_small_turn_makes_no_pause() -> None:
    """What is done in a millisecond is done at once."""
    assert _steps(Pipeline(MuteModel(), tokenise)) == []


def test_hops_and_a_slow_check_take_time() -> None:
    """Simulated services and a slower safety check are waited for, not computed."""
    heavy = Pipeline(MuteModel(), tokenise, classify_seconds=0.01, hops=3, hop_seconds=0.5)
    assert _steps(heavy, instructions="not checked") == [1.5, 0.02]
    assert _steps(heavy, input="é€") == [1.5, 0.05]  # five bytes
    assert _steps(heavy, input="") == [1.5]
