"""What must hold after every step of a connection, written down a second time and in another way.

The judge sees messages go in and events come out.  It follows each lane as a
client would, and keeps its own small model of the rules that no single event
shows: who waits, who may be named, what becomes of a steer.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import attrs
from core_bench import Bench, Event, check_story, create, message, output, steer

from responses_ref.protocol.actions import LoadParent, Prepare, Store
from responses_ref.protocol.batch import Failed, Finished, ItemDone, ItemStarted, Piece
from responses_ref.protocol.lanes import Turn

ENDS = {"response.completed", "response.failed", "response.incomplete"}
AT_ONCE = {"invalid_json", "invalid_event", "unknown_event_type", "invalid_stream_id"}
AT_ONCE |= {"websocket_stream_limit_reached", "too_many_queued_responses"}
GOING = {"websocket_connection_limit_reached", "server_shutting_down"}


ANSWERS: list[tuple[Any, ...]] = [(LoadParent, "parent_loaded"), (Prepare, "prepared"), (Store, "stored")]


@attrs.define
class Waiting:
    """A create that has no answer yet."""

    tag: str
    parent: str | None


@attrs.define
class LaneView:
    """One lane as its client sees it."""

    waiting: deque[Waiting] = attrs.Factory(deque)
    response: str | None = None  # the one that is open
    newest: str | None = None  # the last one that has ended
    events: list[Event] = attrs.Factory(list)  # of the newest response, open or ended
    tag: str = ""
    successor_due: bool = False


@attrs.define
class SteerView:
    text: str
    target: str
    state: str = "accepted"


@attrs.define
class Judge:
    """Lets things happen on a bench, and checks what comes of them."""

    bench: Bench
    lanes: dict[str | None, LaneView] = attrs.Factory(dict)
    kept: dict[str, tuple[str | None, str, str | None]] = attrs.Factory(dict)  # id -> lane, status, parent
    steers: dict[str, SteerView] = attrs.Factory(dict)
    ended: list[tuple[str, str]] = attrs.Factory(list)  # in their order
    tags: int = 0
    going: str = ""
    gone: bool = False
    answers: Counter[str] = attrs.Factory(Counter)  # events of this step that answer its own message

    def lane(self, name: str | None) -> LaneView:
        return self.lanes.setdefault(name, LaneView())

    # --- What can happen. ---

    def create(
        self, lane: str | None = None, parent: str | None = None, said: Any = "hi", **fields: Any
    ) -> bool:
        self.tags += 1
        tag = str(self.tags)
        named = {"stream_id": lane} if lane is not None else {}
        sent = create(said, metadata={"tag": tag}, previous_response_id=parent, **named, **fields)
        full = self._full(lane)
        if not (full or self.going):
            self.lane(lane).waiting.append(Waiting(tag, parent))
        self._step(self.bench.core.receive, json.dumps(sent))
        if not self.gone and (full or self.going):
            assert self.answers.total() == 1, "a create that is refused at once is answered at once"
        return True

    def _full(self, lane: str | None) -> bool:
        """Whether a create would have to wait, and none more may."""
        settings = self.bench.settings
        waits = sum(one.tag not in self._begun() for view in self.lanes.values() for one in view.waiting)
        busy = {name for name, view in self.lanes.items() if view.response is not None}
        busy |= {one.turn.lane.name for one in self.bench.pending}
        return waits >= settings.max_queued and (lane in busy or len(busy) >= settings.max_in_flight)

    def _begun(self) -> set[str]:
        """The tags of those that the held surroundings work for."""
        return {one.turn.raw["metadata"]["tag"] for one in self.bench.pending}

    def send(self, text: Any) -> bool:
        self._step(self.bench.core.receive, text if isinstance(text, str) else json.dumps(text))
        assert self.gone or self.answers.total() == 1
        return True

    def steer(self, target: str | None) -> bool:
        self.tags += 1
        self._step(self.bench.core.receive, json.dumps(steer(target or "resp_0", f"steer {self.tags}")))
        assert self.gone or self.answers.total() == 1, "a steer is answered at once, by one event"
        return True

    def say(self) -> bool:
        """The model goes on a bit, with the turn that has played longest."""
        if not self.bench.playing:
            return False
        turn = self.bench.playing[0]
        start = [] if turn.live.item else [ItemStarted("message")]
        self._step(self.bench.core.model, turn, [*start, Piece("x", "output_text")])
        return True

    def done(self) -> bool:
        """It finishes its item, and not yet its response."""
        if not self.bench.playing or self.bench.playing[0].live.item is None:
            return False
        self._step(self.bench.core.model, self.bench.playing[0], [ItemDone()])
        return True

    def end(self) -> bool:
        """The model finishes its item and its response."""
        if not self.bench.playing:
            return False
        done = [ItemDone()] if self.bench.playing[0].live.item else message("ok")
        return self._end(self.bench.playing[0], *done, Finished())

    def cut(self) -> bool:
        if not self.bench.playing or self.bench.playing[0].live.item is None:
            return False
        return self._end(self.bench.playing[0], ItemDone("incomplete"), Finished("max_output_tokens"))

    def call(self) -> bool:
        if not self.bench.playing or self.bench.playing[0].live.item:
            return False
        called = [ItemStarted("function_call", "f"), Piece("{}", "arguments"), ItemDone()]
        return self._end(self.bench.playing[0], *called, Finished())

    def fail(self) -> bool:
        if not self.bench.playing:
            return False
        return self._end(self.bench.playing[0], Failed("server_error", "It broke."))

    def _end(self, turn: Turn, *parts: Any) -> bool:
        response = turn.live.response.id
        self.bench.unstopped.discard(response)  # by itself
        self._step(self.bench.core.model, turn, list(parts))
        if "Store" not in self.bench.held:
            assert all(view.response != response for view in self.lanes.values()), "the model has ended"
        return True

    def outputs(self, parent: str | None) -> list[Event]:
        """The outputs that are due after a response."""
        node = self.bench.core.cache.get(parent or "")
        return [output(call_id) for call_id in node.open_calls] if node else []

    def reach(self, name: str) -> bool:
        if name not in self.bench.deadlines:
            return False
        gone = self.gone
        if name in ("lifetime", "grace"):
            if name == "lifetime" and not self.going:
                self.going = "limit"
            if name == "grace" or self.going == "limit":
                self._all_refused(begun_too=name == "grace")
        self.bench.now = max(self.bench.now, self.bench.deadlines.pop(name))
        self._step(self.bench.core.deadline, name)
        if name == "grace" and not gone:
            assert self.bench.closed, "when the grace time is over, the connection is closed"
        return True

    def _all_refused(self, begun_too: bool) -> None:
        """All that waits is about to be refused, and costs its parents."""
        begun = set() if begun_too else self._begun()
        for name, view in self.lanes.items():
            for one in [one for one in view.waiting if one.tag not in begun]:
                view.waiting.remove(one)
                self._drop(name, one.parent)

    def answer(self, kind: type[Any], happened: str, *args: Any) -> bool:
        """The answer to what the core has wanted longest, of a kind that the bench holds back."""
        action = next((one for one in self.bench.pending if isinstance(one, kind)), None)
        if action is None:
            return False
        self.bench.pending.remove(action)
        if happened == "parent_loaded":
            args = (self.bench.kept.get(action.id),)
        if happened == "stored":
            self.bench.kept[action.node.response.id] = action.node
        if happened == "prepared":
            self._step(lambda now: self.bench._prepare(action) or [])
        else:
            self._step(getattr(self.bench.core, happened), action.turn, *args)
        return True

    def drain(self) -> bool:
        self.going = self.going or "drain"
        self._step(self.bench.core.drain)
        return True

    def leave(self) -> bool:
        """The peer goes. Nothing can be checked by events any more, and nothing may come."""
        self.bench.feed(self.bench.core.peer_closed, 1000)
        self.gone = True
        self.bench.watch = self._nothing
        return True

    def _nothing(self, action: Any) -> None:
        raise AssertionError(f"an action after the end: {action}")

    def _step(self, happened: Callable[..., Any], *args: Any) -> None:
        before = len(self.bench.events)
        self.answers.clear()
        self.bench.feed(happened, *args)
        for event in self.bench.events[before:]:
            self.judge(event)
        if self.bench.closed and not self.gone:
            assert self.going, "closed without a reason"
            assert self._open() == 0, "closed while a response runs"
            self.gone = True
            self.bench.watch = self._nothing
        self._after()

    # --- What is checked. ---

    def judge(self, event: Event) -> None:
        """One event, in the order in which it was sent."""
        name, kind = event.get("stream_id"), event["type"]
        view = self.lane(name)
        if kind.startswith("response.steer."):
            self._judge_steer(view, event)
        elif kind == "error" and "sequence_number" not in event:
            self._judge_refusal(name, view, event["error"]["code"])
        elif kind == "response.created":
            self._judge_start(name, view, event)
        else:
            assert view.response is not None, f"{kind} without a response"
            assert event["sequence_number"] == len(view.events)
            view.events.append(event)
            if "response" in event:
                assert event["response"]["id"] == view.response
            if kind in ENDS:
                self._judge_end(name, view, kind.removeprefix("response."))
                view.successor_due = self._successor_due(view, event)

    def _judge_start(self, name: str | None, view: LaneView, event: Event) -> None:
        response = event["response"]
        assert view.response is None, "two responses of one lane at once"
        assert event["sequence_number"] == 0
        assert response["id"] not in self.kept, "an id is used twice"
        if view.successor_due:
            view.successor_due = False
            assert response["previous_response_id"] == view.newest, "the successor continues the steered one"
            assert response["metadata"] == {"tag": view.tag}, "the successor inherits the settings"
        else:
            first = view.waiting.popleft()
            assert response["metadata"] == {"tag": first.tag}, "a lane is first in, first out"
            assert response["previous_response_id"] == first.parent
            view.tag = first.tag
        if (parent := response["previous_response_id"]) is not None:
            named = parent in self.kept or parent in self.bench.kept or self.bench.held
            assert named, "it continues what could not be named"
        view.response, view.events = response["id"], [event]
        assert self._open() <= self.bench.settings.max_in_flight

    def _successor_due(self, view: LaneView, ended: Event) -> bool:
        """Whether the lane's next response is the server's own: there is input, and no create names it."""
        response = ended["response"]
        steered = any(
            one.target == response["id"] and one.state == "accepted" for one in self.steers.values()
        )
        calls = any(item["type"] == "function_call" for item in response["output"])
        named = any(one.parent == response["id"] for one in view.waiting)
        return steered and not calls and not named and response["status"] != "failed"

    def _judge_end(self, name: str | None, view: LaneView, status: str) -> None:
        assert view.response is not None
        assert view.response not in self.bench.unstopped, "the response has ended, and its model goes on"
        if status != "failed":
            told = [event for event in view.events if not event["type"].startswith("response.steer.")]
            check_story(told, numbered=False)
        parent = view.events[0]["response"]["previous_response_id"]
        for other, (lane, was, _) in list(self.kept.items()):
            if lane == name and (status != "failed" or (was == "failed" and other != parent)):
                del self.kept[other]
        self.kept[view.response] = (name, status, parent)
        self.ended.append((view.response, status))
        view.newest, view.response = view.response, None

    def _judge_refusal(self, name: str | None, view: LaneView, code: str) -> None:
        if code in AT_ONCE or code in GOING:
            self.answers[code] += 1
            assert code not in GOING or self.going
            return
        assert view.response is None, "a create is judged only when its turn comes"
        assert not view.successor_due, "the successor of a steered response comes first"
        self._drop(name, view.waiting.popleft().parent)

    def _drop(self, lane: str | None, parent: str | None) -> None:
        if parent is not None and self.kept.get(parent, (object(),))[0] == lane:
            del self.kept[parent]

    def _judge_steer(self, view: LaneView, event: Event) -> None:
        kind, told = event["type"].rpartition(".")[2], event["steer"]
        in_stream = view.events and view.events[0]["response"]["id"] == told["previous_response_id"]
        if in_stream and event["sequence_number"] != 0:
            assert event["sequence_number"] == len(view.events)
            view.events.append(event)
        if kind == "accepted":
            assert told["previous_response_id"] == view.response, "only a response that runs takes input"
            self.answers["steer"] += 1
            self.steers[told["id"]] = SteerView(f"steer {self.tags}", view.response)
        elif kind == "pending":
            assert view.response is None
            assert self.steers[told["id"]].state == "accepted", "told once"
            self.steers[told["id"]].state = "pending"
        elif "id" in told:
            assert self.steers[told["id"]].state in ("accepted", "pending"), "an end has come before"
            assert told["input"] == self.steers[told["id"]].text
            self.steers[told["id"]].state = "failed"
            if view.successor_due and told["previous_response_id"] == view.newest:
                view.successor_due = False  # it was refused, which costs its parent like a create's refusal
                self._drop(event.get("stream_id"), view.newest)
        else:
            self.answers["steer"] += 1

    def _after(self) -> None:
        """What must hold between two steps."""
        if self.gone:
            return
        for response, said in self.bench.inputs.items():
            for one in self.steers.values():
                if one.text in said and one.state in ("accepted", "pending"):
                    assert response != one.target
                    one.state = "applied"
        assert set(self.bench.core.cache.entries) == set(self.kept), "what can be named"
        assert self.bench.bills == self.ended, "each response is accounted for once, at its end"
        if self.bench.held:
            return
        free = self.bench.settings.max_in_flight - self._open()
        for view in self.lanes.values():
            assert view.response or not view.waiting or not free, "a slot is free and a create waits"

    def _open(self) -> int:
        return sum(view.response is not None for view in self.lanes.values())

    def wind_down(self) -> None:
        """Let the model end all that it plays: then nothing may be left open, waiting or untold."""
        for _ in range(1_000):
            if self.gone or not (self.bench.playing or self.bench.pending):
                break
            if not any(self.answer(*one) for one in ANSWERS):
                self.end()
        else:
            raise AssertionError("the model ends all it plays, and there is no end")
        if self.gone:
            return
        assert self._open() == 0
        assert not any(view.waiting for view in self.lanes.values())
        for one in self.steers.values():
            assert one.state in ("applied", "failed") or (one.state == "pending" and one.target in self.kept)
