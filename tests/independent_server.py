"""A small server for Responses over WebSocket, written from the text of `spec/` alone: a first attempt.

It plays the scripts of annex A0, so that most of the suite can run. What it lacks, as first attempts do, and
what the suite has to say of it, is in test_independent_server.py.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import trio
from trio_websocket import WebSocketConnection as Socket
from trio_websocket import wrap_server_stream

Json = dict[str, Any]
Step = tuple[str, str]
CALLS = {"call": ("function_call", "arguments"), "custom": ("custom_tool_call", "input")}
ANSWERS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
VERBS = {*CALLS, "say", "refuse", "think", "tokens", "next", "pause", "fail", "error", "incomplete", "reject"}
TYPES: dict[str, tuple[type, ...]] = {
    "input": (str, list), "model": (str,), "previous_response_id": (str,), "instructions": (str,),
    "store": (bool,), "generate": (bool,), "background": (bool,), "parallel_tool_calls": (bool,),
    "tools": (list,), "include": (list,), "tool_choice": (str, dict), "metadata": (dict,), "text": (dict,),
    "reasoning": (dict,), "max_output_tokens": (int,), "temperature": (int, float), "top_p": (int, float),
}  # fmt: skip


class Refused(Exception):
    def __init__(self, code: str, message: str, param: str | None = None, status: int = 400) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": message, "param": param}
        self.event = {"type": "error", "status": status, "error": error}


def check(create: Json) -> None:
    for name, types in TYPES.items():
        value = create.get(name)
        wrong = not isinstance(value, types) or (isinstance(value, bool) and bool not in types)
        if value is not None and wrong:
            raise Refused("invalid_type", f"'{name}' has the wrong type.", name)


def extend(context: list[Json], given: Any) -> list[Json]:
    """The context with the new input; calls that the client repeats count once."""
    calls = {item["call_id"]: item["type"] for item in context if item["type"] in ANSWERS.values()}
    known, out = {item.get("id") for item in context} - {None}, list(context)
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given or []:
        item = {"type": "message", **item}
        kind, call = item["type"], str(item.get("call_id"))
        if isinstance(item.get("content"), str):
            item["content"] = [{"type": "input_text", "text": item["content"]}]
        if kind in ANSWERS and calls.get(call) != ANSWERS[kind]:
            raise Refused("unknown_call", f"There is no call '{call}'.", "input")
        if kind in ANSWERS or (call not in calls and item.get("id") not in known):
            out.append(item)
        if kind in ANSWERS.values():
            calls.setdefault(call, kind)
    if missing := calls.keys() - {item.get("call_id") for item in out if item["type"] in ANSWERS}:
        raise Refused("missing_output", f"The call '{min(missing)}' has no output.", "input")
    return out


def script(context: list[Json]) -> tuple[int, list[Step]]:
    for place in reversed(range(len(context))):
        for part in reversed(context[place].get("content") or []):
            lines = [line.partition(":") for line in str(part.get("text")).split("\n") if line]
            if part.get("type") == "input_text" and lines and lines[0][1] and lines[0][0] in VERBS:
                return place, [(verb, text.removeprefix(" ")) for verb, _, text in lines]
    return -1, []


def responses(steps: list[Step], parallel: bool) -> Iterator[tuple[list[Step], int]]:
    """The steps of one response after another, each with the number of its calls."""
    part: list[Step] = []
    for verb, text in steps:
        calls = sum(one[0] in CALLS for one in part)
        if calls and (verb not in CALLS or not parallel):
            yield part, calls
            part = []
        part += [(verb, text)] if verb != "next" else []
    yield part, sum(one[0] in CALLS for one in part)


def plan(create: Json, context: list[Json]) -> list[Step]:
    place, steps = script(context)
    since = context[place + 1 :]
    outputs = [at for at, item in enumerate(since) if item["type"] in ANSWERS]
    done = any(item.get("role") == "assistant" for item in since[outputs[-1] if outputs else 0 :])
    choice = create.get("tool_choice") or "auto"
    named = choice.get("name") if isinstance(choice, dict) else None
    if choice == "none" or named:
        steps = [one for one in steps if one[0] not in CALLS or one[1].partition(" ")[0] == named]
    past = len(outputs)
    for part, calls in responses(steps if not done else [], create.get("parallel_tool_calls") is not False):
        if part and (not calls or past < calls):
            return part
        past -= calls
    tools = [tool["name"] for tool in create.get("tools") or [] if tool.get("type") == "function"]
    if tools and choice != "none" and (choice != "auto" or not outputs):
        return [("call", f"{named or tools[0]} {{}}")]
    return [("say", "That is all.")]


class Turn:
    def __init__(self, socket: Socket, create: Json, context: list[Json]) -> None:
        self.socket, self.create, self.context = socket, create, context
        self.number, self.tokens, self.thoughts = 0, 0, 0
        echoed: Json = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "store": True}
        echoed |= {"metadata": {}, "instructions": None, "previous_response_id": None}
        echoed |= {name: create[name] for name in echoed if create.get(name) is not None}
        self.response: Json = {"id": f"resp_{uuid4()}", "object": "response", **echoed}
        self.response |= {"created_at": int(time.time()), "model": create.get("model") or "small"}
        self.response |= {"output": [], "error": None, "incomplete_details": None, "status": "in_progress"}

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send_message(json.dumps({"type": kind, "sequence_number": self.number, **fields}))
        self.number += 1

    async def run(self, steps: list[Step]) -> None:
        await self.send("response.created", response=self.response)
        end = "completed"
        if self.create.get("generate") is not False:
            await self.send("response.in_progress", response=self.response)
            end = await self.say(steps)
        counts = {"input_tokens": len(str(self.context)) // 4, "output_tokens": self.tokens}
        self.response |= {"status": end, "usage": {**counts, "total_tokens": sum(counts.values())}}
        self.response["usage"]["input_tokens_details"] = {"cached_tokens": 0, "cache_write_tokens": 0}
        self.response["usage"]["output_tokens_details"] = {"reasoning_tokens": self.thoughts}
        await self.send(f"response.{end}", response=self.response)

    async def say(self, steps: list[Step]) -> str:
        for verb, text in steps:
            code, _, words = text.partition(" ")
            if verb == "pause":
                await trio.sleep(float(text))
            elif verb in ("fail", "error"):
                self.response["error"] = error = {"code": code, "message": words or "It went wrong."}
                if verb == "error":
                    await self.send("error", error={**error, "type": "server_error", "param": None})
                return "failed"
            elif verb == "incomplete" or not await self.item(verb, text):
                text = text if verb == "incomplete" else "max_output_tokens"
                self.response["incomplete_details"] = {"reason": text}
                return "incomplete"
        return "completed"

    async def item(self, verb: str, text: str) -> bool:
        """One item, from `added` to `done`; False if it was cut off."""
        kind, key = CALLS.get(verb, ("reasoning" if verb == "think" else "message", ""))
        item: Json = {"id": f"{kind}_{uuid4()}", "type": kind, "status": "in_progress"}
        at, said = {"output_index": len(self.response["output"])}, self.tokens
        where = {"item_id": item["id"], **at}
        if key:
            name, _, text = text.partition(" ")
            item |= {"call_id": f"call_{uuid4()}", "name": name, key: ""}
        else:
            item |= {"content": [], **({"summary": []} if verb == "think" else {"role": "assistant"})}
        await self.send("response.output_item.added", **at, item=item)
        if key:
            item[key], whole = await self.stream(f"response.{kind}_{key}.delta", text or "{}", where)
            await self.send(f"response.{kind}_{key}.done", **where, **{key: item[key]})
        else:
            whole = await self.part(verb, "la " * int(text) if verb == "tokens" else text, item, where)
        self.thoughts += self.tokens - said if verb == "think" else 0
        item["status"] = "completed" if whole else "incomplete"
        await self.send("response.output_item.done", **at, item=item)
        self.response["output"].append(item)
        return whole

    async def part(self, verb: str, text: str, item: Json, where: Json) -> bool:
        kind = {"think": "reasoning_text", "refuse": "refusal"}.get(verb, "output_text")
        key = "refusal" if verb == "refuse" else "text"
        part: Json = {"type": kind, key: "", **({"annotations": []} if kind == "output_text" else {})}
        more = {"content_index": 0, **({"logprobs": []} if kind == "output_text" else {})}
        await self.send("response.content_part.added", **where, content_index=0, part=part)
        part[key], whole = await self.stream(f"response.{kind}.delta", text, {**where, **more})
        await self.send(f"response.{kind}.done", **where, **more, **{key: part[key]})
        await self.send("response.content_part.done", **where, content_index=0, part=part)
        item["content"] = [part]
        return whole

    async def stream(self, event: str, text: str, where: Json) -> tuple[str, bool]:
        said = ""
        for word in text.replace(" ", " \0").strip("\0").split("\0"):
            if self.tokens == self.create.get("max_output_tokens"):
                return said, False
            self.tokens, said = self.tokens + 1, said + word
            await self.send(event, **where, delta=word)
        return said, True


async def turn(stored: dict[str, list[Json]], newest: Json, socket: Socket, create: Json) -> None:
    """Answer one create; ``newest`` is the connection's memory of its last response."""
    check(create)
    name, known = create.get("previous_response_id"), {**stored, **newest}
    if name is not None and name not in known:
        message = f"Previous response with id '{name}' not found."
        raise Refused("previous_response_not_found", message, "previous_response_id")
    context = extend(known.get(name) or [], create.get("input"))
    steps = plan(create, context)
    if steps[0][0] == "reject":
        status, code, text = f"{steps[0][1]}  ".split(" ", 2)
        raise Refused(code, text.strip() or "Not now.", status=int(status))
    made = Turn(socket, create, context)
    await made.run(steps)
    newest.clear()
    newest[made.response["id"]] = context + made.response["output"]
    stored.update(newest if made.response["store"] else {})


async def converse(stored: dict[str, list[Json]], socket: Socket) -> None:
    """Creates one after another. What comes meanwhile waits in the socket."""
    newest: Json = {}
    while True:
        message = await socket.get_message()
        try:
            create = json.loads(message if isinstance(message, str) else "null")
            if not isinstance(create, dict) or create.get("type") != "response.create":
                raise Refused("unknown_type", "There is only response.create.", "type")
            await turn(stored, newest, socket, create)
        except ValueError:
            await socket.send_message(json.dumps(Refused("invalid_json", "That is not JSON.").event))
        except Refused as refused:
            await socket.send_message(json.dumps(refused.event))


async def serve(stored: dict[str, list[Json]], stream: trio.SocketStream) -> None:
    try:
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(nursery, stream)
            if request.path.partition("?")[0] != "/v1/responses":
                return await request.reject(404)
            await converse(stored, await request.accept())
    except* Exception as group:
        print(f"a connection has ended: {group.exceptions[0]!r}", file=sys.stderr)


async def main() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(f"ws://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1/responses", flush=True)
    await trio.serve_listeners(partial(serve, {}), listeners)


if __name__ == "__main__":
    trio.run(main)
