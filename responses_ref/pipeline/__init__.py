"""The API work of one turn before inference, on what is new only.

Four stages look at each new item once and extend a state that hangs on the
context (:class:`Chain`): *validate* (types, pairing), *classify* (the safety
check), *render* (tokens), and the model's own reading of it; *route* finds the
model once per chain.  A continuation starts from its parent's state, so its
work is in proportion to its new input, however long the history is.

:meth:`Pipeline.prepare` is a generator.  It yields after about a millisecond of
work, or sooner with a number of seconds to wait (a simulated service), so that
one big request holds up no other stream for longer than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import attrs

from responses_ref.protocol import codec
from responses_ref.protocol.cache import Node, Prepared
from responses_ref.protocol.context import Context
from responses_ref.protocol.items import Item, texts
from responses_ref.protocol.lanes import Turn
from responses_ref.protocol.resource import Create

from .classify import Scan
from .render import Prelude, Rendered, uninterpreted
from .route import Route
from .work import ITEM_UNITS, SLICE_UNITS, TEXT_UNITS, Slices, Work


class Model(Protocol):
    """What the pipeline asks of the model's room."""

    def advance(self, progress: Any, items: Sequence[Item]) -> Any: ...

    def plan(self, progress: Any, create: Any, new_tokens: int, cached_tokens: int, number: int) -> Any: ...


@attrs.frozen
class Chain:
    """What the pipeline knows of a context: every stage's running state."""

    route: Route
    prelude: Prelude
    rendered: Rendered
    scan: Scan
    progress: Any


@attrs.frozen
class Pipeline:
    """The stages and their settings.

    ``stateless`` forgets the parent's state and does the whole context's work
    again: the arm of a comparison.  ``classify_seconds`` a byte of text, and
    ``hops`` of ``hop_seconds`` each, add what a heavier service would cost.
    """

    model: Model
    tokenise: Callable[[str], Iterable[str]]
    stateless: bool = False
    classify_seconds: float = 0.0
    hops: int = 0
    hop_seconds: float = 0.0

    def prepare(self, turn: Turn, resolve: Callable[[str], Item | None]) -> Iterator[float | Prepared]:
        """Do the turn's work in slices; the last thing it yields is the ``Prepared``.

        Raises:
            Refused: the input, the model's script or the safety check forbids the turn.
        """
        create, parent, work = turn.asked, turn.parent, Work()
        if self.hops:
            yield self.hops * self.hop_seconds
        start = yield from self._inherited(create, parent, work)
        inherited = start.rendered.total  # tokens
        context = Context(parent, resolve)
        yield from self._validate(turn, context, work)
        items: Sequence[Item] = context.items
        if self.stateless and parent is not None:
            items = [*(old for node in _oldest_first(parent) for old in node.items), *items]
        scan, rendered = start.scan, start.rendered
        for item in items:
            scan, rendered = yield from self._read(item, scan, rendered, work)
        if work.classified:  # in one wait: many small ones would each be rounded up
            yield work.classified * self.classify_seconds
        progress = self.model.advance(start.progress, items)
        chain = Chain(start.route, start.prelude, rendered, scan, progress)
        yield self._prepared(turn, context, chain, inherited, work)

    def _validate(self, turn: Turn, context: Context, work: Work) -> Slices:
        """Read the steered input, and the create's own, whose places in errors are as the client sent it."""
        for position, raw in enumerate((*turn.steered, *turn.asked.input), -len(turn.steered)):
            context.add(codec.item(raw, position))
            work.items += 1
            yield from work.pause(ITEM_UNITS)
        context.close(may_wait=turn.emitter is not None)

    def _read(self, item: Item, scan: Scan, rendered: Rendered, work: Work) -> Slices:
        """Classify and render one item."""
        tokens = [f"<{item.type}>", *uninterpreted(item)]
        heads = len(tokens)
        yield from work.pause(ITEM_UNITS)
        for text in texts(item):
            yield from work.pause(TEXT_UNITS)
            for start in range(0, len(text), SLICE_UNITS):
                scan = scan.over(text[start : start + SLICE_UNITS])
                # Searching a text is reckoned at a quarter of cutting it into tokens.
                yield from work.pause(min(len(text) - start, SLICE_UNITS) // 4)
            work.characters += len(text)
            if self.classify_seconds:
                work.classified += len(text.encode())
            tokens += yield from work.draw(self.tokenise(text))
        work.tokens += heads
        return scan, rendered.plus(tokens)

    def _inherited(self, create: Create, parent: Node | None, work: Work) -> Slices:
        """The state to go on from: the parent's, its own output counted in."""
        old: Chain | None = None if parent is None or self.stateless else parent.chain
        route = Route.to(create.model, old.route if old else None, work)
        prelude = yield from Prelude.of(create, old.prelude if old else None, self.tokenise, work)
        if old is None or parent is None:
            return Chain(route, prelude, Rendered(), Scan(), self.model.advance(None, ()))
        tokens = len(parent.output) + parent.output_tokens  # known from the stream: no work
        progress = self.model.advance(old.progress, parent.output)
        return Chain(route, prelude, old.rendered.plus_output(tokens), old.scan, progress)

    def _prepared(self, turn: Turn, context: Context, chain: Chain, inherited: int, work: Work) -> Prepared:
        prelude = chain.prelude
        cached = prelude.kept + (inherited if prelude.same else 0)
        total = prelude.tokens + chain.rendered.total
        # Also for a warm-up, which never plays it: its script may reject the request (RWS-SIM-017).
        plan = self.model.plan(chain.progress, turn.asked, total - cached, cached, turn.number)
        counts = work.counts()
        return Prepared(tuple(context.items), context.open_calls, chain, total, cached, plan, counts)


def _oldest_first(node: Node) -> Iterator[Node]:
    return reversed(list(node.back()))
