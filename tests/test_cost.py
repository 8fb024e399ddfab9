"""What a turn costs, in machine instructions: the same at the end of a long chain as at its beginning."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("cost_driver.py")
MEASURED = shutil.which("valgrind") is not None and platform.machine() == "x86_64"


def instructions(folder: Path, how: str, *bounds: int) -> list[float]:
    """Instructions a turn, on the mean over each range of turns (first, last, first, last, ...)."""
    if not MEASURED:
        if os.environ.get("REQUIRE_ALL") == "1":
            pytest.fail("valgrind on x86-64 is required here")
        pytest.skip("needs valgrind on x86-64")
    callgrind = [
        "valgrind",
        "--tool=callgrind",
        "--instr-atstart=no",
        f"--callgrind-out-file={folder / 'cost'}",
    ]
    command = [*callgrind, sys.executable, str(DRIVER), how, *map(str, bounds)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    means = []
    for number, (first, last) in enumerate(zip(bounds[::2], bounds[1::2], strict=True), 1):
        found = re.search(r"^totals: (\d+)$", (folder / f"cost.{number}").read_text(), re.MULTILINE)
        assert found is not None
        means.append(int(found[1]) / (last - first + 1))
    return means


def test_turn_200_costs_what_turn_3_costs(tmp_path: Path) -> None:
    """A continuation with 4 KiB of new input takes at most a tenth more than one at the beginning."""
    early, late = instructions(tmp_path, "stateful", 3, 7, 196, 200)
    print(f"{early:,.0f} instructions in turn 3, {late:,.0f} in turn 200")
    assert 0 < late <= 1.1 * early, f"{late:,.0f} instructions in turn 200, {early:,.0f} in turn 3"


def test_the_measure_sees_a_cost_that_grows(tmp_path: Path) -> None:
    """Without the chain's state the same turns do grow: the test above can fail."""
    early, late = instructions(tmp_path, "stateless", 3, 3, 12, 12)
    assert late > 2 * early
