"""What a trace tells about connections, lanes, responses, items and parts, worked out once for all.

Only what is open is kept; of what is closed, the last response of each lane and a bounded number of ids. Any
field of an event may be missing or of the wrong type: then nothing is derived from it.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final

TERMINAL: Final = frozenset(("response.completed", "response.failed", "response.incomplete"))
_LANE: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
PENDING_LIMIT: Final = 4096
SEEN_LIMIT: Final = 20_000


def word(value: Any) -> str | None:
    """The value if it is a string. What a server sends may be anything: only so may it be a key."""
    return value if isinstance(value, str) else None


def whole(value: Any) -> int | None:
    """The value if it is an integer."""
    return value if type(value) is int else None


def is_lane(value: Any) -> bool:
    """Whether a create may name this as its lane; without a name it is on the default lane."""
    return value is None or (isinstance(value, str) and _LANE.fullmatch(value) is not None)


class Memory:
    """Base of everything that an invariant may keep a note on; the note lives as long as its owner."""

    __slots__ = ("notes",)

    def __init__(self) -> None:
        self.notes: dict[str, Any] = {}


class Part(Memory):
    """A text that comes in deltas: a content part, a summary part, arguments or input."""

    __slots__ = ("added", "body", "closed", "deltas", "done", "index", "kind")

    def __init__(self, kind: str, index: int) -> None:
        super().__init__()
        self.kind = kind  # "content", "summary", "arguments", "input"
        self.index = index
        self.body: Any = None  # the `part` of the event that added it
        self.added = False
        self.deltas: list[str] = []
        self.done: str | None = None  # the text of the `.done` event of the text
        self.closed: Any = None  # the `part` of the `part.done` event

    @property
    def text(self) -> str:
        """All deltas so far."""
        return "".join(self.deltas)


class Item(Memory):
    """An output item. ``added`` and ``done`` are the `item` objects of those events (None: not seen yet)."""

    __slots__ = ("added", "done", "id", "index", "line", "parts", "type")

    def __init__(self, item_id: str, kind: str, index: int | None, added: dict[str, Any], line: int) -> None:
        super().__init__()
        self.id = item_id
        self.type = kind
        self.index = index
        self.added = added
        self.done: dict[str, Any] | None = None
        self.line = line
        self.parts: dict[tuple[str, int], Part] = {}

    def of_kind(self, kind: str) -> list[Part]:
        """The parts of that kind, by index."""
        return [part for (name, _), part in sorted(self.parts.items()) if name == kind]


class Request:
    """A `response.create` of the client."""

    __slots__ = ("body", "line")

    def __init__(self, body: dict[str, Any], line: int) -> None:
        self.body, self.line = body, line


class Response(Memory):
    """``terminal`` is the type of its terminal event, ``last_number`` the newest `sequence_number`.

    ``asked``: a create of its lane waited for it, or it succeeds one that was steered. ``request`` is that
    create, where there is no doubt which one it is."""

    __slots__ = (
        "asked", "by_id", "created", "error", "events", "id", "in_progress", "items", "lane", "last_number",
        "line", "request", "terminal",
    )  # fmt: skip

    def __init__(self, name: str | None, lane: Lane, line: int) -> None:
        super().__init__()
        self.id = name
        self.lane = lane
        self.line = line
        self.asked = False
        self.request: Request | None = None
        self.events = 0
        self.created = False
        self.in_progress = False
        self.error = False
        self.terminal: str | None = None
        self.last_number: int | None = None
        self.items: list[Item] = []
        self.by_id: dict[str, Item] = {}

    def item_at(self, index: Any) -> Item | None:
        """The item in that place; none is in a place that is no integer."""
        place = whole(index)
        return None if place is None else next((one for one in self.items if one.index == place), None)

    def forget(self) -> None:
        """Drop what is only needed while it is open."""
        self.items, self.by_id, self.notes, self.request = [], {}, {}, None


class Lane(Memory):
    """``open``: what runs on it; ``last``: the response that ended last; ``pending``: creates unanswered."""

    __slots__ = ("certain", "last", "name", "open", "pending")

    def __init__(self, name: str | None) -> None:
        super().__init__()
        self.name = name
        self.open: Response | None = None
        self.last: Response | None = None
        self.pending: deque[Request] = deque(maxlen=PENDING_LIMIT)
        self.certain = True  # whether the first of `pending` is surely the one that starts next

    @property
    def last_id(self) -> str | None:
        return None if self.last is None else self.last.id


class Seen:
    """A set of ids that forgets the oldest beyond a bound."""

    __slots__ = ("_known", "_order")

    def __init__(self, limit: int = SEEN_LIMIT) -> None:
        self._known: set[str] = set()
        self._order: deque[str] = deque(maxlen=limit)

    def add(self, name: str) -> bool:
        """Whether it was new."""
        if name in self._known:
            return False
        if len(self._order) == self._order.maxlen:
            self._known.discard(self._order[0])
        self._order.append(name)
        self._known.add(name)
        return True


class Connection(Memory):
    """``open``: open responses by id; ``by_item``: which of them an item belongs to; ``faulty``: messages of
    the client that must be answered by an error, and are not yet."""

    __slots__ = (
        "by_item", "client_closed", "closed", "dialects", "faulty", "lanes", "name", "open", "server_closed",
        "streams", "transport",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.transport = "ws"
        self.streams: bool | None = None  # whether the last HTTP answer is streamed, by its head
        self.lanes: dict[str | None, Lane] = {}
        self.open: dict[str, Response] = {}
        self.by_item: dict[str, Response] = {}
        self.faulty = 0
        self.dialects: set[str] = set()
        self.client_closed = False  # the client has sent Close, or is gone
        self.server_closed = False
        self.closed = False  # TCP is gone

    def begin(self) -> None:
        """A new HTTP request: one comes after another, so that nothing of an earlier one is open."""
        self.lanes.clear()
        self.open.clear()
        self.by_item.clear()

    def lane(self, name: Any) -> Lane:
        key = word(name)
        found = self.lanes.get(key)
        if found is None:
            found = self.lanes[key] = Lane(key)
        return found

    @property
    def running(self) -> list[Response]:
        """The responses that have started and not ended."""
        return [lane.open for lane in self.lanes.values() if lane.open is not None]


class Event:
    """One record of a trace, with what it belongs to. ``body`` is the parsed object of a JSON text.

    The states are as they were before this event; an event that starts a response finds it already made.
    """

    __slots__ = (
        "body", "conn", "dir", "fault", "item", "kind", "lane", "line", "part", "record", "replaced",
        "response", "text", "transport", "type",
    )  # fmt: skip

    def __init__(self, record: dict[str, Any], line: int, conn: Connection) -> None:
        self.record = record
        self.line = line
        self.conn = conn
        self.dir: str = record["dir"]
        self.kind: str = record["kind"]
        self.text: str | None = None
        self.body: dict[str, Any] | None = None
        self.fault: str | None = None  # why the text is no JSON object
        self.type: str | None = None
        self.transport = "ws"
        self.lane: Lane | None = None
        self.response: Response | None = None
        self.replaced: Response | None = None  # what still ran on the lane when this event started a response
        self.item: Item | None = None
        self.part: Part | None = None

    @property
    def t(self) -> float:
        return float(self.record.get("t", 0.0))

    def get(self, *path: str) -> Any:
        """The value at a path of keys in the body, None where there is none."""
        value: Any = self.body
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value
