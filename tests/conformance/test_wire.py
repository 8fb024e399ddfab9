"""Frames and traces: our frames against a library's, what is recorded, what is redacted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode

from conformance import raw, trace
from conformance.target import Address, Endpoint, UsageError, parse_url
from conformance.values import fill, message

payloads = st.binary(max_size=300) | st.integers(0, 70_000).map(bytes)


@given(payloads, st.booleans(), st.integers(1, 3))
def test_a_frame_comes_back_whole_however_it_is_cut(payload: bytes, masked: bool, pieces: int) -> None:
    data = raw.frame(raw.BINARY, payload, masked=masked) + raw.frame(raw.PING, b"x", masked=masked)
    reader, found = raw.FrameReader(), []
    step = max(1, len(data) // pieces)
    for start in range(0, len(data), step):
        found += list(reader.feed(data[start : start + step]))
    assert [(one.op, one.payload, one.masked, one.fin) for one in found] == [
        (raw.BINARY, payload, masked, True),
        (raw.PING, b"x", masked, True),
    ]
    assert reader.rest == 0


@given(st.text(max_size=200))
def test_a_library_reads_what_we_write(text: str) -> None:
    server = FrameProtocol(client=False, extensions=[])
    server.receive_bytes(raw.frame(raw.TEXT, text.encode()))
    assert "".join(str(one.payload) for one in server.received_frames()) == text


@given(st.text(max_size=200))
def test_we_read_what_a_library_writes(text: str) -> None:
    server = FrameProtocol(client=False, extensions=[])
    (found,) = raw.FrameReader().feed(server.send_data(text, fin=True))
    assert (found.op, found.payload.decode(), found.masked) == (raw.TEXT, text, False)


def test_a_library_agrees_on_close_frames() -> None:
    server = FrameProtocol(client=False, extensions=[])
    (found,) = raw.FrameReader().feed(server.close(CloseReason.GOING_AWAY, "bye"))
    assert raw.parse_close(found.payload) == (1001, "bye")
    server.receive_bytes(raw.frame(raw.CLOSE, raw.close_payload(4001, "x")))
    (close,) = server.received_frames()
    assert (close.opcode, close.payload) == (Opcode.CLOSE, (4001, "x"))


@pytest.mark.parametrize(
    ("fields", "hexed"),
    [
        ({"op": "ping", "text": "a", "mask": False}, "890161"),
        ({"op": "text", "hex": "ff", "mask": False, "fin": False, "rsv": 4}, "4101ff"),
        ({"op": 11, "mask": False}, "8b00"),
        ({"op": "close", "code": 1005, "mask": False}, "880203ed"),
        ({"op": "close", "mask": False}, "8800"),
        ({"op": "text", "text": "a", "length": 200, "mask": False}, "817e00c861"),
        ({"op": "cont", "fill": ["ab", 2], "mask": False}, "800461626162"),
        ({"op": "text", "text": "a"}, "818137fa213d56"),
    ],
)
def test_frames_as_a_transcript_describes_them(fields: dict[str, Any], hexed: str) -> None:
    assert raw.build(fields).hex() == hexed


@pytest.mark.parametrize(
    ("code", "fits"), [(1000, True), (1005, False), (1006, False), (999, False), (3000, True), (5000, False)]
)
def test_codes_that_a_close_frame_may_carry(code: int, fits: bool) -> None:
    assert raw.may_be_sent(code) is fits


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1\r\nAuthorization: Bearer sk-secret\r\n\r\n",
        "GET / HTTP/1.1\r\nx-api-key: sk-secret\r\n\r\n",
        "GET /v1?api_key=sk-secret&x=1 HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nCookie: a=sk-secret\r\n\r\n",
        "GET / HTTP/1.1\r\nSec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-secret\r\n\r\n",
    ],
)
def test_keys_are_redacted(head: str) -> None:
    redacted = trace.redact(head)
    assert "sk-secret" not in redacted
    assert "[redacted]" in redacted
    assert redacted.count("\r\n") == head.count("\r\n")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            '{"t":1,"conn":2,"dir":"s2c","kind":"text","text":"x"}',
            {"conn": "2", "dir": "s2c", "kind": "text"},
        ),
        (
            '{"dir":"client","frame":{"type":"x"}}',
            {"conn": "", "dir": "c2s", "kind": "text", "text": '{"type": "x"}'},
        ),
        ('{"kind":"later","dir":"s2c","more":1}', {"kind": "later"}),
        ('{"kind":"meta","profiles":[]}', {"kind": "meta"}),
        ("nonsense", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"dir":"s2c"}', "no `kind`"),
        ('{"kind":"text","dir":"up","text":""}', "`dir` is neither"),
        ('{"kind":"text","dir":"s2c"}', "without a `text`"),
    ],
)
def test_records_of_other_programs_are_read(line: str, found: dict[str, Any] | str) -> None:
    ((number, record),) = trace.read(["", line, "  "])
    assert number == 2
    if isinstance(found, str):
        assert isinstance(record, trace.Unreadable)
        assert found in record.why
    else:
        assert isinstance(record, dict)
        assert found.items() <= record.items()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["kind", "dir", "text", "conn", "t", "frame", "x"]), json_values)
    )
)
def test_no_record_can_upset_the_reader(records: list[dict[str, Any]]) -> None:
    lines = [json.dumps(one) for one in records]
    for _, record in trace.read(lines):
        assert isinstance(record, dict | trace.Unreadable)


@pytest.mark.parametrize(
    ("url", "address", "path", "root"),
    [
        ("ws://h:1/v1/responses", Address("h", 1, False), "/v1/responses", "/v1"),
        ("wss://h", Address("h", 443, True), "/v1/responses", "/v1"),
        (
            "http://h/openai/v1/responses?a=1",
            Address("h", 80, False),
            "/openai/v1/responses?a=1",
            "/openai/v1",
        ),
        ("h:99", Address("h", 99, False), "/v1/responses", "/v1"),
    ],
)
def test_urls(url: str, address: Address, path: str, root: str) -> None:
    found, endpoint = parse_url(url)
    assert (found, endpoint.path, endpoint.root) == (address, path, root)


@pytest.mark.parametrize("url", ["ftp://h", "ws://", "ws://h:x/"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(UsageError):
        parse_url(url)


def test_paths_are_relative_to_the_api_root() -> None:
    end = Endpoint(root="/openai/v1")
    assert [end.resolve(path) for path in ("/v1/models", "/v1", "/v1x", "/healthz")] == [
        "/openai/v1/models",
        "/openai/v1",
        "/v1x",
        "/healthz",
    ]


def test_what_is_sent() -> None:
    names = {"r": "resp_1", "o": {"a": 1}, "model": "real"}
    assert fill({"a": "$r", "b": "$o", "c": "x ${r}", "d": "$$r", "e": "$${r}"}, names) == {
        "a": "resp_1",
        "b": {"a": 1},
        "c": "x resp_1",
        "d": "$r",
        "e": "${r}",
    }
    assert fill({"$repeat": ["ab", 3]}, names) == "ababab"
    assert fill({"$list": [{"n": "${i}"}, 2]}, names) == [{"n": "0"}, {"n": "1"}]
    assert fill({"$concat": ["a", {"$repeat": ["b", 2]}, "$r"]}, names) == "abbresp_1"
    assert fill({"$json": {"a": "$r"}}, names) == '{"a":"resp_1"}'
    assert message({"model": "scripted", "x": "é"}, names) == '{"model":"real","x":"é"}'
