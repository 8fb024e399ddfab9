"""What the command line cannot understand: one line that says so, and exit code 2."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.offer import Features
from conformance.report.data import build
from conformance.suite import Run

USAGE: list[tuple[list[str], str]] = [
    (["run", "ftp://x"], "is no ws:// or wss:// URL"),
    (["run", "ws://[::1"], "'ws://[::1' is no URL: Invalid IPv6 URL"),
    (["diff", "ws://[::1", "ws://x"], "'ws://[::1' is no URL"),
    (["run", "ws://x", "-k", "no-such-*"], "names no clause and no case"),
    (["run", "ws://x", "--profiles", "core,nonsense"], "no such profile: nonsense"),
    (["run", "ws://x", "--api-key-env", "NO_SUCH_VARIABLE"], "is empty or not set"),
    (["run", "ws://x", "--features", "/no/such/file"], "No such file"),
    (["run", "ws://x", "--known-failures", "/no/such/file"], "No such file"),
    (["run", "ws://x", "--jobs", "0"], "--jobs needs a number from 1"),
    (["run", "--model", "x"], "--model needs a URL"),
    (["judge", "/no/such/file"], "No such file"),
    (["list", "-k", "no-such-*"], "names no clause and no case"),
    # What cannot be written is said before anything else happens: nobody listens at this address.
    (["run", "ws://127.0.0.1:9", "--report", "/proc/x"], "/proc/x: cannot be written"),
    (["run", "ws://127.0.0.1:9", "--junit", "/proc/x"], "/proc/x: cannot be written"),
    (["export", "/proc/x"], "/proc/x: cannot be written"),
    (["matrix", "/no/such/file", "-o", "x"], "No such file"),
    (["nonsense"], "invalid choice"),
    ([], "required"),
]


def usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "words"), USAGE)
def test_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in usage(arguments, capsys)


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        (
            "profile = ['core']",
            "unknown key 'profile' (there are profiles, model, scripted, limits, configs)",
        ),
        ("profiles = 'core'", "profiles must be a list"),
        ("profiles = ['x']", "no such profile: x"),
        ("[limits]\nlifetime = 'x'", "limits.lifetime must be a number"),
        ("[limits]\na = 1\nb = true", "limits.b must be a number"),
        ("[limits]\na = 1979-05-27", "limits.a must be a number"),
        ("[limits]\na = nan", "limits.a must be a number"),
        ("[limits]\na = [1]", "limits.a must be a number"),
        ("[configs.a]\nurl = 'ws://[::1'", "is no URL"),
        ("[configs.a]\nport = 1", "configs.a needs a url"),
        (
            "[configs.a]\nurl = 'ws://x'\nkey = 'k'",
            "unknown key 'configs.a.key' (there are url, api_key_env)",
        ),
        ("[configs.a]\nurl = 1", "configs.a.url must be a str"),
        ("[configs.a]\nurl = 'ftp://x'", "is no ws:// or wss:// URL"),
        ("[configs.stoppable]\nurl = 'ws://x'", "cannot be stopped from here"),
        ("x =", "features.toml: "),
    ],
)
def test_a_features_file_that_cannot_be_understood(
    toml: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "features.toml"
    file.write_text(toml)
    assert words in usage(["run", "ws://x", "--features", str(file)], capsys)


def test_a_page_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps(build([], Run(), Features(), "x", frozenset())))
    assert "cannot be written" in usage(["matrix", str(report), "-o", "/nope/x.html"], capsys)


def test_ctrl_c_is_no_failure_of_anybody() -> None:
    """It comes while a server that has accepted says nothing: exit code 130, and no word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ws://127.0.0.1:{silent.getsockname()[1]}/v1/responses"
        process = subprocess.Popen(
            [sys.executable, "-m", "conformance.cli", "run", url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        accepted, _ = silent.accept()
        with accepted:
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (130, "")
