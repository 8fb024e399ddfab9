"""Recordings of server-sent events, in every form that recorders write: they are judged like messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from servers import turn

from conformance.judge import Judgement, judge
from conformance.specdoc import load
from conformance.trace import read

Lines = list[dict[str, Any]]

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"
JSON_HEAD = HEAD.replace("text/event-stream", "application/json")


def asks(stream: bool = True) -> dict[str, Any]:
    body = json.dumps({"model": "scripted", "input": "a", "stream": stream})
    return {"dir": "c2s", "kind": "http", "head": "POST /v1/responses HTTP/1.1\r\n\r\n", "body": body}


def said(**fields: Any) -> dict[str, Any]:
    return {"dir": "s2c", "kind": "http", **fields}


def a_line_each(blocks: list[str]) -> Lines:
    return [said(head=HEAD), *(said(body=block) for block in blocks)]


FORMS: dict[str, Callable[[list[str]], Lines]] = {
    "a line each": a_line_each,
    "a line each behind an empty body": lambda blocks: [
        said(head=HEAD, body=""),
        *a_line_each(blocks)[1:],
    ],
    "a line each without a head": lambda blocks: a_line_each(blocks)[1:],
    "all beside the head": lambda blocks: [said(head=HEAD, body="".join(blocks))],
    "all behind the head": lambda blocks: [said(head=HEAD), said(body="".join(blocks))],
    "all without a head": lambda blocks: [said(body="".join(blocks))],
    "in two pieces": lambda blocks: [
        said(head=HEAD, body="".join(blocks[:3])),
        said(body="".join(blocks[3:])),
    ],
    "lines that end in CR LF": lambda blocks: [said(head=HEAD, body="".join(blocks).replace("\n", "\r\n"))],
    "comments between them": lambda blocks: [said(head=HEAD, body=": here\n\n" + ": still\n\n".join(blocks))],
    "the last one cut": lambda blocks: [said(head=HEAD, body="".join([*blocks, "data: [DONE]"]))],
}


def judged(form: str, events: list[dict[str, Any]], times: int = 1) -> Judgement:
    blocks = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
    lines = [asks(), *FORMS[form](blocks)] * times
    return judge(load(), read(json.dumps({"t": 1.0, "conn": "a", **line}) for line in lines))


@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_number_is_found_in_every_form_of_recording(form: str) -> None:
    good = turn("resp_1", ["a", "b"])
    found = judged(form, good)
    assert found.held["RWS-SEQ-002"] == len(good) - 1
    assert {"RWS-SEQ-002", "RWS-ORD-009"} <= found.held.keys() - found.broken.keys()
    assert found.event_types["response.output_text.delta"] == 2
    bad = [{**one, "sequence_number": one["sequence_number"] + (place > 4)} for place, one in enumerate(good)]
    assert judged(form, bad).broken["RWS-SEQ-002"] == 1


@pytest.mark.parametrize("form", FORMS)
def test_one_answer_after_another_on_a_connection(form: str) -> None:
    found = judged(form, turn("resp_1", ["a"]), times=2)
    assert found.broken.keys() & {"RWS-SEQ-002", "RWS-SEQ-003", "RWS-SEQ-005", "RWS-ORD-003"} == set()
    assert found.broken["RWS-RES-022"] == 1  # one id for two responses


def test_an_answer_that_is_not_streamed_is_none() -> None:
    text = "data: " + json.dumps({"type": "response.completed", "sequence_number": 7})
    lines = [
        asks(stream=False),
        said(head=JSON_HEAD, body=text),
        asks(),
        said(head=JSON_HEAD),
        said(body=text),
    ]
    found = judge(load(), read(json.dumps({"t": 1.0, "conn": "a", **line}) for line in lines))
    assert found.event_types == {}
    assert found.records == 5
