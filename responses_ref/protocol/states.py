"""The transition tables, and nothing else.

Theory of operation.  Four things in this protocol have a state: a response on
the wire, a turn inside the server, a steering submission, and the connection.
Each has one table below: ``(state, what happens) -> state``.  A step that is
not in its table is a bug of ours and shows up as a ``KeyError``; nothing a
peer sends can cause one, because messages are judged before they become steps.

Rule 1: a table is the only place that says which step is legal.
Rule 2: code that takes a step looks the next state up, it never assigns one.

WARNING: the diagrams in ``spec/`` are made from these tables; after a change
run ``python -m responses_ref.diagrams`` (the gate compares).
"""

from __future__ import annotations

from typing import Final, TypeAlias

Table: TypeAlias = dict[tuple[str, str], str]

# Lifecycle events that end a response.
TERMINAL: Final = frozenset({"response.completed", "response.failed", "response.incomplete"})

# --- A response on the wire: which event may follow which (RWS-ORD-001 and on). ---
# A word after an event's type is the kind of the item or part that it opens.
RESPONSE: Table = {
    ("idle", "response.created"): "created",
    ("created", "response.completed"): "ended",  # a warm-up
    ("created", "response.in_progress"): "open",
    ("open", "response.output_item.added message"): "message",
    ("open", "response.output_item.added reasoning"): "reasoning",
    ("open", "response.output_item.added function_call"): "function call",
    ("open", "response.output_item.added custom_tool_call"): "custom call",
    ("open", "response.output_item.added compaction"): "compaction",
    ("open", "response.completed"): "ended",
    ("open", "response.incomplete"): "ended",
    ("open", "response.done"): "paused",  # the append prototype only
    ("paused", "response.incomplete"): "ended",
    ("paused", "response.in_progress"): "open",
    # a message and its parts
    ("message", "response.content_part.added output_text"): "text",
    ("text", "response.output_text.delta"): "text",
    ("text", "response.output_text.done"): "text done",
    ("text done", "response.content_part.done"): "message",
    ("message", "response.content_part.added refusal"): "refusal",
    ("refusal", "response.refusal.delta"): "refusal",
    ("refusal", "response.refusal.done"): "refusal done",
    ("refusal done", "response.content_part.done"): "message",
    ("message", "response.output_item.done"): "open",
    # reasoning: a summary in parts, then the text itself
    ("reasoning", "response.reasoning_summary_part.added"): "summary",
    ("summary", "response.reasoning_summary_text.delta"): "summary",
    ("summary", "response.reasoning_summary_text.done"): "summary done",
    ("summary done", "response.reasoning_summary_part.done"): "reasoning",
    ("reasoning", "response.content_part.added reasoning_text"): "thought",
    ("thought", "response.reasoning_text.delta"): "thought",
    ("thought", "response.reasoning_text.done"): "thought done",
    ("thought done", "response.content_part.done"): "reasoning",
    ("reasoning", "response.output_item.done"): "open",
    # calls and compaction
    ("function call", "response.function_call_arguments.delta"): "function call",
    ("function call", "response.function_call_arguments.done"): "call done",
    ("custom call", "response.custom_tool_call_input.delta"): "custom call",
    ("custom call", "response.custom_tool_call_input.done"): "call done",
    ("call done", "response.output_item.done"): "open",
    ("compaction", "response.compaction.compacting"): "compaction",
    ("compaction", "response.output_item.done"): "open",
    ("erred", "response.failed"): "ended",  # RWS-ORD-021
}
LIVE: Final = tuple(sorted({state for state, _ in RESPONSE} - {"idle", "erred"}))
RUNNING: Final = tuple(state for state in LIVE if state not in ("created", "paused"))
# A started response can fail anywhere, a stream error can announce it there, and a silent one
# repeats itself anywhere (RWS-LIM-010).
RESPONSE |= {(state, "response.failed"): "ended" for state in LIVE}
RESPONSE |= {(state, "error"): "erred" for state in RUNNING}
RESPONSE |= {(state, "response.in_progress"): state for state in RUNNING}

# --- A turn: what the server does for one response.create. ---
TURN: Table = {
    ("waiting", "start"): "loading",  # its lane is idle and one of the slots is free
    ("loading", "load"): "preparing",  # its parent is bound
    ("preparing", "run"): "running",  # response.created has gone out
    ("running", "finish"): "storing",  # the outcome is known
    ("storing", "end"): "ended",  # the terminal event has gone out
    ("waiting", "refuse"): "ended",
    ("loading", "refuse"): "ended",
    ("preparing", "refuse"): "ended",
    # the append prototype: a response that waits for tool outputs
    ("running", "pause"): "paused",
    ("paused", "append"): "preparing again",
    ("preparing again", "run"): "running",
    ("paused", "finish"): "storing",
    ("preparing again", "finish"): "storing",
}

# --- A steering submission, from accepted on. ---
STEER: Table = {
    ("accepted", "commit"): "applied",  # its successor's response.created has gone out
    ("accepted", "wait"): "pending",  # tool outputs of the client are due first
    ("pending", "commit"): "applied",
    ("accepted", "fail"): "failed",
    ("pending", "fail"): "failed",
}

# --- The connection. ---
CONNECTION: Table = {
    ("open", "limit"): "limited",  # the lifetime is over: what runs may end
    ("open", "drain"): "draining",  # the server goes down: what has begun may end
    ("draining", "drain"): "draining",
    ("draining", "limit"): "draining",
    ("limited", "drain"): "limited",
    ("open", "close"): "closed",
    ("limited", "close"): "closed",
    ("draining", "close"): "closed",
    ("closed", "close"): "closed",
}
