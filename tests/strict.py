"""What a server has sent, held against the types of the `openai` package: every field, and no other.

The package's models let unknown fields pass, so after pydantic has validated an
event strictly, every model in it is asked what it did not know.  What goes back to
the client as it came is the client's own and is left out before that: tools that the
server only carries, the input of a steer that it refuses as invalid, and the code of
a failure that a script has asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import attrs
from openai.types import Model
from openai.types.responses import (
    Response,
    ResponseItem,
    ResponsesServerEvent,
    ResponseStreamEvent,
)
from openai.types.shared import ErrorObject
from pydantic import BaseModel, TypeAdapter, ValidationError

from responses_ref.protocol.errors import CATALOGUE

# (model of the package, field that it does not have): why the field is sent all the same.
ALLOWED: dict[tuple[str, str], str] = {
    ("Response", "store"): "Open Responses requires it",
    ("Response", "presence_penalty"): "Open Responses requires it",
    ("Response", "frequency_penalty"): "Open Responses requires it",
}


def _events(union: Any) -> dict[str, type[BaseModel]]:
    """type -> model, for each model of a union of events."""
    found: dict[str, type[BaseModel]] = {}
    for model in get_args(get_args(union)[0]):
        (name,) = get_args(model.model_fields["type"].annotation)
        found[name] = model
    return found


WS = _events(ResponsesServerEvent)
SSE = _events(ResponseStreamEvent)
TOOLS = ("function", "custom")  # what the server itself understands
ECHOES = re.compile(r'"tools": ?\[\{|"code": ?"invalid_input"|"status": ?"failed"')


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def faults(text: str, model: Any) -> list[str]:
    """What is wrong with a JSON text that should be a ``model`` of the package."""
    try:
        value = _adapter(model).validate_json(_without_echoes(text), strict=True)
    except ValidationError as error:
        return [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()][:5]
    return list(_unknown(value, ""))


def _without_echoes(text: str) -> str:
    """The JSON text without what is the client's own and not judged by the server either."""
    if not ECHOES.search(text):
        return text
    value = json.loads(text)
    response = value.get("response", value)
    if value.get("type") == "response.steer.failed":
        value["steer"]["input"] = ""  # what was wrong goes back as it came
    elif "tools" in response:
        response["tools"] = [tool for tool in response["tools"] if tool["type"] in TOOLS]
        if (error := response["error"]) and error["code"] not in CATALOGUE:
            error["code"] = "server_error"  # the code was the script's wish
    return json.dumps(value)


def _unknown(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, BaseModel):
        for name in value.model_extra or {}:
            if (type(value).__name__, name) not in ALLOWED:
                yield f"{path}.{name}: {type(value).__name__} has no such field"
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _unknown(one, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _unknown(one, f"{path}.{name}")


# --- What was sent, as the traces of servers have it. ---


@attrs.frozen
class Sent:
    """One thing a server sent: the model it should be, the name it goes by, and its JSON."""

    model: Any
    name: str
    text: str


def sent(folder: Path) -> Iterator[Sent]:
    """All that the servers under a folder have sent; the append prototype's connections left out."""
    for file in sorted(folder.glob("**/traces/*.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        texts = [line["text"] for line in lines if line["kind"] == "text"]
        if not any('"response.done"' in text or '"response.append"' in text for text in texts):
            yield from _of_connection(line for line in lines if line.get("dir") == "s2c")


def _of_connection(lines: Iterable[dict[str, Any]]) -> Iterator[Sent]:
    for line in lines:
        if line["kind"] == "text":
            name = json.loads(line["text"])["type"]
            yield Sent(WS.get(name), name, line["text"])
        elif line["kind"] == "http" and line["body"]:
            yield from _of_object(json.loads(line["body"])) if "head" in line else _of_event(line["body"])


def _of_event(body: str) -> Iterator[Sent]:
    """One event of a streamed answer: its line has no head."""
    first, second = body.strip().split("\n")
    name, text = first.removeprefix("event: "), second.removeprefix("data: ")
    assert json.loads(text)["type"] == name
    yield Sent(SSE.get(name), f"sse {name}", text)


def _of_object(value: dict[str, Any]) -> Iterator[Sent]:
    if "error" in value and "object" not in value:
        yield Sent(ErrorObject, "http error", json.dumps(value["error"]))
    elif value.get("object") == "response" and not value.get("deleted"):
        yield Sent(Response, "http response", json.dumps(value))
    elif value.get("object") == "model":
        yield Sent(Model, "http model", json.dumps(value))
    elif value.get("object") == "list":
        for one in value["data"]:
            model = Model if one.get("object") == "model" else ResponseItem
            yield Sent(model, "http list", json.dumps(one))
