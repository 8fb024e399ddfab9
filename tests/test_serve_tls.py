"""`serve --tls-cert --tls-key`: the same protocol over https and wss, and clear errors at the start."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import trio
from trio_websocket import open_websocket_url

SERVE = [sys.executable, "-m", "responses_ref", "serve", "--port", "0"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", "req", *made, *names], check=True, capture_output=True)
    return certificate, key


async def _numbers_of_a_turn(url: str, trusted: ssl.SSLContext) -> list[int]:
    create = {"type": "response.create", "model": "scripted", "input": "tokens: 20000"}
    numbers, kind = [], ""
    with trio.fail_after(60):
        async with open_websocket_url(url, ssl_context=trusted) as socket:
            await socket.send_message(json.dumps(create))
            while kind != "response.completed":
                event = json.loads(await socket.get_message())
                kind = event["type"]
                numbers.append(event["sequence_number"])
    return numbers


def test_a_turn_over_tls(pair: tuple[Path, Path]) -> None:
    """A turn over wss and one over https, both checked against the certificate; SIGTERM ends the server."""
    certificate, key = pair
    command = [*SERVE, "--tls-cert", str(certificate), "--tls-key", str(key)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        ready = re.fullmatch(r"serving (https://\S+/v1) (wss://\S+/v1/responses)\n", server.stdout.readline())
        assert ready is not None
        trusted = ssl.create_default_context(cafile=str(certificate))
        numbers = trio.run(_numbers_of_a_turn, ready[2], trusted)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > 20_000
        body = json.dumps({"model": "scripted", "input": "say: over https"}).encode()
        request = urllib.request.Request(ready[1] + "/responses", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, context=trusted, timeout=60) as answer:
            assert json.load(answer)["output"][0]["content"][0]["text"] == "over https"
        server.terminate()
        assert server.wait(60) == 0


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--tls-cert", "{certificate}"], "go together"),
        (["--tls-cert", "{certificate}", "--tls-key", "{certificate}"], "do not fit"),
        (["--tls-cert", "nowhere.pem", "--tls-key", "{key}"], "cannot be read"),
    ],
)
def test_what_does_not_fit(pair: tuple[Path, Path], flags: list[str], complaint: str) -> None:
    """Half a pair, a wrong key and a missing file are told in one line, with exit code 2."""
    certificate, key = pair
    command = SERVE + [flag.format(certificate=certificate, key=key) for flag in flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "responses_ref", "serve", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert (
        done.stderr
        == f"responses-ref serve: cannot listen on 127.0.0.1, port {port}: Address already in use\n"
    )
