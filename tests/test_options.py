"""Options of the command line that cannot be: exit code 2, and a last line that says what they must be."""

from __future__ import annotations

import pytest

from responses_ref.cli import main

WRONG = [
    *(("--port", port) for port in ("70000", "-1", "9" * 30, "x", "")),
    *(("--seed", seed) for seed in ("-1", "1.5", "9" * 30, "x")),
    *(("--grid", grid) for grid in ("0", "nan", "inf", "1e9", "x")),
    *(("--speed", speed) for speed in ("0", "nan", "1e3", "fast")),
    *(("--ttft", ttft) for ttft in ("-1", "601", "nan", "x")),
    *(("--hops", hops) for hops in ("-1", "1001", "1.5")),
    *(("--speed", speed) for speed in ("0", "fast", "1e3", "1000001")),
    *((option, "0") for option in ("--max-message-bytes", "--max-connections", "--grace-seconds")),
    *((option, "x") for option in ("--max-connection-seconds", "--idle-seconds", "--hops", "--hop-latency")),
    ("--models", ","),
    ("--profiles", "x"),
    ("--dialect", "x"),
]


@pytest.mark.parametrize(("option", "value"), WRONG)
def test_a_wrong_value_is_told_what_it_must_be(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["serve", option, value])
    assert left.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("responses-ref")
    assert not any(word in last for word in ("_", "invalid int", "invalid float", "Errno", "Error")), last


def test_the_ends_of_a_range_are_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The next fault is another option's: so the value before it was taken."""
    for good in (("--port", "65535"), ("--grid", "1"), ("--seed", "0"), ("--ttft", "600")):
        with pytest.raises(SystemExit):
            main(["serve", *good, "--models", ","])
        assert "--models" in capsys.readouterr().err.splitlines()[-1]
