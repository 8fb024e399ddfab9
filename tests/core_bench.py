"""A connection whose surroundings are played by hand: ids that count, a store in a dict, a model on call.

What the core wants done is done at once, unless its kind is in ``held``: then it
waits in ``pending`` until the test lets it happen.  The model never speaks by
itself: :meth:`Bench.say` and the like feed the batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from responses_ref.model.tokens import tokenise
from responses_ref.pipeline import Pipeline
from responses_ref.protocol import codec
from responses_ref.protocol.actions import (
    Action,
    Bill,
    CancelModel,
    Close,
    LoadParent,
    Prepare,
    Send,
    SetDeadline,
    StartModel,
    Store,
)
from responses_ref.protocol.batch import BatchPart, Failed, Finished, ItemDone, ItemStarted, Piece
from responses_ref.protocol.cache import Node, Prepared
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.errors import Problem, Refused
from responses_ref.protocol.events import Deltas, Sendable
from responses_ref.protocol.items import Item, texts
from responses_ref.protocol.lanes import Turn
from responses_ref.protocol.settings import Settings

Event = dict[str, Any]


@attrs.define
class CountingIds:
    """``resp_1``, ``msg_1``, ``msg_2``: one count for each prefix, and a clock that stands."""

    counts: dict[str, int] = attrs.Factory(dict)

    def new(self, prefix: str) -> str:
        self.counts[prefix] = self.counts.get(prefix, 0) + 1
        return f"{prefix}_{self.counts[prefix]}"

    def of_turn(self, number: int) -> CountingIds:
        return self

    def timestamp(self, number: int) -> int:
        return 1_000


class MuteModel:
    """Reads nothing and plans nothing: the test speaks for it."""

    def advance(self, progress: Any, items: Any) -> Any:
        return None

    def plan(self, *_: Any) -> Any:
        return ()


def strict(text: str) -> Any:
    """Read JSON as a strict reader does: no NaN, no key twice, no half of a surrogate pair."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(found)) == len(found), f"a key stands twice: {text[:200]}"
        return dict(found)

    def constant(name: str) -> Any:
        raise AssertionError(f"{name} in {text[:200]}")

    value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def refusal(work: Callable[[], Any]) -> Problem | None:
    """Why the work is refused; None: it is not. Any other exception is a failure of the test."""
    try:
        work()
    except Refused as refused:
        return refused.problem
    return None


def create(said: Any = "hi", /, **fields: Any) -> Event:
    """A ``response.create``: ``store`` is false unless a test says otherwise."""
    return {"type": "response.create", "model": "m", "store": False, "input": said, **fields}


def steer(target: Any, said: Any = "more", /, **fields: Any) -> Event:
    return {"type": "response.steer", "previous_response_id": target, "input": said, **fields}


def output(call_id: str, text: Any = "out", kind: str = "function_call_output") -> Event:
    return {"type": kind, "call_id": call_id, "output": text}


def message(*words: str, part: str = "output_text", kind: str = "message") -> list[BatchPart]:
    """A whole output item of one part."""
    return [ItemStarted(kind), *(Piece(word, part) for word in words), ItemDone()]  # type: ignore[arg-type]


def call(name: str = "f", arguments: str = "{}") -> list[BatchPart]:
    return [ItemStarted("function_call", name), Piece(arguments, "arguments"), ItemDone()]


@attrs.define(eq=False)
class Bench:
    """One connection at work."""

    settings: Settings = attrs.Factory(Settings)
    held: frozenset[str] = attrs.field(factory=frozenset, converter=frozenset)
    append: bool = False
    plain: bool = False  # events without the way over JSON: for many runs
    kept: dict[str, Node] = attrs.Factory(dict)  # the store, by response id and conversation
    items: dict[str, Item] = attrs.Factory(dict)  # the store, by item id
    now: float = 0.0
    events: list[Event] = attrs.Factory(list)
    watch: Callable[[Action], None] = lambda action: None  # is shown each action; the bench keeps none
    pending: list[Action] = attrs.Factory(list)
    playing: list[Turn] = attrs.Factory(list)
    newest: Turn | None = None  # the last one that was to be prepared
    unstopped: set[str] = attrs.Factory(set)  # responses whose model was started and not cancelled
    deadlines: dict[str, float] = attrs.Factory(dict)
    bills: list[tuple[str, str]] = attrs.Factory(list)
    closed: tuple[int, str] | None = None
    inputs: dict[str, list[str]] = attrs.Factory(dict)  # the texts of each response's new input
    pipeline: Pipeline = attrs.Factory(lambda: Pipeline(MuteModel(), tokenise))
    core: Connection = attrs.field()

    @core.default
    def _core(self) -> Connection:
        return Connection(self.settings, CountingIds(), self.append)

    def __attrs_post_init__(self) -> None:
        self.feed(self.core.open)

    # --- What happens. ---

    def feed(self, happened: Callable[..., list[Action]], *args: Any) -> list[Event]:
        """Let it happen, do what is wanted, and give the events that came of it."""
        before = len(self.events)
        for action in happened(*args, now=self.now):
            self.watch(action)
            self.newest = action.turn if isinstance(action, Prepare) else self.newest
            self._do(action)
        return self.events[before:]

    def send(self, value: Any) -> list[str]:
        """A text message: JSON, or a string as it is."""
        text = value if isinstance(value, str) else json.dumps(value)
        return lines(self.feed(self.core.receive, text))

    def sends(self, *values: Any) -> list[str]:
        return [line for value in values for line in self.send(value)]

    def say(self, *parts: BatchPart, turn: Turn | None = None) -> list[str]:
        """The model's next batch, of the turn that has played longest unless it is named."""
        return lines(self.feed(self.core.model, turn or self.playing[0], list(parts)))

    def finish(self, *words: str, turn: Turn | None = None) -> list[str]:
        """The model says one message and is done."""
        return self.say(*message(*(words or ("ok",))), Finished(), turn=turn)

    def fail(
        self, code: str = "server_error", announced: bool = False, turn: Turn | None = None
    ) -> list[str]:
        return self.say(Failed(code, "It broke.", announced), turn=turn)

    def turn_on(self, lane: str | None) -> Turn:
        """The turn that plays on a lane."""
        return next(turn for turn in self.playing if turn.lane.name == lane)

    def reach(self, name: str) -> list[str]:
        """Go on to a deadline that was set, and tell the core that it has come."""
        self.now = max(self.now, self.deadlines.pop(name))
        return lines(self.feed(self.core.deadline, name))

    def drain(self) -> list[str]:
        return lines(self.feed(self.core.drain))

    def leave(self, code: int = 1000) -> list[str]:
        return lines(self.feed(self.core.peer_closed, code))

    def take(self, kind: type[Any]) -> Any:
        """The oldest held action of a kind; it is the test's now."""
        found = next(action for action in self.pending if isinstance(action, kind))
        self.pending.remove(found)
        return found

    def loads(self, node: Node | None = None) -> list[str]:
        return lines(self.feed(self.core.parent_loaded, self.take(LoadParent).turn, node))

    def prepares(self) -> list[str]:
        before = len(self.events)
        self._prepare(self.take(Prepare))
        return lines(self.events[before:])

    def refuses(self, why: Problem) -> list[str]:
        return lines(self.feed(self.core.refused, self.take(Prepare).turn, why))

    def stores(self, works: bool = True) -> list[str]:
        turn = self.take(Store).turn
        return lines(self.feed(self.core.stored if works else self.core.store_failed, turn))

    # --- What the core wants done. ---

    def _do(self, action: Action) -> None:
        name = type(action).__name__
        if name in self.held:
            self.pending.append(action)
        else:
            getattr(self, f"_{name.lower()}", lambda _: None)(action)

    def _send(self, action: Send) -> None:
        if self.plain:
            self.events += _plain(action.event)
        else:
            self.events += [strict(text.decode()) for text in codec.encode(action.event)]

    def _loadparent(self, action: LoadParent) -> None:
        known = {key: self.items[key] for key in action.items if key in self.items}
        self.feed(self.core.parent_loaded, action.turn, self.kept.get(action.id or ""), known)

    def _prepare(self, action: Prepare) -> None:
        turn, result = action.turn, None
        try:
            *_, result = self.pipeline.prepare(turn, lambda item_id: self.core.item(turn, item_id))
        except Refused as refused:
            self.feed(self.core.refused, turn, refused.problem)
            return
        assert isinstance(result, Prepared)
        self.feed(self.core.prepared, turn, result)
        if turn.emitter is not None:
            self.inputs[turn.live.response.id] = [text for item in result.items for text in texts(item)]

    def _startmodel(self, action: StartModel) -> None:
        self.playing.append(action.turn)
        self.unstopped.add(action.turn.live.response.id)

    def _cancelmodel(self, action: CancelModel) -> None:
        if action.turn.emitter is not None:
            self.unstopped.discard(action.turn.live.response.id)
        self.playing = [turn for turn in self.playing if turn is not action.turn]
        self.pending = [one for one in self.pending if getattr(one, "turn", None) is not action.turn]

    def _store(self, action: Store) -> None:
        node = action.node
        for key in (node.response.id if node.store else None, node.conversation):
            if key is not None:
                self.kept[key] = node
        self.items |= {item.id: item for item in node.items if item.id is not None}
        self.feed(self.core.stored, action.turn)

    def _bill(self, action: Bill) -> None:
        self.bills.append((action.response.id, action.response.status))
        self.playing = [turn for turn in self.playing if turn.live.response.id != action.response.id]

    def _setdeadline(self, action: SetDeadline) -> None:
        if action.at is None:
            self.deadlines.pop(action.name, None)
        else:
            self.deadlines[action.name] = action.at

    def _close(self, action: Close) -> None:
        assert self.closed is None
        self.closed = (action.code, action.reason)


def _plain(sent: Sendable) -> Iterator[Event]:
    """What the codec would make of it, by a shorter way."""
    if isinstance(sent, Deltas):
        template = sent.template
        shared = {"type": template.type, **template.fields, **_lane(template.stream_id)}
        for number, text in enumerate(sent.texts, sent.sequence_number):
            yield {**shared, "delta": text, "sequence_number": number}
    else:
        number = {} if sent.sequence_number is None else {"sequence_number": sent.sequence_number}
        fields = {name: codec.wire(value) for name, value in sent.fields.items()}
        yield {"type": sent.type, **number, **_lane(sent.stream_id), **fields}


def _lane(name: str | None) -> dict[str, str]:
    return {} if name is None else {"stream_id": name}


# --- Events in a few letters. ---


def lines(events: Iterable[Event]) -> list[str]:
    return [brief(event) for event in events]


def brief(event: Event) -> str:
    """An event in a word or two: ``a: in_progress``, ``+message``, ``'to'``, ``error invalid_json``."""
    lane = f"{event['stream_id']}: " if "stream_id" in event else ""
    return lane + " ".join(_words(event))


def _words(event: Event) -> Iterator[str]:
    kind = event["type"].removeprefix("response.")
    if "response" in event:
        yield kind
        yield from _ending(event["response"])
    elif kind == "error":
        error = event["error"]
        yield from filter(None, ("error", error["code"], error["param"] and f"@{error['param']}"))
    elif "item" in event:
        mark = "+" if kind.endswith("added") else "-"
        yield mark + event["item"]["type"] + ("!" if event["item"].get("status") == "incomplete" else "")
    elif "part" in event:
        yield ("(" if kind.endswith("added") else ")") + event["part"]["type"]
    elif "delta" in event:
        yield repr(event["delta"])
    elif kind.endswith(".done"):
        yield "=" + repr(
            next(event[key] for key in ("text", "refusal", "arguments", "input") if key in event)
        )
    else:
        yield kind
        if "error" in event:
            yield event["error"]["code"]


def _ending(response: Event) -> Iterator[str]:
    if response["error"]:
        yield response["error"]["code"]
    if response["incomplete_details"]:
        yield response["incomplete_details"]["reason"]


# --- Tables of (what happens, what comes of it). ---

Step = Event | str | Callable[[Bench], Any]


def play(bench: Bench, steps: Iterable[Step]) -> str:
    """Let the steps happen: messages, or methods of the bench. Gives all that was sent, in short."""
    before = len(bench.events)
    for step in steps:
        if callable(step):
            step(bench)
        else:
            bench.send(step)
    return " ".join(lines(bench.events[before:]))


# --- The story of one response. ---


def check_story(events: list[dict[str, Any]], numbered: bool = True) -> None:
    """Follow one response as a client does, by its deltas, and compare with what it says at the end."""
    assert not numbered or [event["sequence_number"] for event in events] == list(range(len(events)))
    output: list[dict[str, Any]] = []
    texts: dict[tuple[Any, ...], str] = {}
    for event in events:
        kind = event["type"]
        if kind == "response.output_item.added":
            assert event["output_index"] == len(output)
            assert event["item"].get("status", "in_progress") == "in_progress"
            output.append(event["item"])
            parts: dict[str, int] = {}
        elif "output_index" in event:
            assert event["output_index"] == len(output) - 1
        if "item_id" in event:
            assert event["item_id"] == output[-1]["id"]
            place = (
                event["item_id"],
                kind.rpartition(".")[0],
                event.get("content_index"),
                event.get("summary_index"),
            )
            if "delta" in event:
                texts[place] = texts.get(place, "") + event["delta"]
            elif not {"part", "annotation"} & event.keys() and kind.endswith(".done"):
                said = next(event[key] for key in ("text", "refusal", "arguments", "input") if key in event)
                assert said == texts.get(place, "")
        if "part" in event and kind.endswith(".added"):
            key = "content_index" if "content_index" in event else "summary_index"
            parts[key] = parts.get(key, -1) + 1
            assert event[key] == parts[key]
        if kind == "response.output_item.done":
            assert event["item"]["id"] == output[-1]["id"]
            assert event["item"]["type"] == output[-1]["type"]
            output[-1] = event["item"]
    assert events[-1]["response"]["output"] == output
