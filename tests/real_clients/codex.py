"""Releases of a real coding agent, installed by version and run against the server.

Each release is a package of the npm registry with a binary inside.  It runs with
an environment of its own, in a folder of its own, and with every proxy set to a
port where nobody listens, so that nothing but the server can be reached.

    python tests/real_clients/codex.py           every release of the table
    python tests/real_clients/codex.py 0.106.0   those whose name begins so
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).parent.parent))

import process

PACKAGE = "@openai/codex"
INSTALL_SECONDS = 300
TURN_SECONDS = 120
DEAD_PROXY = "http://127.0.0.1:9"
SCRIPT = "call: {tool} {first}\nnext:\ncall: {tool} {second}\nsay: all done"


@attrs.frozen
class Release:
    """One way to run one release. ``sends``: the client event that carries tool outputs."""

    name: str
    package: str
    sends: str
    feature: str = ""
    wire_api: str = "responses"
    binary: str = "codex/codex"
    tool: str = "shell"
    serve: tuple[str, ...] = ()
    items_again: bool = False  # sends the model's own call items back with their outputs


APPEND = ("--dialect", "append")
RELEASES = (
    Release("0.89.0", "0.89.0", "response.append", "", "responses_websocket", serve=APPEND, items_again=True),
    Release(
        "0.99.0 v1",
        "0.99.0-linux-x64",
        "response.append",
        "responses_websockets",
        serve=APPEND,
        items_again=True,
    ),
    Release("0.99.0 v2", "0.99.0-linux-x64", "response.create", "responses_websockets_v2", items_again=True),
    Release("0.106.0 v1", "0.106.0-linux-x64", "response.append", "responses_websockets", serve=APPEND),
    Release("0.106.0 v1, by its header", "0.106.0-linux-x64", "response.append", "responses_websockets"),
    Release("0.106.0 v2", "0.106.0-linux-x64", "response.create", "responses_websockets_v2"),
    Release("0.171.0", "0.171.0-linux-x64", "response.create", binary="bin/codex", tool="exec_command"),
)


@attrs.frozen
class Outcome:
    """What a run left behind: the client's own events, and the frames of both sides."""

    code: int
    client: list[dict[str, object]]
    frames: list[tuple[str, dict[str, object]]]

    def sent(self, kind: str) -> list[dict[str, object]]:
        return [event for direction, event in self.frames if direction == "c2s" and event["type"] == kind]

    def finished(self) -> bool:
        """Whether both tools ran and the last message came through."""
        items = [event.get("item") for event in self.client if event.get("type") == "item.completed"]
        outputs = [item.get("aggregated_output") for item in items if isinstance(item, dict)]
        texts = [item.get("text") for item in items if isinstance(item, dict)]
        return self.code == 0 and {"first\n", "second\n"} <= set(outputs) and texts[-1] == "all done"


def install(release: Release, cache: Path) -> Path:
    """The release's binary, taken from the registry unless the cache has it."""
    folder = cache / release.package
    binary = folder / "package/vendor/x86_64-unknown-linux-musl" / release.binary
    if not binary.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", f"{PACKAGE}@{release.package}"]
        packed = subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
        archive = folder / packed.stdout.split()[-1]
        with tarfile.open(archive) as tar:
            members = [member for member in tar if "x86_64-unknown-linux-musl" in member.name]
            tar.extractall(folder, members, filter="data")
        archive.unlink()
        binary.chmod(0o755)
    return binary


def _config(release: Release, server: process.Server) -> str:
    websockets = "" if release.wire_api == "responses_websocket" else "supports_websockets = true"
    return f"""
model = "gpt-5.5"
model_provider = "reference"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.reference]
name = "reference"
base_url = "{server.http}"
wire_api = "{release.wire_api}"
{websockets}
requires_openai_auth = false
env_key = "REFERENCE_KEY"
request_max_retries = 0
stream_max_retries = 0
[features]
{release.feature + " = true" if release.feature else ""}
"""


def _prompt(release: Release) -> str:
    def arguments(word: str) -> str:
        shell = {"command": ["echo", word]}
        return json.dumps(shell if release.tool == "shell" else {"cmd": f"echo {word}"})

    return SCRIPT.format(tool=release.tool, first=arguments("first"), second=arguments("second"))


def run(release: Release, binary: Path, folder: Path) -> Outcome:
    """One tool loop of the release against a server of its own."""
    server = process.start(folder / "server", *release.serve)
    try:
        home, work = folder / "home", folder / "work"
        home.mkdir()
        work.mkdir()
        (home / "config.toml").write_text(_config(release, server))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CODEX_HOME": str(home),
            "REFERENCE_KEY": "none",
            "HTTPS_PROXY": DEAD_PROXY,
            "ALL_PROXY": DEAD_PROXY,
            "NO_PROXY": "127.0.0.1",
        }
        done = subprocess.run(
            [binary, "exec", "--skip-git-repo-check", "--json", _prompt(release)],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TURN_SECONDS,
        )
    finally:
        server.stop()
    client = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Outcome(done.returncode, client, list(_frames(server.traces)))


def _frames(traces: Path) -> Iterator[tuple[str, dict[str, object]]]:
    for path in sorted(traces.glob("*.jsonl")):
        for line in map(json.loads, path.read_text().splitlines()):
            if line["kind"] == "text":
                yield line["dir"], json.loads(line["text"])


def _report(release: Release, outcome: Outcome) -> str:
    sent = [event for direction, event in outcome.frames if direction == "c2s"]
    size = [len(json.dumps(event)) for event in sent]
    verdict = "ok" if outcome.finished() else "FAILED"
    kinds = ", ".join(str(event["type"]).removeprefix("response.") for event in sent)
    return f"{release.name:28} {verdict:7} client events: {kinds} (bytes: {', '.join(map(str, size))})"


def main(wanted: str = "") -> int:
    """Run every release of the table and print what it did."""
    cache = Path(os.environ.get("REAL_CLIENTS_CACHE", tempfile.gettempdir())) / "real-clients"
    failed = False
    for release in RELEASES:
        if release.name.startswith(wanted):
            binary = install(release, cache)
            with tempfile.TemporaryDirectory() as folder:
                outcome = run(release, binary, Path(folder))
            failed |= not outcome.finished()
            print(_report(release, outcome), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
