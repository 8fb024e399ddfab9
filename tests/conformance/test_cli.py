"""The command line against servers on real sockets: clear verdicts, bounded time, exit codes."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
import trio
from servers import NULL_SERVERS, Good, Serve
from test_usage import usage

from conformance.cli import main
from conformance.report import write
from conformance.specdoc import load

PEM = Path(__file__).parent.parent / "server" / "localhost.pem"


@attrs.frozen
class Done:
    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        return self.out.strip().rpartition("\n")[2]


async def suite(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
    """Run the command line in a process of its own."""
    with trio.fail_after(100):
        done = await trio.run_process(
            [sys.executable, "-m", "conformance.cli", *arguments],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent), **(env or {})},
        )
    found = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in found.out + found.err
    return found


async def serve(nursery: trio.Nursery, handler: Serve, context: ssl.SSLContext | None = None) -> str:
    """A server of ours on a free port; gives its address."""

    async def one(stream: trio.abc.Stream) -> None:
        async with stream:
            try:
                await handler(stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                return

    if context is None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    else:
        listeners = await trio.open_ssl_over_tcp_listeners(
            0, context, host="127.0.0.1", https_compatible=True
        )
    nursery.start_soon(trio.serve_listeners, one, listeners)
    first = listeners[0]
    socket = first.transport_listener.socket if isinstance(first, trio.SSLListener) else first.socket
    return f"127.0.0.1:{socket.getsockname()[1]}"


async def against(handler: Serve, *arguments: str) -> Done:
    async with trio.open_nursery() as nursery:
        address = await serve(nursery, handler)
        done = await suite("run", f"ws://{address}/v1/responses", *arguments)
        nursery.cancel_scope.cancel()
    return done


async def test_a_good_server_passes_and_the_last_line_is_the_sum() -> None:
    done = await against(Good().serve, "-k", "RWS-SEQ-00[23]")
    assert (done.code, done.last) == (0, "2 passed, 0 failed, 0 could not run, 2 required"), done.out


async def test_a_broken_server_fails_by_name() -> None:
    broken = Good(
        change=lambda events: [{**one, "sequence_number": 2 * place} for place, one in enumerate(events)]
    )
    done = await against(broken.serve, "-k", "RWS-SEQ-00[23]")
    assert done.code == 1
    assert "fail           RWS-SEQ-002" in done.out
    assert done.last == "1 passed, 1 failed, 0 could not run, 2 required"


STAGES = {
    "silent": "nothing came within",
    "drop": "the handshake failed",
    "drop_after_handshake": "the connection ended first",
    "drop_after_message": "the connection ended first",
    "garbage": "no HTTP answer",
    "hang": "no answer to the handshake within",
    "refuse": "the handshake was answered with 401",
}


async def test_a_server_that_fails_at_some_stage_gets_a_clear_verdict() -> None:
    found: dict[str, Done] = {}

    async def one(name: str) -> None:
        found[name] = await against(NULL_SERVERS[name], "-k", "RWS-SEQ-00[23]")

    async with trio.open_nursery() as nursery:
        for name in STAGES:
            nursery.start_soon(one, name)
    for name, words in STAGES.items():
        assert words in found[name].out
        assert (found[name].code, found[name].last) == (3, "0 passed, 0 failed, 2 could not run, 2 required")


async def test_nobody_there() -> None:
    done = await suite("run", "ws://127.0.0.1:9/v1/responses", "-k", "RWS-SEQ-002")
    assert done.code == 3
    assert "no connection to 127.0.0.1:9: connection refused" in done.out


async def test_tls_that_is_not_trusted_and_tls_that_is() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(PEM)
    async with trio.open_nursery() as nursery:
        address = await serve(nursery, Good().serve, context)
        url = f"wss://localhost:{address.rpartition(':')[2]}/v1/responses"
        distrusted = await suite("run", url, "-k", "RWS-SEQ-002")
        trusted = await suite("run", url, "-k", "RWS-SEQ-002", env={"SSL_CERT_FILE": str(PEM)})
        nursery.cancel_scope.cancel()
    assert distrusted.code == 3
    assert "no TLS with localhost" in distrusted.out
    assert "SSL_CERT_FILE names a file of certificates" in distrusted.out
    assert trusted.code == 0, trusted.out


async def test_tls_where_plain_text_is_asked_for() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(PEM)
    async with trio.open_nursery() as nursery:
        done = await suite("run", f"ws://{await serve(nursery, Good().serve, context)}", "-k", "RWS-SEQ-002")
        nursery.cancel_scope.cancel()
    assert done.code == 3
    assert "no HTTP answer (the connection ended)" in done.out
    assert "role=" not in done.out


async def test_a_server_that_was_started_a_moment_ago() -> None:
    """It does not listen yet when the first connection is tried."""
    found: list[Done] = []
    async with trio.open_nursery() as nursery:
        spare = socket.socket()
        spare.bind(("127.0.0.1", 0))
        port = spare.getsockname()[1]

        async def judge() -> None:
            found.append(await suite("run", f"ws://127.0.0.1:{port}", "-k", "RWS-SEQ-002"))
            nursery.cancel_scope.cancel()

        nursery.start_soon(judge)
        await trio.sleep(2)
        spare.close()
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        await trio.serve_listeners(Good().serve, listeners)
    assert found[0].code == 0, found[0].out


async def test_a_run_that_leaves_nothing_to_judge_says_so() -> None:
    done = await against(Good().serve, "-k", "RWS-SIM-001", "--model", "gpt-x")
    assert done.code == 3
    assert done.last.startswith("-k leaves nothing that is required of this target (1 clause: ")


async def test_without_a_report_nobody_is_sent_to_it() -> None:
    done = await suite("run", "ws://127.0.0.1:9")
    assert "more: use --report DIR to see them" in done.out
    assert "in the report" not in done.out


def test_looking_whether_a_file_can_be_written_leaves_no_trace(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("as it was")
    write.try_file(old)
    write.try_file(new)
    assert (old.read_text(), new.exists()) == ("as it was", False)


def test_an_output_without_space_is_told_in_one_line() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "conformance.cli", "list", "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    told = "responses-conformance: standard output: No space left on device\n"
    assert (done.returncode, done.stderr.decode()) == (2, told)


async def test_plain_text_where_tls_is_spoken() -> None:
    async with trio.open_nursery() as nursery:
        address = await serve(nursery, NULL_SERVERS["garbage"])
        done = await suite("run", f"wss://{address}", "-k", "RWS-SEQ-002")
        nursery.cancel_scope.cancel()
    assert done.code == 3
    assert "no TLS with 127.0.0.1" in done.out


async def test_a_configuration_of_a_foreign_server_comes_from_the_features_file(tmp_path: Path) -> None:
    """``lifetime=2`` is offered at a URL of its own, ``idle=1`` is not offered at all."""
    async with trio.open_nursery() as nursery:
        url, file = f"ws://{await serve(nursery, Good().serve)}", tmp_path / "f.toml"
        file.write_text(f'profiles = ["core"]\n[configs."lifetime=2"]\nurl = "{url}"\n')
        done = await suite("run", url, "--features", str(file), "-k", "RWS-LIM-00[12]", "--json")
        nursery.cancel_scope.cancel()
    reasons = " ".join(one["reason"] for one in json.loads(done.out)["cases"])
    assert "configuration lifetime=2" not in reasons
    assert done.code in (1, 3)


async def test_a_real_model_is_asked_by_its_name_and_needs_no_script() -> None:
    seen: list[str] = []

    class Named(Good):
        def turn(self, message: dict[str, object]) -> list[dict[str, object]]:
            seen.append(str(message["model"]))
            return super().turn(message)

    done = await against(Named().serve, "-k", "RWS-SEQ-00[23]", "--model", "gpt-x")
    assert set(seen) == {"gpt-x"}
    assert "not-exercised  RWS-SEQ-002" not in done.out or done.code == 3


async def test_judge_reads_a_recording_and_names_lines(tmp_path: Path) -> None:
    lines = [
        {"kind": "meta", "trace_version": 1},
        {"t": 0, "conn": 1, "dir": "c2s", "kind": "text", "text": '{"type":"response.create"}'},
        {"t": 0, "conn": 1, "dir": "s2c", "frame": {"type": "response.done", "response": {"id": "r"}}},
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in lines) + "\nnonsense\n")
    done = await suite("judge", str(path))
    assert done.code == 1
    assert "line 3: RWS-ORD-005 [1]: response.done was sent" in done.out
    assert "line 4: not a record: not JSON" in done.out
    data = json.loads((await suite("judge", str(path), "--json")).out)
    assert data["unreadable"][0]["line"] == 4
    assert "RWS-ORD-005" in data["broken"]


BARE = {"conn": 1, "dir": "s2c", "frame": {"type": "response.created", "response": {"id": "r"}}}
DONE = {"conn": 1, "dir": "s2c", "frame": {"type": "response.done", "response": {"id": "r"}}}


def recording(path: Path, **meta: object) -> str:
    create = {"conn": 1, "dir": "c2s", "frame": {"type": "response.create"}}
    lines = [{"kind": "meta", **meta}, create, BARE, DONE]
    path.write_text("\n".join(json.dumps(one) for one in lines))
    return str(path)


def judged(capsys: pytest.CaptureFixture[str], *arguments: str) -> Done:
    with pytest.raises(SystemExit) as left:
        main(["judge", *arguments])
    out = capsys.readouterr()
    return Done(int(str(left.value.code)), out.out, out.err)


def test_judge_looks_at_what_the_recording_claims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """OPENRESPONSES does not apply to one that claims CORE; REFERENCE warns at most."""
    core = judged(capsys, recording(tmp_path / "core", profiles=["core"]))
    more = judged(capsys, recording(tmp_path / "more", profiles=["core", "openresponses"]))
    profiles = {one.id: one.profile for one in load().clauses.values()}

    def named(done: Done) -> set[str]:
        return {profiles[one] for one in re.findall(r"RWS-[A-Z]+-\d+(?= broken)", done.out)}

    assert (core.code, named(core) <= {"CORE", "REFERENCE"}) == (1, True)
    assert "OPENRESPONSES" in named(more)
    assert re.fullmatch(r"3 records: \d+ held, \d+ broken, \d+ warnings", core.last)
    counted = [line for line in core.out.splitlines() if " broken " in line]
    broken, warnings = map(int, re.findall(r"(\d+) (?:broken|warnings)", core.last))
    assert broken + warnings == len(counted)


def test_judge_reads_several_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [recording(tmp_path / name) for name in ("one", "two")]
    done = judged(capsys, *names)
    assert all(f"{name}:4: RWS-ORD-005 [1]: " in done.out for name in names)
    assert done.last.startswith("6 records: ")
    files = json.loads(judged(capsys, "--json", *names).out)["files"]
    assert [one["file"] for one in files] == names


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"trace_version": 2}, "trace_version 2 is not known, only 1"),
        ({"profiles": ["core", "lane"]}, "no such profile: lane"),
        ({"profiles": "core"}, "profiles must be a list"),
    ],
)
def test_judge_refuses_a_recording_that_it_does_not_understand(
    meta: dict[str, object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = recording(tmp_path / "trace", **meta)
    assert f"{name}:1: {words}" in usage(["judge", name], capsys)


async def test_list() -> None:
    done = await suite("list", "--json")
    rows = json.loads(done.out)["clauses"]
    assert done.code == 0
    assert {"id", "text", "cases", "invariants", "testable"} <= rows[0].keys()
    assert f"{len(rows)} clauses" in (await suite("list")).last
    assert (await suite("list", "-k", "RWS-SEQ-00[23]")).last.startswith("2 clauses, ")


async def test_two_servers_are_compared() -> None:
    other = Good(change=lambda events: [{**one, "extra": 1} for one in events])
    async with trio.open_nursery() as nursery:
        first, same, second = [f"ws://{await serve(nursery, one.serve)}" for one in (Good(), Good(), other)]
        alike = await diff_first(first, same)
        differing = await diff_first(first, second)
        nursery.cancel_scope.cancel()
    assert alike == []
    assert any('+a {"extra": 1' in line for line in differing)


async def diff_first(a: str, b: str) -> list[str]:
    """The difference in one plain case; the command itself would play all of them."""
    from conformance.diff import compare
    from conformance.suite import PLAIN_TURN
    from conformance.target import TcpTarget

    found = await compare(PLAIN_TURN, TcpTarget.of(a), TcpTarget.of(b))
    return list(found.lines) if found else []
