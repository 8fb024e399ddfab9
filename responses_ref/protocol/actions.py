"""What the core wants done. The shell does it, and feeds back what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from .events import Sendable

if TYPE_CHECKING:
    from .cache import Node
    from .lanes import Turn
    from .resource import Response


@attrs.frozen
class Send:
    """Send one event, or a run of deltas, after all that was sent before."""

    event: Sendable


@attrs.frozen
class LoadParent:
    """Look the parent and the referenced items up in the store; answer ``parent_loaded``.

    ``id`` is a response's or a conversation's; None: only ``items`` are asked for.
    """

    turn: Turn
    id: str | None
    items: tuple[str, ...] = ()


@attrs.frozen
class Prepare:
    """Run the pipeline on what is new in the turn; answer ``prepared`` or ``refused``."""

    turn: Turn


@attrs.frozen
class StartModel:
    """Play the plan (the model's own, opaque here) from now on; answer with ``model`` batches."""

    turn: Turn
    plan: Any


@attrs.frozen
class CancelModel:
    """Stop whatever runs for this turn; nothing more is expected of it."""

    turn: Turn


@attrs.frozen
class Store:
    """Keep the node beyond the connection; answer ``stored`` or ``store_failed``."""

    turn: Turn
    node: Node


@attrs.frozen
class Bill:
    """Account for the response; nobody waits for it."""

    response: Response


@attrs.frozen
class SetDeadline:
    """Call ``deadline(name)`` at ``at`` seconds; the name's earlier deadline is void. None: never."""

    name: str
    at: float | None


@attrs.frozen
class Close:
    """Send a Close frame after all that was sent before, and end the connection."""

    code: int
    reason: str


Action: TypeAlias = (
    Send | LoadParent | Prepare | StartModel | CancelModel | Store | Bill | SetDeadline | Close
)
