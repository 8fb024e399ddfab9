"""A release of the append era, as it was published, against today's server."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import codex
import pytest


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release's own binary; needs npm and the way to its registry."""
    if shutil.which("npm") is None and not os.environ.get("REQUIRE_ALL"):
        pytest.skip("npm is missing")
    cache = os.environ.get("REAL_CLIENTS_CACHE")
    return codex.install(codex.RELEASES[3], Path(cache) if cache else tmp_path_factory.mktemp("clients"))


@pytest.mark.parametrize("release", codex.RELEASES[3:6], ids=lambda release: release.name)
def test_tool_loop(release: codex.Release, binary: Path, tmp_path: Path) -> None:
    """Two tool rounds on one socket end in the text that the script says last."""
    outcome = codex.run(release, binary, tmp_path)
    assert outcome.finished(), outcome.client
    carried = [
        [item["type"] for item in event["input"] if item["type"].endswith("_output")]
        for event in outcome.sent(release.sends)
        if isinstance(event["input"], list)
    ]
    assert carried[-2:] == [["function_call_output"], ["function_call_output"]]
    assert len(outcome.sent("response.append")) == (2 if release.sends == "response.append" else 0)
