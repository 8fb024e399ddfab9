"""Every bound of the shell by its name, what is counted, and the one error that stops a start."""

from __future__ import annotations

import attrs


class ConfigError(Exception):
    """The server cannot start as it was asked to; the text is for the operator."""


@attrs.frozen
class Limits:
    """Sizes in bytes, times in seconds."""

    max_connections: int = 10_000  # RWS-LIM-019
    overflow_connections: int = 256  # above the bound, those that may still be told 503
    head_bytes: int = 65_536  # RWS-HS-027
    max_message_bytes: int = 16_777_215  # RWS-FRM-011
    max_fragments: int = 65_536  # frames of one message: empty ones cost no bytes
    outbox_messages: int = 16_384  # calls of `send` that wait, each with one frame or several joined
    outbox_bytes: int = 67_108_864  # a response echoes its request up to three times
    low_water_bytes: int = 65_536
    write_bytes: int = 65_536  # one write: what a Pong may have to wait for, if no frame is larger
    handshake_seconds: float = 10.0  # RWS-HS-030
    keepalive_seconds: float = 75.0
    body_seconds: float = 300.0
    write_seconds: float = 30.0  # for each write of `write_bytes`
    close_seconds: float = 5.0  # RWS-CLS-012


@attrs.define
class Stats:
    """What happened so far; `open` is what is."""

    accepted: int = 0
    open: int = 0
    refused: int = 0
    crashed: int = 0
    slow_consumers: int = 0
