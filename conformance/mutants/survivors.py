"""Changes by machine that the judge lets pass, each with the reason (see `machine`).

(case, or * for all; change; type of the changed event) -> why nothing can be said against it. A change that
passes and is not listed fails the tests, and so does an entry that no change needs any more.
"""

from __future__ import annotations

from typing import Final

_AGAIN: Final = "a silent turn may say again that it is in progress"
_MORE: Final = "a response may report more than one fault before it fails"
_EARLY: Final = "a fault may be reported before the item at hand is closed"
_BETWEEN: Final = "an answer to a steer may come between any two events of its response"
_BEHIND: Final = "no rule numbers what is sent about a response after its end"
_SUMMARY: Final = "the text may begin before the summary ends"

SURVIVORS: Final[dict[tuple[str, str, str], str]] = {
    ("*", "double", "response.in_progress"): _AGAIN,
    ("events-a-stream-error", "double", "error"): _MORE,
    ("a-response-that-fails", "double", "error"): _MORE,
    ("events-a-stream-error", "swap", "response.output_item.done"): _EARLY,
    ("a-response-that-fails", "swap", "response.output_item.done"): _EARLY,
    ("events-compaction", "double", "response.compaction.compacting"): "progress may be reported again",
    ("reasoning-and-an-answer", "swap", "response.reasoning_summary_part.done"): _SUMMARY,
    ("events-several-items", "swap", "response.reasoning_summary_part.done"): _SUMMARY,
    ("two-lanes-side-by-side", "swap", "response.output_item.done"): "two lanes keep no order",
    ("two-lanes-side-by-side", "swap", "response.completed"): "two lanes keep no order",
    ("steering-a-running-response", "rename", "response.steer.accepted"): "nothing names that steer again",
    ("steering-a-running-response", "swap", "response.steer.accepted"): _BETWEEN,
    ("steering-a-response-that-calls", "swap", "response.steer.accepted"): _BETWEEN,
    ("steering-a-response-that-fails", "swap", "response.steer.accepted"): _BETWEEN,
    ("steering-a-response-that-calls", "drop", "response.steer.pending"): _BEHIND,
    ("steering-a-response-that-calls", "skip a number from", "response.steer.pending"): _BEHIND,
    ("steering-a-response-that-fails", "drop", "response.steer.failed"): _BEHIND,
    ("steering-a-response-that-fails", "skip a number from", "response.steer.failed"): _BEHIND,
}
