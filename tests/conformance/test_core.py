"""``run --core``: a port without a socket passes, one that breaks a rule fails by name.

One that breaks the line protocol gets a clear verdict, in bounded time.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
import trio
from port import WAYS
from servers import spec
from test_cli import suite

from conformance import core, coreport
from conformance.cli import main
from conformance.corestream import CoreStream
from conformance.offer import Features, Unavailable
from conformance.suite import Run, Suite
from conformance.target import Gone, UsageError
from conformance.verdict import Result, Selection, exit_code, judge_all

PORT = Path(__file__).parent / "port.py"
PROFILES = frozenset(("CORE",))
SECONDS = 100


def offer(nursery: trio.Nursery, *command: str) -> core.Core:
    return core.Core(command, Features(), nursery)


async def run(command: tuple[str, ...], *cases: str) -> Run:
    """Play these cases with a port."""
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            suite = Suite(spec(), offer(nursery, *command), Selection(profiles=PROFILES))
            made = await suite.play([spec().cases[name] for name in cases])
            nursery.cancel_scope.cancel()
    return made


async def play(command: tuple[str, ...], *cases: str) -> dict[str, Result]:
    """The verdicts by clause, after these cases."""
    made = await run(command, *cases)
    beyond = core.beyond(spec(), made.ledger, PROFILES)
    results = judge_all(spec(), made.ledger, Selection(profiles=PROFILES, beyond=beyond))
    return {result.clause.id: result for result in results}


def broken(way: str) -> tuple[str, ...]:
    return (sys.executable, str(PORT), way)


async def test_the_oracle_of_the_reference_passes_all_that_needs_no_socket(tmp_path: Path) -> None:
    command = shlex.join((sys.executable, "-m", "responses_ref", "oracle"))
    profiles = "core,warm,lanes,steer,openresponses,reference,http"
    options = ["--profiles", profiles, "--jobs", "4", "--report", str(tmp_path)]
    done = await suite("run", "--core", command, *options)
    assert done.code == 0, done.out
    clauses = json.loads((tmp_path / "report.json").read_text())["clauses"]
    left_out = [one["id"] for one in clauses if one["reason"] == core.NO_SOCKET]
    assert {name.split("-")[1] for name in left_out} >= {"HS", "FRM", "HTTP", "CLS", "LIM"}
    passed = [one["id"] for one in clauses if one["verdict"] == "pass"]
    assert len(passed) > 200
    assert not any(name.startswith(("RWS-HS-", "RWS-HTTP-")) for name in passed)
    assert {"RWS-SEQ-002", "RWS-CTX-001", "RWS-FRM-001", "RWS-LAN-001", "RWS-STR-001"} <= set(passed)
    reason = f"{len(left_out)}: a core has no socket"
    assert f"not applicable {reason}" in done.out
    assert f"| not applicable | {reason} |" in (tmp_path / "report.md").read_text()


async def test_a_port_that_does_not_number_fails_by_name() -> None:
    results = await play(broken("unnumbered"), "a-whole-turn", "numbers-start-again")
    assert [name for name, one in results.items() if one.verdict == "fail"] == ["RWS-SEQ-001"]
    assert exit_code(list(results.values())) == 1


# What a port does wrong -> what the report says of it.
SAYS = {
    "forgetful": "nothing that matches came within",
    "dies": "the core ended with exit code 1: panic: index out of range",
    "hangs": "the core did not end its answer with a `deadline` within 2 s, asked {",
    "babbles": "the core wrote a line that is no answer: now answering",
    "endless": "the core wrote a line that is no answer: {",
    "stuck": "the core names the deadline 0.0 after it has been told that it is 0.0",
    "refuses": "the core refuses a line: not implemented",
    "elsewhere": "the core speaks on the connection 'nobody', which is not open",
    "hangs_up": "the connection ended first (Close 1011 'enough')",
}


async def test_a_port_that_breaks_the_line_protocol_gets_a_clear_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coreport, "ANSWER_SECONDS", 2.0)
    found: dict[str, dict[str, Result]] = {}
    places = trio.Semaphore(3)  # each is a Python that has to start

    async def one(way: str) -> None:
        async with places:
            found[way] = await play(broken(way), "a-whole-turn")

    async with trio.open_nursery() as nursery:
        for way in SAYS:
            nursery.start_soon(one, way)
    for way, words in SAYS.items():
        result = found[way]["RWS-ORD-001"]
        assert words in result.reason, (way, result.reason)
        assert result.verdict == "could-not-run"
        assert exit_code(list(found[way].values())) in (1, 3)
    assert set(SAYS) | {"unnumbered", "never_done"} == set(WAYS)


async def test_a_port_that_never_says_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coreport, "START_SECONDS", 1.0)
    results = await play(broken("never_done"), "a-whole-turn")
    words = 'the core did not end its answer with a `deadline` within 1 s, asked {"do": "advance", "to": 0.0}'
    assert results["RWS-ORD-001"].reason == words
    assert exit_code(list(results.values())) == 3


async def test_a_command_that_is_none() -> None:
    results = await play(("/no/such/port",), "a-whole-turn")
    assert results["RWS-ORD-001"].reason == "the core does not start: no such file or directory"
    assert exit_code(list(results.values())) == 3


async def test_a_port_is_started_anew_for_the_next_case_until_there_is_no_more_hope(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core, "MAX_FALLEN", 3)
    cases = ("a-whole-turn", "numbers-start-again", "a-refusal")
    made = await run(broken("dies"), *cases)
    assert [made.cases[name].state for name in cases] == ["broken-off", "broken-off", "skipped"]
    assert "the core ended with exit code 1" in made.cases["numbers-start-again"].reason
    assert made.cases["a-refusal"].reason.startswith("given up after 3 starts: the core ended with exit code")


async def test_a_port_that_ends_at_once_is_not_tried_again() -> None:
    results = await play(("true",), "a-whole-turn", "numbers-start-again")
    for name in ("RWS-ORD-001", "RWS-SEQ-002"):
        assert results[name].reason == "the core ended with exit code 0"


async def test_a_process_ends_with_the_run() -> None:
    async with trio.open_nursery() as nursery:
        target = await offer(nursery, *broken("hangs")).target(())
        process = target.port.process
        nursery.cancel_scope.cancel()
    assert process.returncode is not None


async def test_a_core_has_one_configuration() -> None:
    async with trio.open_nursery() as nursery:
        with pytest.raises(Unavailable, match="no socket"):
            await offer(nursery, "true").target(("lifetime=2",))


def test_cases_about_bytes_configurations_and_http_need_a_socket() -> None:
    names = {name for name, case in spec().cases.items() if core.needs_socket(case, PROFILES)}
    assert {"a-handshake", "a-message-in-pieces", "the-end-of-a-connection", "a-response-over-http"} <= names
    assert {"a-whole-turn", "open-after-every-end", "without-lanes"} & names == set()
    assert core.needs_socket(spec().cases["without-lanes"], PROFILES | {"LANES"})


@pytest.mark.parametrize("text", ["", "  ", "'unclosed"])
def test_what_is_no_command(text: str) -> None:
    with pytest.raises(UsageError, match="--core"):
        core.command_of(text)


@pytest.mark.parametrize("other", [["ws://x"], ["--api-key-env", "PATH"]])
def test_a_core_is_judged_alone(other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["run", "--core", "true", *other])
    assert left.value.code == 2
    assert "exclude each other" in capsys.readouterr().err


def test_a_command_is_split_as_a_shell_would() -> None:
    assert core.command_of("./port --name 'a b'") == ("./port", "--name", "a b")


async def test_what_goes_wrong_behind_a_stream_is_told_after_what_came_before_it(
    autojump_clock: trio.abc.Clock,
) -> None:
    said: list[str] = []
    stream = CoreStream("c1", lambda what, **_: said.append(what))
    await stream.send_all(
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    stream.end("the core is tired")
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 101")
    with pytest.raises(Gone, match="tired"):
        await stream.receive_some()
    await stream.aclose()
    assert said == ["open", "peer_closed"]
