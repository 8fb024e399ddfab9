from __future__ import annotations

from contextlib import suppress

import attrs
import pytest
from contexts import CUSTOM_OUTPUT, OUTPUT, assistant, called, user
from hypothesis import given
from hypothesis import strategies as st

from responses_ref.model.script import VERBS, Line, Progress, advance, parse
from responses_ref.protocol.errors import Refused
from responses_ref.protocol.items import InputText, Message, OtherItem, OtherPart, Reasoning

MAX_CHARACTERS, MAX_LINES, MAX_TOKENS = 200_000, 4_096, 200_000

GOOD = [
    # script, lines
    ("say: a b", [Line("say", "a b")]),
    ("say:a", [Line("say", "a")]),
    ("say:  a", [Line("say", " a")]),
    ("say:", [Line("say")]),
    ("say: a \t\r\n\r\n \t\nsay: b\n\n", [Line("say", "a \t\nb")]),
    ("say: a\r\r\nsay: \r", [Line("say", "a\r\n")]),
    ("say: a: b", [Line("say", "a: b")]),
    ("think: a\nthink: b\nsay: c\nsay: d\nrefuse: e\nrefuse: f",
     [Line("think", "a\nb"), Line("say", "c\nd"), Line("refuse", "e\nf")]),
    ("say: a\npause: 0\nsay: b", [Line("say", "a"), Line("pause"), Line("say", "b")]),
    ("call: f", [Line("call", "", "f")]),
    ('call:  f \t {"a": [1]}', [Line("call", '{"a": [1]}', "f")]),
    ('call:f {"a":1}', [Line("call", '{"a":1}', "f")]),
    ("custom: t some  text", [Line("custom", "some  text", "t")]),
    ("custom: t x \ncustom: t  ", [Line("custom", "x ", "t"), Line("custom", "", "t")]),
    ("custom: t", [Line("custom", "", "t")]),
    ("call: f\nnext:\ncall: g", [Line("call", "", "f"), Line("next"), Line("call", "", "g")]),
    ("tokens: 12", [Line("tokens", number=12)]),
    ("tokens: 1\ntokens: 2", [Line("tokens", number=1), Line("tokens", number=2)]),
    (f"tokens: {MAX_TOKENS}", [Line("tokens", number=MAX_TOKENS)]),
    ("pause: 0.5 \nevery:\t1\t", [Line("pause", number=0.5), Line("every", number=1)]),
    ("pause: 0.5", [Line("pause", number=0.5)]),
    ("pause: 600", [Line("pause", number=600)]),
    ("every: 600.0", [Line("every", number=600)]),
    ("fail: server_error", [Line("fail", "", "server_error")]),
    ("error: server_error It broke.", [Line("error", "It broke.", "server_error")]),
    ("incomplete: content_filter", [Line("incomplete", "", "content_filter")]),
    ("reject: 429 slow_down Not now.", [Line("reject", "Not now.", "slow_down", 429)]),
    ("call: f\nreject: 500 x", [Line("call", "", "f"), Line("reject", "", "x", 500)]),
    ("call: f\nnext:\nreject: 599 x", [Line("call", "", "f"), Line("next"), Line("reject", "", "x", 599)]),
    ("compact:", [Line("compact")]),
    ("compact: \t\ntokens: 1 \nincomplete: max_messages ",
     [Line("compact"), Line("tokens", number=1), Line("incomplete", "", "max_messages")]),
    ("\n".join(["compact:"] * MAX_LINES), [Line("compact")] * MAX_LINES),
    ("say: " + "x" * (MAX_CHARACTERS - 5), [Line("say", "x" * (MAX_CHARACTERS - 5))]),
]  # fmt: skip


@pytest.mark.parametrize(("script", "lines"), GOOD, ids=lambda part: repr(part)[:40])
def test_the_lines_of_a_script(script, lines):
    assert list(parse(script).lines) == lines


TOO_LONG = f"it has more than {MAX_CHARACTERS} characters or {MAX_LINES} lines"
UNKNOWN = "line 2 begins with no known verb and colon"
BAD = [
    # script, why
    ("say: a\nhello", UNKNOWN),
    ("say: a\n say: b", UNKNOWN),
    ("say: a\nsay b", UNKNOWN),
    ("say: a\nSay: b", UNKNOWN),
    ("say: a\nsays: b", UNKNOWN),
    ("say: a\nsay", UNKNOWN),
    ("say: a\n\n\nshout: b", "line 4 begins with no known verb and colon"),
    ("call:", "line 1 needs a name and nothing or a JSON object after 'call:'"),
    ("call: f [1]", "line 1 needs a name and nothing or a JSON object after 'call:'"),
    ("call: f {", "line 1 needs a name and nothing or a JSON object after 'call:'"),
    ('call: f {"a": NaN}', "line 1 needs a name and nothing or a JSON object after 'call:'"),
    ('call: f {"a": -Infinity}', "line 1 needs a name and nothing or a JSON object after 'call:'"),
    ("call: f {} {}", "line 1 needs a name and nothing or a JSON object after 'call:'"),
    ("call: f " + '{"a":' * 30_000, "line 1 needs a name and nothing or a JSON object after 'call:'"),
    ("custom:", "line 1 needs a name and a text after 'custom:'"),
    ("next:", "line 1 has a 'next:' where none can stand"),
    ("say: a\nnext:", "line 2 has a 'next:' where none can stand"),
    ("call: f\nnext:\nnext:", "line 3 has a 'next:' where none can stand"),
    ("call: f\nnext: x", "line 2 needs nothing after 'next:'"),
    ("compact: x", "line 1 needs nothing after 'compact:'"),
    ("tokens:", "line 1 needs a whole number from 1 after 'tokens:'"),
    ("tokens: 0", "line 1 needs a whole number from 1 after 'tokens:'"),
    ("tokens: -1", "line 1 needs a whole number from 1 after 'tokens:'"),
    ("tokens: 1.0", "line 1 needs a whole number from 1 after 'tokens:'"),
    ("tokens: ٣", "line 1 needs a whole number from 1 after 'tokens:'"),
    (f"tokens: {MAX_TOKENS + 1}", f"it asks for more than {MAX_TOKENS} tokens"),
    (f"tokens: {MAX_TOKENS}\nsay: a\ntokens: 1", f"it asks for more than {MAX_TOKENS} tokens"),
    ("pause: soon", "line 1 needs a number of seconds up to 600 after 'pause:'"),
    ("pause: -1", "line 1 needs a number of seconds up to 600 after 'pause:'"),
    ("pause: 600.1", "line 1 needs a number of seconds up to 600 after 'pause:'"),
    ("every: 601", "line 1 needs a number of seconds up to 600 after 'every:'"),
    ("every: inf", "line 1 needs a number of seconds up to 600 after 'every:'"),
    ("fail:", "line 1 needs a code after 'fail:'"),
    ("error:  ", "line 1 needs a code after 'error:'"),
    ("incomplete: tired", "line 1 needs a known reason after 'incomplete:'"),
    ("incomplete: steered", "line 1 needs a known reason after 'incomplete:'"),
    ("reject: 429", "line 1 needs a status from 400 and a code after 'reject:'"),
    ("reject: 399 a", "line 1 needs a status from 400 and a code after 'reject:'"),
    ("reject: 600 a", "line 1 needs a status from 400 and a code after 'reject:'"),
    ("reject: 4290 a", "line 1 needs a status from 400 and a code after 'reject:'"),
    ("say: a\nreject: 429 b", "line 2 has a 'reject:' where none can stand"),
    ("fail: a\nsay: b", "line 2 has a 'say:' where none can stand"),
    ("error: a\ncall: b", "line 2 has a 'call:' where none can stand"),
    ("incomplete: content_filter\ntokens: 2", "line 2 has a 'tokens:' where none can stand"),
    ("say: a\n~", UNKNOWN),
    ("reject: 429 a\nsay: b", "line 2 has a 'say:' where none can stand"),
    ("reject: 429 a\nreject: 429 b", "line 2 has a 'reject:' where none can stand"),
    ("\n".join(["compact:"] * (MAX_LINES + 1)), TOO_LONG),
    ("say: " + "x" * (MAX_CHARACTERS - 4), TOO_LONG),
]  # fmt: skip


@pytest.mark.parametrize(("script", "why"), BAD, ids=lambda part: repr(part)[:40])
def test_a_script_that_cannot_be_played_is_refused(script, why):
    with pytest.raises(Refused) as refused:
        advance(Progress(), [user(script)])
    problem = refused.value.problem
    assert (problem.status, problem.code, problem.param) == (400, "invalid_script", "input")
    assert problem.message == f"The script cannot be played: {why}."


@given(st.lists(st.builds("{}: {}".format, st.sampled_from(sorted(VERBS)), st.text(max_size=12)), max_size=6))
def test_no_script_raises_anything_else(rows):
    with suppress(Refused):
        script = parse("\n".join(rows))
        assert len(script.starts) == 1 + sum(line.verb in ("call", "custom") for line in script.lines)


NO_SCRIPT = [
    user("hello"),
    user("Note: say: a"),
    user(" say: a"),
    user("\nsay: a"),
    user("say"),
    user("sayonara: a"),
    user(),
    assistant("say: a"),
    Message("developer", (InputText("say: a"),)),
    Message("user", (OtherPart("input_image", {"text": "say: a"}),)),
    OtherItem("note", {"text": "say: a"}),
]


@pytest.mark.parametrize("item", NO_SCRIPT, ids=range(len(NO_SCRIPT)))
def test_other_texts_are_no_scripts(item):
    assert advance(Progress(), [item]).script is None


def test_the_newest_script_counts_and_only_it_is_read():
    progress = advance(
        Progress(), [user("call: f"), called(), OUTPUT, user("nonsense", "say: a", "say: b", "x")]
    )
    assert progress.rest == (Line("say", "b"),)
    assert advance(Progress(), [user("say: a\nwrong"), user("say: b")]).rest == (Line("say", "b"),)
    assert advance(progress, [user("say: c")]).rest == (Line("say", "c"),)


LOOP = "say: one\ncall: f\ncall: g\nsay: two\ncustom: t\nnext:\ncall: f\nsay: three"
TEXTS = {"say": "text", "call": "name", "custom": "name", "next": "verb"}
REASONING = Reasoning()

HOW_FAR = [
    # items after the script's message, what is left of it
    ([], ["one", "f", "g", "two", "t", "next", "f", "three"]),
    ([REASONING], ["one", "f", "g", "two", "t", "next", "f", "three"]),
    ([called(), called("g")], ["one", "f", "g", "two", "t", "next", "f", "three"]),
    ([OUTPUT], ["g", "two", "t", "next", "f", "three"]),
    ([OUTPUT, OUTPUT], ["two", "t", "next", "f", "three"]),
    ([assistant(), called(), called("g"), OUTPUT, OUTPUT], ["two", "t", "next", "f", "three"]),
    ([OUTPUT, OUTPUT, CUSTOM_OUTPUT], ["next", "f", "three"]),
    ([OUTPUT, OUTPUT, CUSTOM_OUTPUT, user("go on")], ["next", "f", "three"]),
    ([OUTPUT, OUTPUT, CUSTOM_OUTPUT, OUTPUT], ["three"]),
    ([OUTPUT] * 5, []),
    ([assistant()], []),
    ([OUTPUT, assistant()], []),
    ([OUTPUT] * 4 + [assistant()], []),
    ([OUTPUT] * 4 + [assistant(), user("thanks")], []),
    ([assistant(), OUTPUT], ["g", "two", "t", "next", "f", "three"]),
]


@pytest.mark.parametrize(("items", "left"), HOW_FAR, ids=range(len(HOW_FAR)))
def test_how_far_a_script_has_come(items, left):
    progress = advance(Progress(), [OUTPUT, user(LOOP), *items])
    assert [getattr(line, TEXTS[line.verb]) for line in progress.rest] == left


ITEMS = st.sampled_from(
    [
        user("hello"),
        user("call: f\nsay: a"),
        user(LOOP),
        assistant(),
        called(),
        OUTPUT,
        CUSTOM_OUTPUT,
        REASONING,
    ]
)


@given(st.lists(ITEMS, max_size=12), st.integers(0, 12))
def test_a_continuation_comes_as_far_as_the_whole_context(items, split):
    whole = advance(Progress(), items)
    assert advance(advance(Progress(), items[:split]), items[split:]) == whole
    one_by_one = Progress()
    for item in items:
        one_by_one = advance(one_by_one, [item])
    assert one_by_one == whole


def test_rounds_count_from_the_newest_user_message():
    progress = advance(Progress(), [OUTPUT, user("hello"), called(), OUTPUT, assistant(), CUSTOM_OUTPUT])
    assert progress.rounds == 2
    assert advance(progress, [REASONING]) == progress
    assert advance(progress, [user("again")]) == attrs.evolve(progress, rounds=0)
