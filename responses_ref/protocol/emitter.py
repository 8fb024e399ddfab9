"""What the model produced -> ordered, numbered events of one response.

The emitter owns a response while it is on the wire: its number, its items, its
open part.  It looks each event up in :data:`~.states.RESPONSE` before it goes
out, so an event out of order cannot leave this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import attrs

from .batch import BatchPart, ItemDone, ItemStarted, Piece
from .events import Deltas, Event, Sendable, Template
from .items import (
    Compaction,
    Content,
    CustomToolCall,
    FunctionCall,
    Item,
    Message,
    OutputText,
    Reasoning,
    ReasoningText,
    Refusal,
    SummaryText,
)
from .resource import Response
from .states import RESPONSE

ENCRYPTED = "reasoning.encrypted_content"


class Ids(Protocol):
    """The injected factory: the core draws no id and reads no clock of its own."""

    def new(self, prefix: str) -> str:
        """A fresh id ``prefix_...``, unique over all connections (RWS-RES-022)."""

    def of_turn(self, number: int) -> Ids:
        """The ids of the ``number``-th turn: with a seed, what other lanes do does not change them."""

    def timestamp(self, number: int) -> int:
        """Unix seconds, for the ``number``-th turn of the connection."""


@attrs.frozen
class PartShape:
    """How one kind of part (a ``batch.PartKind``) looks on the wire."""

    event: str  # its deltas are ``response.<event>.delta``, its end is ``.done``
    index: str | None = None  # the field that numbers it; a call's only part has none
    text: str = "text"  # the field of ``.done`` that holds it whole
    framed: str | None = None  # the event that frames the part, where the protocol has one
    make: Any = None  # the class of its content part
    extra: dict[str, Any] = attrs.Factory(dict)  # what both events carry besides


PARTS: dict[str, PartShape] = {
    # RWS-ITM-019
    "output_text": PartShape(
        "output_text", "content_index", "text", "content_part", OutputText, {"logprobs": []}
    ),
    "refusal": PartShape("refusal", "content_index", "refusal", "content_part", Refusal),
    "summary": PartShape(
        "reasoning_summary_text", "summary_index", "text", "reasoning_summary_part", SummaryText
    ),
    "reasoning_text": PartShape("reasoning_text", "content_index", "text", "content_part", ReasoningText),
    "arguments": PartShape("function_call_arguments", None, "arguments"),
    "input": PartShape("custom_tool_call_input", None, "input"),
}
PREFIX = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "compaction": "cmp",
}
WHOLE = {"function_call": "arguments", "custom_tool_call": "input"}  # a call has this part even if empty


@attrs.define
class OpenPart:
    """The part that deltas go to."""

    kind: PartShape
    where: dict[str, Any]  # what its events say of its place: ids and indexes
    template: Template
    texts: list[str] = attrs.Factory(list)


@attrs.define
class OpenItem:
    """The output item that is being said."""

    kind: str
    id: str
    name: str
    call_id: str | None
    # Its closed parts, by the field that numbers them.
    done: dict[str, list[Any]] = attrs.Factory(lambda: {"content_index": [], "summary_index": []})
    whole: str = ""  # a call's arguments or input, once closed, or what a compaction holds
    part: OpenPart | None = None


@attrs.define
class Emitter:
    """The events of one response, and the response itself as it stands."""

    response: Response
    ids: Ids
    stream_id: str | None
    encrypted: bool  # whether reasoning carries its encrypted content
    state: str = "idle"
    number: int = 0  # the next sequence_number
    output_tokens: int = 0
    finished_tokens: int = 0  # those of finished items: what the context gets
    reasoning_tokens: int = 0
    item: OpenItem | None = None
    out: list[Sendable] = attrs.Factory(list)

    def take(self) -> list[Sendable]:
        """The events made since the last call."""
        out, self.out = self.out, []
        return out

    def lifecycle(self, kind: str, response: Response | None = None) -> None:
        """``response.created``, ``.in_progress`` or a terminal: the whole resource goes along."""
        self.response = response or self.response
        self.event(f"response.{kind}", response=self.response)

    def event(self, kind: str, opens: str = "", **fields: Any) -> None:
        """Number one event and let it out. ``opens``: the kind of item or part it opens, for the table."""
        self.state = RESPONSE[self.state, f"{kind} {opens}".rstrip()]
        self.aside(kind, **fields)

    def aside(self, kind: str, **fields: Any) -> None:
        """An event numbered with the response that takes no part in its order (RWS-STR-022)."""
        self.out.append(Event(kind, fields, self._take_numbers(1), self.stream_id))

    def feed(self, parts: Iterable[BatchPart]) -> None:
        """Emit items and pieces; the batch's last word on the response is the caller's."""
        kind, run = "", list[str]()  # neighbouring pieces of one kind travel together
        for part in parts:
            if not isinstance(part, Piece):
                self._say(kind, run)
                run = []
                self._bracket(part)
            elif part.part == kind:
                run.append(part.text)
            else:
                self._say(kind, run)
                kind, run = part.part, [part.text]
        self._say(kind, run)

    def _say(self, kind: str, run: list[str]) -> None:
        """Emit pieces of one kind: an empty one opens the part at most."""
        if not run:
            return
        item, texts = self._open_item(), tuple(filter(None, run))
        self.output_tokens += len(texts)
        if item.kind == "reasoning":
            self.reasoning_tokens += len(texts)
        if kind == "encrypted_content":
            item.whole += "".join(texts)
        else:
            self._deltas(self._part(item, PARTS[kind]), texts)

    def _part(self, item: OpenItem, kind: PartShape) -> OpenPart:
        if item.part is None or item.part.kind is not kind:
            self._close_part()
            self._open_part(kind)
        assert item.part is not None
        return item.part

    def _deltas(self, part: OpenPart, texts: tuple[str, ...]) -> None:
        if texts:
            self.state = RESPONSE[self.state, part.template.type]
            part.texts += texts
            self.out.append(Deltas(part.template, texts, self._take_numbers(len(texts))))

    def _take_numbers(self, count: int) -> int:
        first = self.number
        self.number += count  # RWS-SEQ-002
        return first

    def _bracket(self, part: BatchPart) -> None:
        if isinstance(part, ItemStarted):
            return self._open(part)
        assert isinstance(part, ItemDone)
        self._done(part.status)

    # --- Items. ---

    def _open_item(self) -> OpenItem:
        assert self.item is not None
        return self.item

    @property
    def output_index(self) -> int:
        return len(self.response.output)

    def _open(self, started: ItemStarted) -> None:
        kind = started.kind
        call_id = self.ids.new("call") if kind in WHOLE else None
        self.item = OpenItem(kind, self.ids.new(PREFIX[kind]), started.name, call_id)
        zero = self._wire_item("in_progress")  # RWS-ITM-003, RWS-ITM-004
        self.event("response.output_item.added", kind, item=zero, output_index=self.output_index)
        if kind == "compaction":
            where: dict[str, Any] = {"item_id": self.item.id, "output_index": self.output_index}
            self.event("response.compaction.compacting", **where)

    def _done(self, status: str) -> None:
        item = self._open_item()
        whole = WHOLE.get(item.kind)
        if whole and item.part is None:
            self._open_part(PARTS[whole])
        self._close_part()
        finished = self._wire_item(status)
        self.event("response.output_item.done", item=finished, output_index=self.output_index)
        self.response = attrs.evolve(self.response, output=(*self.response.output, finished))
        self.finished_tokens = self.output_tokens
        self.item = None

    def _wire_item(self, status: str) -> Item:
        item = self._open_item()
        content: Content = tuple(item.done["content_index"])
        summary: Content = tuple(item.done["summary_index"])
        match item.kind:
            case "message":
                return Message("assistant", content, item.id, status)
            case "reasoning":
                sealed = f"sealed:{item.id}" if self.encrypted and status != "in_progress" else None
                return Reasoning(summary, content, sealed, item.id, status)
            case "function_call":
                return FunctionCall(item.call_id or "", item.name, item.whole, item.id, status)
            case "custom_tool_call":
                return CustomToolCall(item.call_id or "", item.name, item.whole, item.id)
        return Compaction(item.whole, item.id)

    # --- Parts. ---

    def _open_part(self, kind: PartShape) -> None:
        item = self._open_item()
        where: dict[str, Any] = {"item_id": item.id, "output_index": self.output_index}
        if kind.index:
            where[kind.index] = len(item.done[kind.index])
        template = Template(f"response.{kind.event}.delta", {**where, **kind.extra}, self.stream_id)
        item.part = OpenPart(kind, where, template)
        if kind.framed:
            opens = kind.event if kind.framed == "content_part" else ""
            self.event(f"response.{kind.framed}.added", opens, part=kind.make(""), **where)

    def _close_part(self) -> None:
        """``<kind>.done``, then the part's own ``done`` where it has one (RWS-ORD-015, RWS-ORD-017)."""
        item = self._open_item()
        part, item.part = item.part, None
        if part is None:
            return
        kind, text = part.kind, "".join(part.texts)
        self.event(f"response.{kind.event}.done", **{kind.text: text}, **kind.extra, **part.where)
        if kind.index is None:
            item.whole = text
            return
        whole = kind.make(text)
        item.done[kind.index].append(whole)
        self.event(f"response.{kind.framed}.done", part=whole, **part.where)
