"""The error catalogue: the code of every refusal but a script's own (RWS-ERR-009, RWS-ERR-020).

A :class:`Problem` is a value: the status and the four strings that each
transport dresses in its own shape (an ``error`` event on a WebSocket, a JSON
body over HTTP, a flat ``error`` event over SSE).  :class:`Refused` carries one
to whoever answers: the core, the session, or the HTTP side.  The codes of
``response.steer.failed`` are in ``steering.MESSAGES``.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

INVALID = "invalid_request_error"
OVERLOADED = "service_unavailable_error"
MAX_QUOTED = 256  # characters of a peer's own value that an error repeats


@attrs.frozen
class Problem:
    """Why a request is refused. ``status`` is an HTTP status, never 2xx."""  # RWS-ERR-002

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    headers: Mapping[str, str] | None = None


class Refused(Exception):
    """A request that breaks a rule; ``problem`` is what its sender is told, on lane ``stream_id``."""

    def __init__(self, problem: Problem, stream_id: str | None = None) -> None:
        super().__init__(problem.code)
        self.problem = problem
        self.stream_id = stream_id


@attrs.frozen
class Entry:
    """One row of the catalogue; ``message`` and ``param`` take named arguments."""

    status: int
    message: str
    param: str | None = None
    type: str = INVALID
    headers: Mapping[str, str] | None = None


CATALOGUE: dict[str, Entry] = {
    # A message that is judged at once.
    "invalid_json": Entry(400, "The message is not valid JSON: {why}."),
    "invalid_event": Entry(400, "Expected one JSON object in one text message."),
    "too_many_values": Entry(400, "The message holds more than {limit} JSON values."),
    "unknown_event_type": Entry(400, "Unknown event type {name}.", "type"),
    "invalid_stream_id": Entry(
        400,
        "The 'stream_id' field must be a non-empty string with at most 256 characters and may only"
        " contain letters, numbers, underscores, hyphens, and periods.",
        "stream_id",
    ),
    "websocket_stream_limit_reached": Entry(
        400,
        "This WebSocket connection has reached its maximum number of distinct stream IDs ({limit})."
        " Reuse an existing stream_id or open a new WebSocket connection.",
        "stream_id",
    ),
    "too_many_queued_responses": Entry(
        429,
        "Too many responses are waiting on this connection ({limit}). Please try again in 1s.",
        type="rate_limit_error",
        headers={"retry-after": "1"},
    ),
    "websocket_connection_limit_reached": Entry(
        400,
        "Responses websocket connection limit reached ({limit})."
        " Create a new websocket connection to continue.",
    ),
    "server_shutting_down": Entry(
        503, "The server is shutting down. Open a new connection to continue.", type=OVERLOADED
    ),
    # A create whose turn has come.
    "missing_required_parameter": Entry(400, "Missing required parameter: '{param}'.", "{param}"),
    "invalid_type": Entry(400, "Invalid type for '{param}': expected {expected}.", "{param}"),
    "invalid_value": Entry(400, "Invalid value for '{param}': {why}.", "{param}"),
    "unsupported_parameter": Entry(400, "Unsupported parameter: '{param}' {why}.", "{param}"),
    "mutually_exclusive_parameters": Entry(
        400, "'previous_response_id' and 'conversation' exclude each other.", "previous_response_id"
    ),
    "model_not_found": Entry(400, "The model '{model}' does not exist.", "model"),
    "previous_response_not_found": Entry(
        400, "Previous response with id '{id}' not found.", "previous_response_id"
    ),
    "item_not_found": Entry(400, "Item with id '{id}' not found.", "input"),
    "tool_call_not_found": Entry(
        400, "No tool call found for {kind} output with call_id {call_id}.", "input"
    ),
    "tool_output_missing": Entry(400, "No tool output found for {kind} {call_id}.", "input"),
    "tool_output_conflict": Entry(
        400, "The call {call_id} already has another output in this context.", "input"
    ),
    "invalid_prompt": Entry(400, "The input was flagged by the safety check.", "input"),
    "invalid_script": Entry(400, "The script cannot be played: {why}.", "input"),
    # The append prototype.
    "append_while_running": Entry(400, "The response is not waiting for an append."),
    "append_without_response": Entry(400, "There is no response to append to."),
    # A response that has started, or the shell around it.
    "server_error": Entry(500, "The server had an error while processing the request.", type="server_error"),
    # Plain HTTP (RWS-HTTP-015).
    "invalid_api_key": Entry(401, "Missing or wrong API key.", type="authentication_error"),
    "response_not_found": Entry(404, "Response with id '{id}' not found."),
    "not_found": Entry(404, "There is nothing at this path."),
    "method_not_allowed": Entry(405, "This path does not take the method {method}."),
    "upgrade_required": Entry(426, "This request needs a WebSocket upgrade, version 13."),
    "bad_request": Entry(400, "The request is not valid HTTP: {why}."),
    "request_head_too_large": Entry(431, "The request head is larger than {limit} bytes."),
    "request_body_too_large": Entry(413, "The request body is larger than {limit} bytes."),
    "too_many_connections": Entry(
        503, "The server is full. Please try again in 1s.", type=OVERLOADED, headers={"retry-after": "1"}
    ),
}


def problem(code: str, **arguments: object) -> Problem:
    """Build the problem ``code`` from its row, filling in the named arguments."""
    entry = CATALOGUE[code]
    quoted = {name: str(value)[:MAX_QUOTED] for name, value in arguments.items()}
    param = entry.param.format(**quoted) if entry.param else None
    return Problem(entry.status, entry.type, code, entry.message.format(**quoted), param, entry.headers)
