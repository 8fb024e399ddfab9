"""Building a turn's context: new input items meet what the parent already holds.

Three rules, applied item by item in the order of the input, so that the work
is in proportion to the new items:

1. A reference is replaced by the item it names (RWS-ITM-025).
2. A call or another item of the model's that the parent's context holds
   already is dropped: some clients send it again (RWS-FC-020).
3. Calls and outputs are paired: an output needs a call before it, and in the
   end no call may be left without one (RWS-FC-009, RWS-FC-011).
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from .cache import Node, call_in, item_in, output_in
from .errors import Refused, problem
from .items import (
    OUTPUT_OF,
    Call,
    CallOutput,
    CustomToolCall,
    FunctionCall,
    Item,
    ItemReference,
    Message,
    texts,
)

WORDS_FOR = {FunctionCall: "function call", CustomToolCall: "custom tool call"}


@attrs.define
class Context:
    """The new part of a context while its items arrive; ``items`` and ``open_calls`` are the result."""

    parent: Node | None
    resolve: Callable[[str], Item | None]
    items: list[Item] = attrs.Factory(list)
    open_calls: dict[str, Call] = attrs.field()
    answered: dict[str, CallOutput] = attrs.Factory(dict)

    @open_calls.default
    def _inherited(self) -> dict[str, Call]:
        return dict(self.parent.open_calls) if self.parent else {}

    def add(self, item: Item) -> None:
        """Take the next item of the input, or refuse the request because of it."""
        if isinstance(item, ItemReference):
            if item_in(self.parent, item.id):
                return
            item = self._resolved(item.id)
        if isinstance(item, FunctionCall | CustomToolCall):
            if self._repeated(item):
                return
            self.open_calls[item.call_id] = item
        elif item.type in OUTPUT_OF:
            if not self._answers(item):  # type: ignore[arg-type]
                return
        elif self._echoed(item):
            return
        self.items.append(item)

    def close(self, may_wait: bool = False) -> None:
        """The input is complete: refuse it if a call is left without an output (RWS-FC-011).

        ``may_wait``: the response is paused, and some outputs are a beginning (RWS-APP-015).
        """
        if may_wait and self.answered:
            return
        for call_id, call in self.open_calls.items():
            raise Refused(problem("tool_output_missing", kind=WORDS_FOR[type(call)], call_id=call_id))

    def _resolved(self, item_id: str) -> Item:
        item = self.resolve(item_id)
        if item is None:
            raise Refused(problem("item_not_found", id=item_id))
        return item

    def _repeated(self, call: Call) -> bool:
        known = call.call_id in self.open_calls or call.call_id in self.answered
        return known or call_in(self.parent, call.call_id) is not None

    def _answers(self, output: CallOutput) -> bool:
        call = self.open_calls.get(output.call_id)
        if isinstance(call, OUTPUT_OF[output.type]):
            del self.open_calls[output.call_id]
            self.answered[output.call_id] = output
            return True
        before = self.answered.get(output.call_id) or output_in(self.parent, output.call_id)
        if before is None or before.type != output.type:
            kind = WORDS_FOR[OUTPUT_OF[output.type]]
            raise Refused(problem("tool_call_not_found", kind=kind, call_id=output.call_id))
        if before.output != output.output:
            raise Refused(problem("tool_output_conflict", call_id=output.call_id))
        return False

    def _echoed(self, item: Item) -> bool:
        """Whether the item is the model's own, and in the parent's context already (RWS-FC-020)."""
        if item.type != "reasoning" and not (isinstance(item, Message) and item.role == "assistant"):
            return False
        if item.id is not None:
            return item_in(self.parent, item.id)
        said = self.parent.output if self.parent else ()
        return any(item.type == own.type and list(texts(item)) == list(texts(own)) for own in said)
