"""How much work a turn makes: counted by wrappers of the test, not by what the code says of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from core_bench import Bench, MuteModel, call, create, message, output

from responses_ref.model.tokens import TOKEN
from responses_ref.pipeline import Pipeline
from responses_ref.pipeline.classify import Scan
from responses_ref.protocol import cache, codec, context
from responses_ref.protocol.batch import Finished, ItemDone, ItemStarted
from responses_ref.protocol.cache import Node, Prepared

KIB4 = "a line of output\n" * 256  # 4 KiB and a bit
TOOLS = [{"type": "function", "name": "f", "description": "x" * 2_000}]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what the stages really do: items validated, characters classified, tokens drawn, walks."""
    counts: Counter[str] = Counter()
    item, over = codec.item, Scan.over

    def counted_item(raw: Any, position: int) -> Any:
        counts["items"] += 1
        return item(raw, position)

    def counted_over(scan: Scan, text: str) -> Scan:
        counts["characters"] += len(text)
        return over(scan, text)

    def walk(name: str) -> Any:
        original = getattr(cache, name)

        def counted(*args: Any) -> Any:
            counts["walks"] += 1
            return original(*args)

        return counted

    monkeypatch.setattr(codec, "item", counted_item)
    monkeypatch.setattr(Scan, "over", counted_over)
    for name in ("call_in", "output_in", "item_in"):
        monkeypatch.setattr(context, name, walk(name))
    return counts


def bench_of(work: Counter[str], **options: Any) -> Bench:
    """A bench whose tokeniser counts too."""

    def tokenise(text: str) -> Iterator[str]:
        work["texts"] += 1
        for found in TOKEN.finditer(text):
            work["tokens"] += 1
            yield found[0]

    return Bench(pipeline=Pipeline(MuteModel(), tokenise, **options), plain=True)


def chain(bench: Bench, turns: int, **fields: Any) -> Iterator[None]:
    """A tool loop: each turn sends the output of the last call, and the model calls again."""
    bench.send(create("go", **fields))
    bench.say(*call(), Finished())
    yield
    for number in range(1, turns):
        last = bench.newest
        assert last is not None
        (call_id,) = last.open_calls
        bench.send(create([output(call_id, KIB4)], previous_response_id=f"resp_{number}", **fields))
        bench.say(ItemStarted("reasoning"), ItemDone(), *call(), Finished())
        yield


def test_a_continuation_works_on_what_is_new_only(work: Counter[str]) -> None:
    """200 turns of 4 KiB: each validates, classifies and renders its one new item, however long the chain."""
    bench = bench_of(work)
    per_turn = []
    for _ in chain(bench, 200, tools=TOOLS, instructions="Be kind."):
        per_turn.append(work.copy())
        work.clear()
    new = {"items": 1, "characters": len(KIB4), "texts": 1, "tokens": len(TOKEN.findall(KIB4))}
    assert per_turn[1:] == [Counter(new)] * 199  # and no walk over the context
    assert per_turn[0]["texts"] == 3  # tools, instructions, input


def test_the_code_counts_the_same(work: Counter[str]) -> None:
    """What the trace says of a turn's work is what the wrappers saw."""
    bench = bench_of(work)
    for _ in chain(bench, 5):
        last = bench.newest
        assert last is not None
        assert last.prepared is not None
        said = last.prepared.work
        assert (said["items"], said["characters"]) == (work["items"], work["characters"])
        assert said["tokens"] == work["tokens"] + work["items"]  # a header for each item
        work.clear()


def test_without_state_the_work_grows(work: Counter[str]) -> None:
    """The arm of a comparison: it forgets the parent's state and reads the whole context each time."""
    bench = bench_of(work, stateless=True)
    characters = []
    for _ in chain(bench, 10):
        characters.append(work["characters"])
        work.clear()
    steps = [later - earlier for earlier, later in pairwise(characters[1:])]
    assert min(steps) >= len(KIB4)


def test_only_repetitions_are_looked_for(work: Counter[str]) -> None:
    """The walk back through the context is for what a client sends again, or sends wrong."""
    bench = bench_of(work)
    for _ in chain(bench, 3):
        pass
    again = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
    bench.send(create([again, output("call_1", KIB4), output("call_3")], previous_response_id="resp_3"))
    assert work["walks"] == 2
    assert len(bench.playing) == 1


# --- What is shared. ---


def _segments(node: Node) -> list[Any]:
    segment, found = node.chain.rendered, []
    while segment is not None:
        found.append(segment)
        segment = segment.parent
    return found


def test_forks_share_what_they_have_in_common(work: Counter[str]) -> None:
    """Two forks of one parent hold that parent and its tokens, not copies of them."""
    bench = bench_of(work)
    bench.send(create(KIB4))
    bench.finish()
    root = bench.core.cache.get("resp_1")
    assert root is not None
    for lane in ("a", "b"):
        bench.send(create(lane, previous_response_id="resp_1", stream_id=lane))
    bench.finish(turn=bench.turn_on("a"))
    bench.finish(turn=bench.turn_on("b"))
    forks = [bench.core.cache.get(f"resp_{number}") for number in (2, 3)]
    for fork in forks:
        assert fork is not None
        assert fork.parent is root
        assert any(segment is root.chain.rendered for segment in _segments(fork))
        assert fork.chain.prelude.tools is not None
        assert fork.chain.route is root.chain.route
        own = [segment for segment in _segments(fork) if segment not in _segments(root)]
        assert sum(len(segment.tokens) for segment in own) == 2


def test_a_turn_copies_no_tokens(work: Counter[str]) -> None:
    """Along a chain each segment holds the tokens of one item, and all of them are distinct objects."""
    bench = bench_of(work)
    for _ in chain(bench, 20):
        pass
    node = bench.core.cache.get("resp_20")
    assert node is not None
    sizes = [len(segment.tokens) for segment in _segments(node)]
    assert sum(sizes) == 2 + 19 * (1 + len(TOKEN.findall(KIB4)))
    assert max(sizes) == 1 + len(TOKEN.findall(KIB4))


# --- Slices. ---

TEN_MB = "abcd efgh " * 1_000_000
MAX_CHARACTERS, MAX_TOKENS, MAX_ITEMS = 80_000, 8_000, 81

# (doc, the fields of a create, at least so many slices)
BIG: list[tuple[str, dict[str, Any], int]] = [
    ("one text", {"input": TEN_MB}, 500),
    ("an output", {"input": [*({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},),
                             output("c", TEN_MB)]}, 500),
    ("arguments", {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": TEN_MB},
                             output("c", "")]}, 500),
    ("many items", {"input": [{"role": "user", "content": "hi"}] * 20_000}, 200),
    ("items that say nothing", {"input": [{"role": "user", "content": ""}] * 20_000}, 500),
    ("texts that say nothing",
     {"input": [{"role": "user", "content": [{"type": "input_text", "text": ""}] * 60_000}]}, 120),
    ("instructions", {"instructions": TEN_MB}, 400),
    ("tools", {"tools": [{"type": "lark", "grammar": TEN_MB}]}, 400),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "slices"), [row[1:] for row in BIG], ids=[row[0] for row in BIG])
def test_big_input_is_sliced(work: Counter[str], fields: dict[str, Any], slices: int) -> None:
    """10 MB are read in pieces of about a millisecond, between which other streams go on."""
    bench = bench_of(work)
    bench.held = frozenset({"Prepare"})
    bench.send(create("hi") | fields)
    (action,) = bench.pending
    work.clear()
    most: Counter[str] = Counter()
    count = 0
    for step in bench.pipeline.prepare(action.turn, lambda _: None):  # type: ignore[attr-defined]
        most |= work
        work.clear()
        count += not isinstance(step, Prepared)
    assert count >= slices
    assert most["characters"] <= MAX_CHARACTERS
    assert most["tokens"] <= MAX_TOKENS
    assert most["items"] <= MAX_ITEMS


def test_what_is_cut_is_counted_once(work: Counter[str]) -> None:
    """Slices change nothing about what is counted."""
    bench = bench_of(work)
    bench.send(create(TEN_MB, instructions=TEN_MB))
    prepared = bench.playing[0].prepared
    assert prepared is not None
    assert prepared.input_tokens == 2 * (1 + len(TOKEN.findall(TEN_MB)))


def test_a_heavy_message_of_the_model_is_no_work(work: Counter[str]) -> None:
    """Output was made of tokens: it is counted, never read again."""
    bench = bench_of(work)
    bench.send(create("hi"))
    bench.say(*message(*["word "] * 10_000), Finished())
    work.clear()
    bench.send(create([], previous_response_id="resp_1"))
    assert work.total() == 0
    prepared = bench.playing[0].prepared
    assert prepared is not None
    assert prepared.cached_tokens == prepared.input_tokens == 2 + 1 + 10_000
