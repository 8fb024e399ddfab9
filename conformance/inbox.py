"""What a case sees of a connection's inbox: lanes, repeated signs of life, the barrier behind ``<!``."""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from conformance import match, values
from conformance.match import Names
from conformance.state import TERMINAL
from conformance.verbs import Step
from conformance.web import Head
from conformance.wire import Message, Wire

IN_PROGRESS: Final = "response.in_progress"
TAKEN: Final = "taken"


@attrs.frozen
class Found:
    """What the last expectation took, for the ``&`` lines behind it."""

    record: int
    value: Any
    head: Head | None = None


class Inbox:
    """A connection's inbox under the rules of INTERPRETING.md section 3.5."""

    def __init__(self, wire: Wire, names: Names) -> None:
        self.wire, self.names = wire, names

    def peek(self, pattern: Any) -> Message | None:
        """The next message for this pattern: of its lane if it names one, what may always come left out."""
        lane = self.lane(pattern)
        for message in self.wire.inbox:
            if lane is not Ellipsis and message.lane != lane:
                continue
            if not self.passed_over(message, pattern):
                return message
        return None

    def take(self, pattern: Any) -> Message | None:
        """As `peek`, but the message is taken, and what was passed over before it is thrown away."""
        message = self.peek(pattern)
        if message is not None:
            place = self.wire.inbox.index(message)
            lane = self.lane(pattern)
            before = [one for one in self.wire.inbox[:place] if lane is not Ellipsis and one.lane != lane]
            self.wire.inbox[: place + 1] = before
            self.note(message)
        return message

    def note(self, message: Message) -> None:
        if message.type == IN_PROGRESS and (name := message.response):
            self.wire.seen_in_progress.add(name)

    def passed_over(self, message: Message, pattern: Any) -> bool:
        """Whether it may come at any time, and the pattern does not mean it: a sign of life, an extension."""
        wanted = pattern.get("type") if isinstance(pattern, dict) else None
        if message.type == IN_PROGRESS:
            return message.response in self.wire.seen_in_progress and wanted != IN_PROGRESS
        extension = message.type is not None and ":" in message.type
        return extension and wanted is not None and match.match(wanted, message.type, {}) is not None

    def lane(self, pattern: Any) -> Any:
        """The lane that a pattern names; None is the default lane, Ellipsis no lane in particular."""
        wanted = pattern.get("stream_id") if isinstance(pattern, dict) else None
        if not isinstance(wanted, str):
            return Ellipsis
        if wanted == "<absent>":
            return None
        if name := re.fullmatch(r"\$([A-Za-z_]\w*)", wanted):
            return self.names.get(name[1], Ellipsis)
        return Ellipsis if wanted.startswith(("<", "$")) else match.literal(wanted, self.names)

    def matching(self, pattern: Any) -> list[Message]:
        return [one for one in self.wire.inbox if match.match(pattern, one.value, dict(self.names)) is None]

    def decides(self, step: Step) -> match.Mismatch | str | None:
        """For the first line of a branch of `either`: ``TAKEN``, why not, or None while nothing has come."""
        if step.verb == "ended":
            if self.wire.inbox:
                return f"a message came: {match.show(self.wire.inbox[0].value)}"
            return None if self.wire.ended is None else self.end_fits(step) or TAKEN
        message = self.peek(step.value)
        if message is None:
            return None if self.wire.ended is None else f"the connection ended ({self.wire.ended})"
        return match.match(step.value, message.value, dict(self.names)) or TAKEN

    def end_fits(self, step: Step) -> str | None:
        """Whether the end of the connection is one of those that a `= close` line allows."""
        ended = self.wire.ended
        assert ended is not None
        if ended.how == "eof":
            fits = "eof" in step.words
        elif ended.how == "close":
            fits = "any" in step.words or (str(ended.code) if ended.code else "none") in step.words
        else:
            fits = False
        return None if fits else f"expected {'|'.join(step.words)}, got {ended}"


async def barrier(
    wire: Wire, inbox: Inbox, pattern: Any, names: Names, seconds: float
) -> tuple[list[Message], str | None]:
    """Run one more plain turn; gives the messages up to its end that match, and why the turn failed.

    The messages of the turn itself are taken out of the inbox, and are not looked at.
    """
    turn = _Turn(len(wire.inbox), f"{wire.name}{len(wire.recorder.records)}", wire.unanswered)
    await wire.send_text(values.compact(turn.create(names["model"])))
    done = await wire.until(lambda: turn.done(wire.inbox) or wire.ended is not None, seconds)
    turn.done(wire.inbox)
    wire.inbox[:] = [one for one in wire.inbox if one.record not in turn.own]
    found = inbox.matching(pattern)
    if turn.ended:
        return found, None
    if wire.ended:
        return found, f"the connection ended before the plain turn did ({wire.ended})"
    return found, f"the plain turn did not end within {seconds:g} s" if not done else None


class _Turn:
    """Finds the messages of the barrier's turn: from its `response.created` to its terminal event.

    Its metadata tells it from others. On a server that does not give metadata back, it is the next one that
    starts, less those creates of the default lane that were unanswered before.
    """

    def __init__(self, start: int, mark: str, before: int) -> None:
        self.start, self.mark, self.before = start, mark, before
        self.id: str | None = None
        self.ended = False
        self.own: set[int] = set()

    def create(self, model: str) -> dict[str, Any]:
        return {
            "type": "response.create",
            "model": model,
            "input": "say: barrier",
            "store": False,
            "metadata": {"barrier": self.mark},
        }

    def done(self, inbox: list[Message]) -> bool:
        while not self.ended and self.start < len(inbox):
            message = inbox[self.start]
            self.start += 1
            if message.lane is None:
                self._see(message)
        return self.ended

    def _see(self, message: Message) -> None:
        if self.id is None and not (message.type == "response.created" and self._is_ours(message)):
            return
        name = message.response
        if self.id is None:
            self.id = name or ""
        elif name is not None and name != self.id:
            return
        self.own.add(message.record)
        self.ended = message.type in TERMINAL

    def _is_ours(self, message: Message) -> bool:
        metadata = message.value["response"].get("metadata") if message.response else None
        if isinstance(metadata, dict) and "barrier" in metadata:
            return bool(metadata["barrier"] == self.mark)
        self.before -= 1
        return self.before < 0
