"""Items to build contexts of, and a short way to write down what a model says."""

from __future__ import annotations

from collections.abc import Iterable

from responses_ref.model.streamer import Element, Every, Pause
from responses_ref.protocol.batch import Failed, Finished, ItemDone, ItemStarted, Piece
from responses_ref.protocol.items import (
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Message,
    OutputText,
)


def user(*texts: str) -> Message:
    return Message("user", tuple(InputText(text) for text in texts))


def assistant(text: str = "fine") -> Message:
    return Message("assistant", (OutputText(text),))


def called(name: str = "f") -> FunctionCall:
    return FunctionCall("call_1", name, "{}")


OUTPUT = FunctionCallOutput("call_1", "4")
CUSTOM_OUTPUT = CustomToolCallOutput("call_2", "4")


def shown(elements: Iterable[Element]) -> list[str]:
    """One string per item, pause or end: ``message output_text=hello``, ``pause 2``, ``completed``."""
    lines: list[str] = []
    part = ""
    for element in elements:
        match element:
            case ItemStarted(kind, name):
                lines.append(f"{kind} {name}".strip())
                part = ""
            case Piece(text, kind):
                lines[-1] += text if kind == part else f" {kind}={text}"
                part = kind
            case ItemDone(status):
                lines[-1] += "" if status == "completed" else f" ({status})"
            case Pause(seconds):
                lines.append(f"pause {seconds:g}")
            case Every(seconds):
                lines.append(f"every {seconds:g}")
            case Failed(code, message, announced):
                lines.append(f"failed {code}: {message}{' (announced)' * announced}")
            case Finished(reason):
                lines.append("completed" if reason is None else f"incomplete {reason}")
    return lines
