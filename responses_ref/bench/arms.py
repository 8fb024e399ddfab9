"""An agent's conversation, and the ways to have it: what the arms of ``agent-loop`` do on the wire."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import attrs

from .wire import Broken, Http, WebSocket

Json = dict[str, Any]
TOOL: Json = {
    "type": "function",
    "name": "look",
    "parameters": {
        "type": "object",
        "properties": {"turn": {"type": "integer"}, "why": {"type": "string"}},
    },
}
WORDS = ("river", "stone", "maple", "lantern", "paper", "cedar", "harbor", "island", "amber", "brook")


def prose(seed: int, size: int) -> str:
    """So many characters of text, the same for the same seed."""
    chooser = random.Random(seed)
    words = [chooser.choice(WORDS) for _ in range(size // 4)]
    return " ".join(words)[:size]


@attrs.frozen
class Load:
    """What the agent does: ``turns`` responses; each but the last calls a tool, which takes its time."""

    turns: int = 20
    output_bytes: int = 8_000
    tokens: int = 50  # about so many in a response
    tool_seconds: float = 0.0

    def opening(self) -> Json:
        """The user's message: a script of numbered calls, so that lost context shows."""
        why = " ".join(WORDS[number % len(WORDS)] for number in range(max(self.tokens - 10, 1)))
        calls = [f'call: look {{"turn":{turn},"why":"{why}"}}' for turn in range(1, self.turns)]
        return {"role": "user", "content": "\nnext:\n".join(calls) + f"\nsay: {why}"}

    def tool_output(self, call: Json, turn: int) -> Json:
        text = prose(turn, self.output_bytes)
        return {"type": "function_call_output", "call_id": call["call_id"], "output": text}


def completed(event: bytes) -> Json:
    """The response of a terminal event; anything but success is a broken arm."""
    message: Json = json.loads(event)
    if message["type"] not in ("response.completed", "response.done"):
        raise Broken(f"a turn ended with {event[:300]!r}")
    response: Json = message["response"]
    return response


@attrs.define
class Arm:
    """One way to have the conversation. ``chain``: send the parent's id and what is new, else everything."""

    port: int
    chain: bool
    items: list[Json] = attrs.Factory(list)
    parent: str | None = None
    connections: int = 0
    sent: int = 0
    received: int = 0

    def ask(self, new: list[Json]) -> Json:
        """Have one turn; the response object it ended with."""
        self.items += new
        fields: Json = {"model": "scripted", "tools": [TOOL], "store": False, "input": self.items}
        if self.chain and self.parent:
            fields |= {"input": new, "previous_response_id": self.parent}
        response = self.exchange(fields)
        if self.chain and response["previous_response_id"] != self.parent:
            raise Broken("a response does not name the parent that it was given")
        self.parent = response["id"]
        self.items += response["output"]
        return response

    def exchange(self, fields: Json) -> Json:
        """Send one create and wait for the end of its response."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the connection."""


@attrs.define
class OverHttp(Arm):
    """A POST a turn. ``keep`` the connection, or make a new one; a parent has to be stored."""

    keep: bool = True
    http: Http | None = None

    def exchange(self, fields: Json) -> Json:
        if self.http is None:
            self.http = Http.open(self.port)
            self.connections += 1
        sent, received = self.http.sent, self.http.received
        events = self.http.post({**fields, "stream": True, "store": self.chain})
        self.sent += self.http.sent - sent
        self.received += self.http.received - received
        if not self.keep:
            self.close()
        return completed(events[-1])

    def close(self) -> None:
        if self.http is not None:
            self.http.close()
            self.http = None


@attrs.define
class OverWebSocket(Arm):
    """A create a turn on one connection."""

    socket: WebSocket | None = None

    def exchange(self, fields: Json) -> Json:
        return self.talk({"type": "response.create", **fields})

    def talk(self, message: Json) -> Json:
        """Send a message, and read on to the event that ends the turn."""
        if self.socket is None:
            self.socket = WebSocket.open(self.port)
            self.connections += 1
        self.socket.send(message)
        while b'"response":{' not in (event := self.socket.receive()) or is_beginning(event):
            if b'"type":"error"' in event[:20]:
                raise Broken(f"a turn ended with {event[:300]!r}")
        self.sent, self.received = self.socket.sent, self.socket.received
        return completed(event)

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()


@attrs.define
class Appending(OverWebSocket):
    """The append prototype: one response that pauses at each call."""

    def ask(self, new: list[Json]) -> Json:
        self.items += new
        if self.parent is None:
            fields = {"model": "scripted", "tools": [TOOL], "store": False, "input": new}
            response = self.talk({"type": "response.create", **fields})
        else:
            response = self.talk({"type": "response.append", "input": new})
        if self.parent not in (None, response["id"]):
            raise Broken("an append began a new response")
        self.parent = response["id"]
        return {**response, "output": response["output"][-1:]}


def is_beginning(event: bytes) -> bool:
    """Whether an event with a response in it is not the turn's last."""
    return event.startswith((b'{"type":"response.created"', b'{"type":"response.in_progress"'))


@attrs.frozen
class Way:
    """How an arm is named, served and had. ``grows``: each turn sends and costs more than the one before."""

    letter: str
    label: str
    make: Callable[[int], Arm]
    grows: bool = False  # in bytes sent
    redone: bool = False  # the server does the whole context's work each turn
    server: Json = attrs.Factory(dict)


WAYS = (
    Way("A", "HTTP, new connection, full history", lambda p: OverHttp(p, False, keep=False), True, True),
    Way("B", "HTTP keep-alive, full history", lambda p: OverHttp(p, False), True, True),
    Way(
        "C cold",
        "HTTP keep-alive, parent id, cache cold",
        lambda p: OverHttp(p, True),
        redone=True,
        server={"stateless": True},
    ),
    Way("C warm", "HTTP keep-alive, parent id, cache warm", lambda p: OverHttp(p, True)),
    Way("D", "WebSocket, full history", lambda p: OverWebSocket(p, False), True, True),
    Way("E", "WebSocket, parent id", lambda p: OverWebSocket(p, True)),
    Way("F", "append prototype", lambda p: Appending(p, True), server={"dialect": "append"}),
)
