from __future__ import annotations

import pytest
from contexts import OUTPUT, assistant, called, shown, user

from responses_ref.model import ScriptedModel
from responses_ref.model.script import Progress
from responses_ref.model.streamer import PROFILES, TimeInfo, profile
from responses_ref.model.tokens import tokenise
from responses_ref.protocol.batch import Piece
from responses_ref.protocol.errors import Refused
from responses_ref.protocol.resource import Create

MODEL = ScriptedModel(PROFILES["cerebras-1000"])
TOOL = {"type": "function", "name": "f", "parameters": {}}


def said(model, progress, number=0, **fields):
    return shown(model.plan(progress, Create("m", **fields), 0, 0, number).parts)


def test_a_tool_loop_from_its_parts():
    progress = MODEL.advance(None, [user("say: hm\ncall: f\nsay: done")])
    assert said(MODEL, progress) == ["message output_text=hm", "function_call f arguments={}", "completed"]
    progress = MODEL.advance(progress, [assistant("hm"), called()])
    progress = MODEL.advance(progress, [OUTPUT])
    assert said(MODEL, progress) == ["message output_text=done", "completed"]


def test_an_empty_context_is_none_or_the_start():
    assert MODEL.advance(None, []) == Progress()


def test_agent_turns_are_the_models():
    progress = MODEL.advance(None, [user("hello"), called(), OUTPUT])
    assert said(MODEL, progress, tools=(TOOL,))[0].startswith("message")
    twice = ScriptedModel(PROFILES["instant"], agent_turns=2)
    assert said(twice, progress, tools=(TOOL,))[0].startswith("function_call")


def test_the_same_seed_and_number_give_the_same_plan():
    progress = MODEL.advance(None, [user("tokens: 40")])
    plans = [
        ScriptedModel(PROFILES["cerebras-1000"], seed=seed).plan(progress, Create("m"), 5, 5, number)
        for seed in (0, 0, 1, 2)
        for number in (0, 1)
    ]
    assert plans[0] == plans[2]
    assert plans[1] == plans[3]
    assert len({plan.parts for plan in plans}) == 6
    assert len({plan.offsets for plan in plans}) == 6


def test_the_words_of_a_seed_are_those_of_the_annex():
    progress = MODEL.advance(None, [user("tokens: 4")])
    assert said(ScriptedModel(PROFILES["instant"], seed=7), progress, number=1) == [
        "message output_text=daisy ember candle bread",
        "completed",
    ]


def test_a_rejecting_script_refuses_and_a_wrong_one_too():
    progress = MODEL.advance(None, [user("reject: 418 teapot")])
    with pytest.raises(Refused):
        MODEL.plan(progress, Create("m"), 0, 0, 0)
    with pytest.raises(Refused):
        MODEL.advance(progress, [user("say: a\nhuh")])


def test_time_is_accounted_for():
    model = ScriptedModel(profile("10", ttft=1))
    plan = model.plan(model.advance(None, [user("tokens: 11")]), Create("m"), 7, 7, 0)
    info = model.time_info(plan, 7, 7)
    assert info == TimeInfo(1, 0, pytest.approx(1), pytest.approx(2))


def test_tokens_that_come_back_count_the_same():
    progress = MODEL.advance(None, [user("say: Hello, wörld  42!\ntokens: 9")])
    pieces = [part for part in MODEL.plan(progress, Create("m"), 0, 0, 0).parts if isinstance(part, Piece)]
    first, second = pieces[:-9], pieces[-9:]
    for item in (first, second):
        assert tokenise("".join(piece.text for piece in item)) == [piece.text for piece in item]
