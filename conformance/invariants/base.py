"""What an invariant is, and how the judge finds it.

An invariant is a class for one clause. It says in ``on`` which events it wants to see, and in ``see`` what it
makes of one: None (nothing to say), ``True`` (the clause held here), or a text that says how it was broken.
The states that ``event`` refers to are as they were *before* the event; what can be known from a trace is in
`conformance.state`. It must say nothing about an event that breaks some other clause first (a missing field,
an unknown item): each fault is told once, by the clause that it breaks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from conformance.state import Event, Memory

Says = bool | str | None

# Keys for `on`, besides the type of a server event ("response.created") or a client's ("> response.create").
EVERY_EVENT: Final = "*"  # each JSON object that the server sends
IN_RESPONSE: Final = "response.*"  # each event that belongs to a response, a stream error included
EVERY_REQUEST: Final = "> *"  # each JSON object that the client sends
SERVER_TEXT: Final = "s2c text"  # each text message of the server, before it is parsed
# Records of other kinds: "s2c binary", "s2c close", "s2c eof", "s2c ping", "s2c pong", "s2c http", "c2s …".
END: Final = "end"  # once for each connection, when the trace or the connection is over

REGISTRY: Final[dict[str, list[type[Invariant]]]] = {}


class Invariant(ABC):
    """Base of all invariants; a subclass that names a clause is registered under it.

    ``good`` and ``bad`` are literal traces (see `conformance.invariants.literal`): the first must be judged
    ``True`` and never broken, the second broken.
    """

    clause: ClassVar[str] = ""
    on: ClassVar[tuple[str, ...]] = ()
    kind: ClassVar[str] = "order"  # schema, order, behaviour or framing
    transports: ClassVar[tuple[str, ...]] = ("ws", "sse")
    good: ClassVar[str] = ""
    bad: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if cls.clause:
            REGISTRY.setdefault(cls.clause, []).append(cls)

    @abstractmethod
    def see(self, event: Event) -> Says:
        """Judge one event; called for the events in ``on`` only."""

    def memory(self, owner: Memory) -> dict[str, Any]:
        """A place for notes of this invariant, forgotten together with ``owner``."""
        notes: dict[str, Any] = owner.notes.setdefault(self.clause, {})
        return notes
