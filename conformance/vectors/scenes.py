"""The scenes that are recorded: short dialogues that between them do everything once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.vectors import Scene

Act = Callable[[Scene], None]


def _output(call_id: str, output: str, kind: str = "function") -> dict[str, Any]:
    return {"type": f"{kind}_call_output" if kind == "function" else "custom_tool_call_output",
            "call_id": call_id, "output": output}  # fmt: skip


def turn(scene: Scene) -> None:
    scene.open()
    scene.create("say: Hello, world!\nrefuse: No more.")


def reasoning(scene: Scene) -> None:
    scene.open()
    scene.create("think: Let me see.\nsay: 42", include=["reasoning.encrypted_content"], store=False)
    scene.create("think: Again.\nsay: 43", store=False)


def odd_texts(scene: Scene) -> None:
    scene.open()
    scene.create('say: "quotes" \\ and \u2028 é 日本語 🙂\t\x7f end')
    scene.create("say:")
    scene.create("call: f\ncustom: g")


def tools(scene: Scene) -> None:
    scene.open()
    scene.create('call: look {"a": [1, 2]}\ncustom: shell ls -l\nnext:\ncall: read {}\nsay: done')
    first, second = scene.calls()
    scene.create([_output(first, "1"), _output(second, "2", "custom")], previous_response_id=scene.last["id"])
    (third,) = scene.calls()
    scene.create([_output(third, "3")], previous_response_id=scene.last["id"])


def agent(scene: Scene) -> None:
    scene.open()
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "of": {"enum": ["a", "b"]}},
        "required": ["n", "of"],
    }
    tool = {"type": "function", "name": "count", "parameters": schema}
    scene.create("How many?", tools=[tool])
    (call,) = scene.calls()
    scene.create([_output(call, "7")], previous_response_id=scene.last["id"], tools=[tool])


def ends(scene: Scene) -> None:
    scene.open()
    scene.create("say: a b c d e f", max_output_tokens=3)
    scene.create("say: a\nincomplete: content_filter")
    scene.create("say: a\nfail: server_error It broke.")
    scene.create("say: a\nerror: server_error It broke.")
    scene.create("reject: 429 rate_limit_exceeded")
    scene.create("compact:")


def warm_up(scene: Scene) -> None:
    scene.open()
    scene.create([], generate=False, store=False)
    scene.create("say: warm", generate=False, store=False, previous_response_id=scene.last["id"])
    scene.create([], store=False, previous_response_id=scene.last["id"])


def refusals(scene: Scene) -> None:
    scene.open()
    scene.do(do="receive", conn="a", text="no json")
    scene.do(do="receive", conn="a", text="[]")
    scene.do(do="receive", conn="a", base64="AAE=")
    scene.send(type="response.unheard_of")
    scene.send(type="response.create")
    scene.create(7)
    scene.create("a", background=True)
    scene.create("a", previous_response_id="resp_none")
    scene.create([_output("call_none", "x")])
    scene.create("a", temperature=3)
    scene.create("say: a\nnonsense")


def eviction(scene: Scene) -> None:
    scene.open()
    scene.create("say: a", store=False)
    first = scene.last["id"]
    scene.create([_output("call_none", "x")], store=False, previous_response_id=first)
    scene.create("say: b", store=False, previous_response_id=first)


def lanes(scene: Scene) -> None:
    scene.open()
    scene.create("pause: 1\nsay: slow", stream_id="a")
    scene.create("say: quick", stream_id="b")
    scene.create("say: after", stream_id="a")
    scene.create("say: no", stream_id="not legal")
    scene.do(do="advance", to=2)


def steering(scene: Scene) -> None:
    scene.open()
    scene.create("every: 1\nsay: a b c\nthink: no")
    scene.send(type="response.steer", previous_response_id=scene.last["id"], input="say: steered")
    scene.send(type="response.steer", previous_response_id="resp_none", input="x")
    scene.do(do="advance", to=10)


def waiting(scene: Scene) -> None:
    scene.open()
    scene.create("pause: 300\nsay: at last")
    scene.do(do="advance", to=250)
    scene.do(do="advance", to=300)
    scene.do(do="advance", to=3600)


def lifetime(scene: Scene) -> None:
    scene.open()
    scene.do(do="advance", to=3590)
    scene.create("pause: 30\nsay: too late")
    scene.create("say: waiting")
    scene.do(do="advance", to=3600)
    scene.create("say: new")
    scene.do(do="advance", to=3610)


def two_connections(scene: Scene) -> None:
    scene.open("a")
    scene.create("say: kept", "a")
    scene.do(do="peer_closed", conn="a", code=1000)
    scene.open("b")
    scene.create("say: found", "b", previous_response_id=scene.last["id"])


SCENES: dict[str, tuple[str, Act]] = {
    "turn": ("one turn: a message with text, and one with a refusal", turn),
    "reasoning": ("reasoning, with and without its encrypted content", reasoning),
    "odd-texts": ("texts that have to be escaped, and empty ones", odd_texts),
    "tools": ("a tool loop over three responses", tools),
    "agent": ("the model without a script calls a tool, then sums up", agent),
    "ends": ("all the ways in which a response ends", ends),
    "warm-up": ("two warm-ups, one on the other, and a turn on both", warm_up),
    "refusals": ("messages and creates that are refused", refusals),
    "eviction": ("a bad continuation costs the parent", eviction),
    "lanes": ("lanes side by side, and one behind another", lanes),
    "steering": ("a response is steered and succeeded", steering),
    "waiting": ("a silent response repeats itself; the connection is idle until its end", waiting),
    "lifetime": ("the lifetime ends while a response runs and one waits", lifetime),
    "two-connections": ("a stored response is continued on another connection", two_connections),
}
