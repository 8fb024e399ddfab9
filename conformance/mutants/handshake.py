"""Mutants of HS: what an upgrade request may carry, and how it is answered."""

from __future__ import annotations

from typing import Any

import attrs

from conformance.mutants.harness import mutant, server_mutant
from conformance.mutants.middle import Answer, Head
from responses_ref.server.accept import Server

Memory = dict[str, Any]


def upgrades(head: Head) -> bool:
    return "websocket" in (head.get("upgrade") or "").lower()


def lead_nowhere(head: Head) -> None:
    """Let the server refuse the request, as one for a path that it does not have."""
    head.path = "/v1/nowhere"


@mutant("RWS-HS-001", on="answer")
def accepts_with_the_wrong_digest(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 101:
        answer.set("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")


@mutant("RWS-HS-002", on="head")
def wants_the_key_in_the_query(head: Head, memory: Memory) -> None:
    if upgrades(head) and "api_key=" not in head.path:
        head.headers = [pair for pair in head.headers if pair[0] != "Authorization"]


@mutant("RWS-HS-003", on="answer")
def calls_a_wrong_key_forbidden(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 401:
        answer.status = 403


@mutant("RWS-HS-004", on="answer")
def refuses_in_plain_text(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 401 and upgrades(head):
        answer.body = b"Unauthorized"
        answer.set("content-type", "text/plain")


@mutant("RWS-HS-005", on="answer")
def asks_for_no_bearer(answer: Answer, memory: Memory, head: Head) -> None:
    answer.set("WWW-Authenticate", None)


@mutant("RWS-HS-007", on="head")
def refuses_query_parameters(head: Head, memory: Memory) -> None:
    if upgrades(head) and "?" in head.path:
        lead_nowhere(head)


@mutant("RWS-HS-008", on="head")
def refuses_a_content_type(head: Head, memory: Memory) -> None:
    if upgrades(head) and head.get("content-type"):
        lead_nowhere(head)


@mutant("RWS-HS-009", on="head")
def refuses_the_beta_header(head: Head, memory: Memory) -> None:
    if head.get("openai-beta"):
        lead_nowhere(head)


@mutant("RWS-HS-010", on="answer")
def picks_a_subprotocol_of_its_own(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 101:
        answer.set("Sec-WebSocket-Protocol", "responses.v1")


@mutant("RWS-HS-012", on="answer")
def compresses_unasked(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 101 and not head.get("sec-websocket-extensions"):
        answer.set("Sec-WebSocket-Extensions", "permessage-deflate")


@mutant("RWS-HS-013", on="answer")
def compresses_when_asked(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 101 and head.get("sec-websocket-extensions"):
        answer.set("Sec-WebSocket-Extensions", "permessage-deflate")


@mutant("RWS-HS-014", on="answer")
def redirects_to_another_origin(answer: Answer, memory: Memory, head: Head) -> None:
    if upgrades(head) and head.path.endswith("/"):
        answer.status = 307
        answer.set("Location", "https://elsewhere.example/v1/responses")


@mutant("RWS-HS-015", on="answer")
def answers_a_plain_get_with_200(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 426 and not upgrades(head):
        answer.status = 200


@mutant("RWS-HS-016", on="answer")
def calls_a_plain_get_bad(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 426 and not upgrades(head):
        answer.status = 400


@mutant("RWS-HS-017", on="answer")
def keeps_its_version_to_itself(answer: Answer, memory: Memory, head: Head) -> None:
    if head.get("sec-websocket-version") == "8":
        answer.set("Sec-WebSocket-Version", None)


@mutant("RWS-HS-018", on="answer")
def calls_a_missing_key_no_websocket(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 400 and upgrades(head):
        answer.status = 426


@mutant("RWS-HS-025", on="head")
def knows_one_path_only(head: Head, memory: Memory) -> None:
    if upgrades(head) and not head.path.startswith("/v1/responses"):
        lead_nowhere(head)


@mutant("RWS-HS-026", on="head")
def upgrades_any_method(head: Head, memory: Memory) -> None:
    if upgrades(head):
        head.method = "GET"


@mutant("RWS-HS-027", on="answer")
def calls_what_is_not_http_not_found(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 400 and not head.path:
        answer.status = 404


@mutant("RWS-HS-027", on="answer")
def calls_a_large_head_bad(answer: Answer, memory: Memory, head: Head) -> None:
    if answer.status == 431:
        answer.status = 400


class _DiesOfNonsense(Server):
    """One malformed request takes all connections along."""

    __slots__ = ()

    async def _answer(self, http: Any, respond: Any) -> Any:
        before = self.stats.refused
        upgraded = await super()._answer(http, respond)
        for peer in list(self._peers) if self.stats.refused > before else ():
            peer.link.abort()
        return upgraded


@server_mutant("RWS-HS-029")
def dies_of_nonsense(server: Server) -> None:
    server.__class__ = _DiesOfNonsense


@server_mutant("RWS-HS-030")
def waits_for_a_head_for_ever(server: Server) -> None:
    server.limits = attrs.evolve(server.limits, handshake_seconds=1e9)
