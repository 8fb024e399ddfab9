"""Mutants of FRM: what a message is, how large it may be, and which frames are illegal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from conformance import raw
from conformance.mutants.harness import mutant, option_mutant, server_mutant
from conformance.mutants.middle import Out
from responses_ref.server.accept import Server
from responses_ref.server.limits import Limits

Memory = dict[str, Any]
MIB = 1024 * 1024


def text(message: str) -> bytes:
    return raw.frame(raw.TEXT, message.encode(), masked=False)


def last_words(clause: str, name: str, words: bytes) -> None:
    """A server that sends ``words`` before each Close frame, where no case waits for a message any more."""

    def frame(frame: raw.Frame, memory: Memory) -> Iterable[Out]:
        if frame.op == raw.CLOSE:
            yield words
        yield raw.frame(frame.op, frame.payload, masked=False)

    frame.__name__ = name
    mutant(clause, on="frame")(frame)


last_words("RWS-FRM-001", "ends_with_a_done_marker", text("[DONE]"))
last_words("RWS-FRM-001", "sends_events_in_an_array", text('[{"type":"slug:goodbye"}]'))
last_words("RWS-FRM-002", "sends_a_binary_message", raw.frame(raw.BINARY, b"{}", masked=False))
last_words("RWS-FRM-003", "sends_a_message_without_a_type", text('{"event":"slug:goodbye"}'))
last_words("RWS-FRM-004", "takes_a_reserved_name", text('{"type":"close"}'))
last_words("RWS-FRM-005", "writes_not_a_number", text('{"type":"slug:goodbye","took":NaN}'))
last_words("RWS-FRM-005", "repeats_a_key", text('{"type":"slug:goodbye","type":"slug:goodbye"}'))


@mutant("RWS-FRM-006", on="client_frame")
def drops_fragments(frame: raw.Frame, memory: Memory) -> Iterable[bytes]:
    if frame.op >= raw.CLOSE:
        yield raw.frame(frame.op, frame.payload)


option_mutant("RWS-FRM-007", "accepts_one_byte_less_than_it_says", max_message_bytes=65_535)
option_mutant("RWS-FRM-008", "reads_messages_of_any_size", max_message_bytes=MIB)


def closes_instead(wrong: int, right: int) -> Callable[[raw.Frame, Memory], Iterable[Out]]:
    """A hook that closes with ``wrong`` where ``right`` is due."""

    def frame(frame: raw.Frame, memory: Memory) -> Iterable[Out]:
        code, reason = raw.parse_close(frame.payload) if frame.op == raw.CLOSE else (None, "")
        payload = raw.close_payload(wrong, reason) if code == right else frame.payload
        yield raw.frame(frame.op, payload, masked=False)

    return frame


def wrong_code(clause: str, name: str, wrong: int, right: int) -> None:
    hook = closes_instead(wrong, right)
    hook.__name__ = name
    mutant(clause, on="frame")(hook)


wrong_code("RWS-FRM-008", "calls_a_large_message_a_violation", wrong=1008, right=1009)


@mutant("RWS-FRM-009", on="request")
def counts_characters(message: Any, memory: Memory) -> Iterable[Out]:
    long = isinstance(message, str) and len(message) <= 65_536 < len(message.encode())
    yield "x" * len(message) if long else message


@mutant("RWS-FRM-009", on="client_frame")
def waits_for_the_last_fragment(frame: raw.Frame, memory: Memory) -> Iterable[bytes]:
    sent = raw.frame(frame.op, frame.payload, fin=frame.fin, rsv=frame.rsv, masked=frame.masked)
    if frame.op >= raw.CLOSE:
        yield sent
        return
    memory["kept"] = memory.get("kept", b"") + sent
    if frame.fin:
        yield memory.pop("kept")


def unless_told(server: Server, limit: int) -> None:
    """Give the server that limit where its configuration says nothing."""
    if server.limits == Limits():
        server.limits = Limits(max_message_bytes=limit)


@server_mutant("RWS-FRM-011")
def takes_the_last_byte_of_16_mib_too(server: Server) -> None:
    unless_told(server, 16 * MIB)


@server_mutant("RWS-FRM-011")
def stops_at_1_mib(server: Server) -> None:
    unless_told(server, MIB)


@mutant("RWS-FRM-010", on="client_frame")
def reads_binary_as_text(frame: raw.Frame, memory: Memory) -> Iterable[bytes]:
    op = raw.TEXT if frame.op == raw.BINARY else frame.op
    yield raw.frame(op, frame.payload, fin=frame.fin, rsv=frame.rsv, masked=frame.masked)


@mutant("RWS-FRM-012", on="client_frame")
def reads_frames_without_a_mask(frame: raw.Frame, memory: Memory) -> Iterable[bytes]:
    yield raw.frame(frame.op, frame.payload, fin=frame.fin, rsv=frame.rsv)


@mutant("RWS-FRM-012", on="client_frame")
def passes_over_reserved_bits(frame: raw.Frame, memory: Memory) -> Iterable[bytes]:
    yield raw.frame(frame.op, frame.payload, fin=frame.fin, masked=frame.masked)


wrong_code("RWS-FRM-013", "calls_bad_utf_8_a_protocol_error", wrong=1002, right=1007)
wrong_code("RWS-FRM-013", "calls_a_protocol_error_a_fault_of_its_own", wrong=1011, right=1002)
