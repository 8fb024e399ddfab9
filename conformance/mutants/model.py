"""Mutants of SIM: a model that does not do what its script says. Most of them read another script."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from conformance.mutants.harness import core_mutant, middle_mutant, mutant
from conformance.mutants.middle import Out
from conformance.mutants.tools import Deaf, is_create, lifecycle, of_type, rewritten, spoiled
from responses_ref.protocol.connection import Connection
from responses_ref.protocol.settings import Settings

Json = dict[str, Any]

# clause, name, what the script says, what the model reads instead
MISREAD = (
    ("RWS-SIM-001", "the_newest_script_is_not_seen", "say: new", "Say new."),
    ("RWS-SIM-002", "unknown_verbs_are_skipped", "say: la\nsing: la", "say: la"),
    ("RWS-SIM-003", "waits_for_any_time", "every: 601", "every: 1"),
    ("RWS-SIM-004", "lines_are_joined_by_spaces", "say: It is\nsay: red.", "say: It is red."),
    ("RWS-SIM-005", "one_call_a_response", "call: a {}\ncustom: b now\n", "call: a {}\n"),
    ("RWS-SIM-006", "next_parts_nothing", "custom: b now\nnext:\n", "custom: b now\n"),
    ("RWS-SIM-009", "thinks_less", "think: a while\nthink: longer", "think: a while"),
    ("RWS-SIM-010", "says_instead_of_refusing", "refuse: no", "say: no"),
    ("RWS-SIM-011", "a_token_too_few", "tokens: 5", "tokens: 4"),
    ("RWS-SIM-012", "makes_no_pause", "pause: 0.5\n", ""),
    ("RWS-SIM-013", "keeps_no_distance", "every: 0.4\n", ""),
    ("RWS-SIM-014", "fails_with_one_code", "fail: rate_limit_exceeded", "fail: server_error"),
    ("RWS-SIM-015", "errs_with_another_text", "out of paper", "out of ink"),
    ("RWS-SIM-016", "ends_early_for_one_reason", "incomplete: content_filter", "incomplete: max_messages"),
    ("RWS-SIM-017", "rejects_with_another_status", "reject: 503", "reject: 500"),
    ("RWS-SIM-018", "compacts_nothing", "compact:\n", ""),
    ("RWS-SIM-024", "cuts_elsewhere", "Responsibility", "Re sponsibility"),
    ("RWS-SIM-040", "overlooks_capital_letters", "FROBNICATE", "FR0BNICATE"),
    ("RWS-SIM-051", "says_other_words", "tokens: 4", "tokens: 3"),
)


def _misreads(old: str, new: str) -> Callable[[Any, Json], Iterable[Out]]:
    def read(message: Any, memory: Json) -> Iterable[Out]:
        yield rewritten(message, old, new) if is_create(message) else message

    return read


for _clause, _name, _old, _new in MISREAD:
    _reader = _misreads(_old, _new)
    _reader.__name__ = _name
    mutant(_clause, on="request")(_reader)


def _answers(message: Any, output: str) -> bool:
    return any(item["output"] == output for item in of_type(message, "function_call_output"))


def _told(message: Json, script: str) -> Json:
    return {**message, "input": [*message["input"], {"role": "user", "content": script}]}


@mutant("RWS-SIM-007", on="request")
def loses_its_place(message: Any, memory: Json) -> Iterable[Out]:
    lost = _answers(message, "red") and "tools" not in message
    yield _told(message, "say: Where was I?") if lost else message


@mutant("RWS-SIM-008", on="request")
def says_it_once_more(message: Any, memory: Json) -> Iterable[Out]:
    again = is_create(message) and message["input"] == "And now?"
    yield {**message, "input": "say: once"} if again else message


@mutant("RWS-SIM-019", on="request")
def is_short_of_words(message: Any, memory: Json) -> Iterable[Out]:
    yield _told(message, "say: Red.") if _answers(message, "red") and "tools" in message else message


@mutant("RWS-SIM-020", on="request")
def calls_no_tool_by_itself(message: Any, memory: Json) -> Iterable[Out]:
    asked = is_create(message) and message["input"] == "What is it?"
    yield {**message, "tool_choice": "none"} if asked else message


@middle_mutant("RWS-SIM-021")
class MakesOtherArguments(Deaf):
    wish = "tools"

    def other(self, message: Json) -> None:
        for tool in message["tools"]:
            for schema in tool.get("parameters", {}).get("properties", {}).values():
                schema.pop("const", None)


@middle_mutant("RWS-SIM-022")
class FollowsTheScriptOnly(Deaf):
    def other(self, message: Json) -> None:
        if isinstance(message["tool_choice"], dict):
            del message["tool_choice"]


@mutant("RWS-SIM-023", on="request")
def forgets_the_other_calls(message: Any, memory: Json) -> Iterable[Out]:
    goes_on = is_create(message) and message.get("previous_response_id")
    lost = goes_on and message.get("parallel_tool_calls") is False
    yield _told(message, "say: Done.") if lost else message


@mutant("RWS-SIM-025", on="request")
def a_token_beyond_the_limit(message: Any, memory: Json) -> Iterable[Out]:
    if is_create(message) and message.get("max_output_tokens") == 3:
        message["max_output_tokens"] = 4
    yield message


@mutant("RWS-SIM-030", on="request")
def serves_one_model(message: Any, memory: Json) -> Iterable[Out]:
    yield spoiled(message) if is_create(message) and message["model"] != "scripted" else message


class _OnlyTheList(Settings):
    __slots__ = ()

    def serves(self, model: str) -> bool:
        return not self.models or model in self.models


@core_mutant("RWS-SIM-030")
def serves_nothing_beyond_the_list(core: Connection) -> None:
    core.settings = _OnlyTheList(**attrs.asdict(core.settings, recurse=False))


@mutant("RWS-SIM-050")
def another_time(event: Json, memory: Json) -> Iterable[Out]:
    if resource := lifecycle(event):
        resource["created_at"] += 1
    yield event
