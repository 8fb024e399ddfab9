from __future__ import annotations

import json

import pytest
from contexts import CUSTOM_OUTPUT, OUTPUT, assistant, called, shown, user
from hypothesis import given
from hypothesis import strategies as st

from responses_ref.model.script import VERBS, Progress, advance
from responses_ref.model.scripted import SPEAK, say
from responses_ref.model.tokens import tokenise
from responses_ref.protocol.batch import Failed, Finished, ItemDone, ItemStarted, Piece
from responses_ref.protocol.errors import Problem, Refused
from responses_ref.protocol.resource import Create

F = {
    "type": "function",
    "name": "f",
    "parameters": {"type": "object", "properties": {"n": {"const": 1}, "s": {}}, "required": ["n"]},
}
G = {"type": "function", "name": "g"}
TOOL = {"type": "custom", "name": "t"}
SEARCH = {"type": "web_search"}
NAMELESS = {"type": "function", "name": None}  # fmt: skip
F_CALL, G_CALL = 'function_call f arguments={"n":1}', "function_call g arguments={}"
TEXT = "message output_text=..."
T_CALL = "custom_tool_call t input=..."


def said(items, seed=1, agent_turns=1, **fields):
    return say(advance(Progress(), items), Create("m", **fields), seed, agent_turns)


def lines(items, **fields):
    """What is said, with seeded texts as dots."""
    found = shown(said(items, **fields))
    return [line if not seeded(line) else line.split("=")[0] + "=..." for line in found]


def seeded(line: str) -> bool:
    kind, _, text = line.partition("=")
    words = text.split(" ")
    return (kind == "message output_text" and 12 <= len(words) <= 24) or (
        kind.startswith("custom_tool_call") and len(words) == 4
    )


def chosen(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "name": name}


def allowed(mode: str, *tools: object) -> dict[str, object]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


SCRIPTS = [
    # script, what one response says of it
    ("say: Hello, world", ["message output_text=Hello, world", "completed"]),
    ("say: a\nsay: b", ["message output_text=a\nb", "completed"]),
    ("say:", ["message output_text=", "completed"]),
    ("say: a\ntokens: 1\nrefuse: no", ["message output_text=a", "message output_text=forest",
                                       "message refusal=no", "completed"]),
    ("think: hm\nthink: so", ["reasoning summary=hm\nso reasoning_text=hm\nso", "completed"]),
    ("think:", ["reasoning summary= reasoning_text=", "completed"]),
    ("refuse: no\nrefuse: never", ["message refusal=no\nnever", "completed"]),
    ("say: a\npause: 2\nevery: 0.5\nsay: b",
     ["message output_text=a", "pause 2", "every 0.5", "message output_text=b", "completed"]),
    ('call: f\ncall: g {"a": 1}',
     ["function_call f arguments={}", 'function_call g arguments={"a": 1}', "completed"]),
    ("custom: t x = 1\ncustom: t",
     ["custom_tool_call t input=x = 1", "custom_tool_call t input=", "completed"]),
    ("think: hm\nsay: a\ncall: f\ncustom: t x\nsay: later",
     ["reasoning summary=hm reasoning_text=hm", "message output_text=a", "function_call f arguments={}",
      "custom_tool_call t input=x", "completed"]),
    ("call: f\nnext:\ncall: g", ["function_call f arguments={}", "completed"]),
    ("call: f\npause: 1\ncall: g", ["function_call f arguments={}", "completed"]),
    ("say: a\nfail: server_error", ["message output_text=a",
                                    "failed server_error: The script ends this response."]),
    ("fail: rate_limit_exceeded Slow down.", ["failed rate_limit_exceeded: Slow down."]),
    ("error: server_error Oh.", ["failed server_error: Oh. (announced)"]),
    ("say: a\nincomplete: content_filter", ["message output_text=a", "incomplete content_filter"]),
    ("call: f\nincomplete: content_filter", ["function_call f arguments={}", "completed"]),
    ("pause: 1", ["pause 1", TEXT, "completed"]),
    ("every: 1\nincomplete: max_messages", ["every 1", "incomplete max_messages"]),
]  # fmt: skip


@pytest.mark.parametrize(("script", "expected"), SCRIPTS, ids=lambda part: repr(part)[:40])
def test_a_script_is_said(script, expected):
    assert lines([user(script)]) == expected


def test_every_verb_has_something_to_do():
    assert SPEAK.keys() == VERBS.keys()


def test_the_elements_of_a_response():
    assert said([user('say: Hi there\ncall: f {"a":1}')]) == (
        ItemStarted("message"),
        Piece("Hi", "output_text"),
        Piece(" there", "output_text"),
        ItemDone(),
        ItemStarted("function_call", "f"),
        Piece('{"', "arguments"),
        Piece("a", "arguments"),
        Piece('":', "arguments"),
        Piece("1", "arguments"),
        Piece("}", "arguments"),
        ItemDone(),
        Finished(),
    )
    assert said([user("say:")]) == (ItemStarted("message"), Piece("", "output_text"), ItemDone(), Finished())
    assert said([user("error: x y")]) == (Failed("x", "y", announced=True),)


def test_compaction_is_an_item_with_opaque_content():
    start, *pieces, done, end = said([user("compact:")])
    assert (start, done, end) == (ItemStarted("compaction"), ItemDone(), Finished())
    assert {piece.part for piece in pieces} == {"encrypted_content"}
    text = "".join(piece.text for piece in pieces)
    assert len(bytes.fromhex(text)) == 16
    assert [piece.text for piece in pieces] == tokenise(text)


@pytest.mark.parametrize("count", [1, 5, 6, 1000])
def test_tokens_are_so_many_pieces(count):
    start, *pieces, _done, _end = said([user(f"tokens: {count}")])
    assert start == ItemStarted("message")
    assert len(pieces) == count


REJECTIONS = [
    # script, status, type, code, message
    ("reject: 400 bad", 400, "invalid_request_error", "bad", "The script rejects this request."),
    ("reject: 401 who You?", 401, "authentication_error", "who", "You?"),
    ("reject: 403 no", 403, "permission_error", "no", "The script rejects this request."),
    ("reject: 404 gone", 404, "invalid_request_error", "gone", "The script rejects this request."),
    ("reject: 429 rate_limit_exceeded", 429, "rate_limit_error", "rate_limit_exceeded",
     "The script rejects this request."),
    ("reject: 500 server_error", 500, "server_error", "server_error", "The script rejects this request."),
    ("reject: 503 slow_down Later.", 503, "service_unavailable_error", "slow_down", "Later."),
    ("reject: 599 x", 599, "server_error", "x", "The script rejects this request."),
]  # fmt: skip


@pytest.mark.parametrize(("script", "status", "kind", "code", "message"), REJECTIONS)
def test_a_rejected_request_is_refused(script, status, kind, code, message):
    with pytest.raises(Refused) as refused:
        said([user(script)])
    again = {"retry-after": "1"} if status == 429 else None
    assert refused.value.problem == Problem(status, kind, code, message, headers=again)


def test_a_rejection_waits_for_its_turn():
    script = user("call: f\nreject: 429 a")
    assert lines([script]) == ["function_call f arguments={}", "completed"]
    with pytest.raises(Refused):
        said([script, called(), OUTPUT])
    with pytest.raises(Refused):
        said([script], tool_choice="none")


LOOP = user("say: a\ncall: f\ncall: g\nsay: b\ncustom: t x\nnext:\ncall: f\nsay: c")
TURNS = [
    # items after the script's message, parallel_tool_calls, what comes next
    ([], True, ["message output_text=a", "function_call f arguments={}", "function_call g arguments={}"]),
    ([], False, ["message output_text=a", "function_call f arguments={}"]),
    ([OUTPUT], False, ["function_call g arguments={}"]),
    ([OUTPUT, OUTPUT], True, ["message output_text=b", "custom_tool_call t input=x"]),
    ([OUTPUT, OUTPUT], False, ["message output_text=b", "custom_tool_call t input=x"]),
    ([OUTPUT, OUTPUT, CUSTOM_OUTPUT], True, ["function_call f arguments={}"]),
    ([OUTPUT, OUTPUT, CUSTOM_OUTPUT, OUTPUT], True, ["message output_text=c"]),
    ([assistant()], True, [TEXT]),
]


@pytest.mark.parametrize(("items", "parallel", "expected"), TURNS, ids=range(len(TURNS)))
def test_a_script_goes_on_turn_by_turn(items, parallel, expected):
    assert lines([LOOP, *items], parallel_tool_calls=parallel) == [*expected, "completed"]


HELLO = [user("hello")]
ONE_ROUND = [*HELLO, called(), OUTPUT]
TWO_ROUNDS = [*ONE_ROUND, called(), OUTPUT]
DONE = [user("say: a"), assistant(), user("and now?")]
AGENT = [
    # items, tools, agent_turns, what an agent says
    (HELLO, [], 1, TEXT),
    ([], [F], 1, F_CALL),
    (HELLO, [F, G], 1, F_CALL),
    (HELLO, [G, F], 1, G_CALL),
    (HELLO, [SEARCH, NAMELESS, TOOL, F], 1, F_CALL),
    (HELLO, [SEARCH, TOOL], 1, TEXT),
    (HELLO, [F], 0, TEXT),
    (ONE_ROUND, [F], 1, TEXT),
    (ONE_ROUND, [F], 2, F_CALL),
    (TWO_ROUNDS, [F], 2, TEXT),
    ([*ONE_ROUND, user("more")], [F], 1, F_CALL),
    (DONE, [F], 1, F_CALL),
    ([user("call: f"), called(), OUTPUT], [F], 1, TEXT),
    ([user("call: f"), called(), OUTPUT], [F], 2, F_CALL),
    ([user("call: f\nsay: a"), called(), OUTPUT], [F], 2, "message output_text=a"),
    ([user("pause: 0")], [F], 1, F_CALL),
]


@pytest.mark.parametrize(("items", "tools", "turns", "expected"), AGENT, ids=range(len(AGENT)))
def test_without_a_script_the_model_is_an_agent(items, tools, turns, expected):
    found = lines(items, tools=tuple(tools), agent_turns=turns)
    assert [line for line in found if line != "pause 0"] == [expected, "completed"]


CALL_F, CALL_BOTH = [user("call: f")], [user("call: f\ncall: g\nsay: a")]
SAY = [user("say: a")]
CHOICES = [
    # items, tools, tool_choice, what it says
    (HELLO, [F], "auto", [F_CALL]),
    (HELLO, [F], "none", [TEXT]),
    (HELLO, [], "required", [TEXT]),
    (HELLO, [SEARCH], "required", [TEXT]),
    (HELLO, [TOOL], "required", [T_CALL]),
    (HELLO, [TOOL, F], "required", [F_CALL]),
    (TWO_ROUNDS, [F], "required", [F_CALL]),
    (TWO_ROUNDS, [F, G], chosen("function", "g"), [G_CALL]),
    (HELLO, [F, TOOL], chosen("custom", "t"), [T_CALL]),
    (HELLO, [F, TOOL], chosen("custom", "f"), [TEXT]),
    (HELLO, [F], chosen("function", "h"), [TEXT]),
    (HELLO, [F], {"type": "web_search"}, [F_CALL]),
    (HELLO, [F], {"type": "function"}, [F_CALL]),
    (HELLO, [F], 7, [F_CALL]),
    (HELLO, [F, G], allowed("auto", G), [G_CALL]),
    (HELLO, [F, G], allowed("auto", TOOL, SEARCH, "g", NAMELESS), [TEXT]),
    (HELLO, [F, TOOL], allowed("auto", TOOL), [TEXT]),
    (TWO_ROUNDS, [F, G], allowed("auto", G), [TEXT]),
    (TWO_ROUNDS, [F, G], allowed("required", G), [G_CALL]),
    (HELLO, [F, TOOL], allowed("required", TOOL), [T_CALL]),
    (HELLO, [F], {"type": "allowed_tools", "mode": "auto"}, [F_CALL]),
    # with a script
    (CALL_F, [], "auto", ["function_call f arguments={}"]),
    (CALL_F, [F], "none", [TEXT]),
    (CALL_BOTH, [F], "none", ["message output_text=a"]),
    ([user("call: f\nnext:\ncall: g\nsay: a")], [], "none", ["message output_text=a"]),
    ([user("call: f\nnext:\ncall: g")], [F], "none", [TEXT]),
    ([user("pause: 1\nevery: 1\ncall: f\nnext:\ncall: g")], [], "none", ["pause 1", "every 1", TEXT]),
    (CALL_F, [G], "required", ["function_call f arguments={}"]),
    (SAY, [F], "required", ["message output_text=a", F_CALL]),
    (SAY, [], "required", ["message output_text=a"]),
    (SAY, [F], "auto", ["message output_text=a"]),
    (SAY, [F, G], chosen("function", "g"), ["message output_text=a", G_CALL]),
    (CALL_BOTH, [F, G], chosen("function", "g"), ["function_call g arguments={}"]),
    (CALL_F, [F, G], chosen("function", "g"), [G_CALL]),
    ([user("custom: f x")], [F], chosen("function", "f"), [F_CALL]),
    (CALL_BOTH, [], allowed("auto", F), ["function_call f arguments={}"]),
    ([user("custom: t x\ncall: f")], [F, TOOL], allowed("auto", TOOL), ["custom_tool_call t input=x"]),
]


@pytest.mark.parametrize(("items", "tools", "choice", "expected"), CHOICES, ids=range(len(CHOICES)))
def test_tool_choice_is_obeyed_first(items, tools, choice, expected):
    assert lines(items, tools=tuple(tools), tool_choice=choice) == [*expected, "completed"]


def test_a_failing_script_is_not_forced_to_call():
    assert lines([user("fail: x y")], tools=(F,), tool_choice="required") == ["failed x: y"]


CUT = "incomplete max_output_tokens"
BUDGETS = [
    # script, max_output_tokens, what is left
    ("say: a b c", 4, ["message output_text=a b c", "completed"]),
    ("say: a b c", 3, ["message output_text=a b c", "completed"]),
    ("say: a b c", 2, ["message output_text=a b (incomplete)", CUT]),
    ("say: a b c", 1, ["message output_text=a (incomplete)", CUT]),
    ("say: a b\npause: 9\nrefuse: c", 2, ["message output_text=a b", CUT]),
    ("say: a b\npause: 9\nrefuse: c d", 3,
     ["message output_text=a b", "pause 9", "message refusal=c (incomplete)", CUT]),
    ("think: a b\nsay: c", 1, ["reasoning summary=a (incomplete)", CUT]),
    ("think: a b\nsay: c", 2, ["reasoning summary=a b (incomplete)", CUT]),
    ("think: a b\nsay: c", 3, ["reasoning summary=a b reasoning_text=a (incomplete)", CUT]),
    ("think: a b\nsay: c", 4, ["reasoning summary=a b reasoning_text=a b", CUT]),
    ('call: f {"a":1}', 2, ['function_call f arguments={"a (incomplete)', CUT]),
    ("call: f\ncall: g", 1, ["function_call f arguments={}", CUT]),
    ("say: a b\nfail: x y", 2, ["message output_text=a b", "failed x: y"]),
    ("say: a b\nfail: x y", 1, ["message output_text=a (incomplete)", CUT]),
    ("say: a\nrefuse:", 1, ["message output_text=a", "message refusal=", "completed"]),
    ("say:\nrefuse: a b", 1, ["message output_text=", "message refusal=a (incomplete)", CUT]),
    ("pause: 1\nincomplete: content_filter", 1, ["pause 1", "incomplete content_filter"]),
]  # fmt: skip


@pytest.mark.parametrize(("script", "budget", "expected"), BUDGETS, ids=range(len(BUDGETS)))
def test_the_token_budget_cuts_what_is_said(script, budget, expected):
    assert lines([user(script)], max_output_tokens=budget) == expected


def test_an_agent_is_cut_too():
    (line, end) = shown(said(HELLO, max_output_tokens=3))
    assert len(line.removesuffix(" (incomplete)").split("=")[1].split(" ")) == 3
    assert end == CUT


def test_seeds_differ_and_repeat():
    assert said(HELLO, seed=1) == said(HELLO, seed=1) != said(HELLO, seed=2)
    lengths = {len(said(HELLO, seed=seed)) - 3 for seed in range(300)}
    assert lengths == set(range(12, 25))


def test_arguments_have_a_bound():
    """A schema of 1 MB must not make gigabytes: 32 times 32 times what one `const` holds."""
    for size, fits in ((100, True), (200, False), (1_000_000, False)):
        inner = {"type": "array", "minItems": 32, "items": {"const": "x" * size}}
        outer = {"type": "array", "minItems": 32, "items": inner}
        schema = {"type": "object", "required": ["a"], "properties": {"a": outer}}
        tools = ({"type": "function", "name": "f", "parameters": schema},)
        text = "".join(
            one.text for one in say(Progress(), Create("m", tools=tools), 1, 1) if isinstance(one, Piece)
        )
        assert (len(text) > 1024 * size) == fits
        assert (text == "{}") != fits


def test_arguments_are_compact_json_from_the_schema():
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "required": ["s", "é"]}}
    assert shown(said(HELLO, tools=(tool,)))[0] == 'function_call f arguments={"s":{},"é":{}}'


ROWS = st.sampled_from(["say: a b", "say:", "call: f", "custom: t x", "next:", "think: a", "refuse: b c"]) | (
    st.sampled_from(
        ["tokens: 3", "pause: 1", "every: 2", "fail: x", "error: x", "incomplete: content_filter"]
    )
)
ASKS = st.fixed_dictionaries(
    {
        "tools": st.sampled_from([(), (F,), (TOOL, G)]),
        "tool_choice": st.sampled_from(
            ["auto", "none", "required", chosen("function", "f"), allowed("auto", G)]
        ),
        "parallel_tool_calls": st.booleans(),
        "max_output_tokens": st.none() | st.integers(1, 9),
    }
)


@given(st.lists(ROWS, max_size=8).map("\n".join), st.integers(0, 3), ASKS)
def test_whatever_is_asked_for_has_a_proper_shape(script, answered, fields):
    try:
        elements = said([user(script), *[OUTPUT] * answered], **fields)
    except Refused:
        return
    kinds = []
    open_item = False
    for element in elements[:-1]:
        if isinstance(element, ItemStarted):
            assert not open_item
            kinds.append(element.kind)
        elif isinstance(element, Piece):
            assert open_item
        open_item = isinstance(element, ItemStarted) or (open_item and not isinstance(element, ItemDone))
        assert not isinstance(element, Finished | Failed)
    assert not open_item
    assert isinstance(elements[-1], Finished | Failed)
    calls = [kind for kind in kinds if kind.endswith("_call")]
    if fields["tool_choice"] == "none":
        assert not calls
    if not fields["parallel_tool_calls"]:
        assert len(calls) <= 1
    if fields["max_output_tokens"]:
        assert (
            sum(isinstance(one, Piece) and one.text != "" for one in elements) <= fields["max_output_tokens"]
        )


def test_the_whole_is_json_for_any_argument():
    texts = [piece.text for piece in said(HELLO, tools=(F,)) if isinstance(piece, Piece)]
    assert json.loads("".join(texts)) == {"n": 1}
