"""The figures to reach, and which of them a run has reached. All are ratios within one run, but four."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .instructions import DELTA_RATIO, GROWTH, TURN_RATIO
from .report import Row, shown


@attrs.frozen
class Goal:
    """``figure`` names what a report measured; ``most`` or ``least`` is the bound."""

    number: int
    text: str
    figure: str
    most: float | None = None
    least: float | None = None
    required: bool = False

    def reached(self, value: float) -> bool:
        """Whether the value is on the right side of the bound."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    @property
    def counted(self) -> bool:
        """Whether the figure is a count, which a quick run or a busy machine does not change."""
        return "instructions" in self.figure

    @property
    def bound(self) -> str:
        return f"<= {self.most:g}" if self.most is not None else f">= {self.least:g}"


GOALS = (
    Goal(1, "50 x 1,000 tokens/s: CPU beside trio-websocket", "50 x 1000: beside trio-websocket", most=0.25),
    Goal(1, "50 x 1,000 tokens/s: CPU beside aiohttp", "50 x 1000: beside aiohttp", most=0.6),
    Goal(1, "50 x 1,000 tokens/s: CPU beside picows", "50 x 1000: beside picows", most=0.6),
    Goal(1, "50 x 1,000 tokens/s: % of the rate held", "50 x 1000: rate", least=99),
    Goal(1, "50 x 1,000 tokens/s: lag p99, ms", "50 x 1000: lag p99 ms", most=5),
    Goal(2, "1,000-token streams a core beside trio-websocket", "streams beside the naive server", least=12),
    Goal(3, "flat out beside trio-websocket", "flat out beside trio-websocket", least=15, required=True),
    Goal(3, "flat out beside aiohttp", "flat out beside aiohttp", least=3.5, required=True),
    Goal(3, "flat out beside picows", "flat out beside picows", least=3.5, required=True),
    Goal(3, "flat out beside uvicorn", "flat out beside uvicorn", least=3.5, required=True),
    Goal(3, "user instructions per delta", "instructions per delta", most=DELTA_RATIO, required=True),
    Goal(4, "1 x 4,000 tokens/s: % of a core", "1 x 4000: core", most=5),
    Goal(4, "50 x 65 tokens/s: CPU beside aiohttp", "50 x 65: beside aiohttp", most=1.2),
    Goal(5, "turn 200 / 3, 2 KB", "instructions, parent id, 2000 bytes", most=TURN_RATIO, required=True),
    Goal(5, "turn 200 / 3, 8 KB", "instructions, parent id, 8000 bytes", most=TURN_RATIO, required=True),
    Goal(5, "the same, full history, 2 KB", "instructions, full, 2000 bytes", least=GROWTH, required=True),
    Goal(5, "the same, full history, 8 KB", "instructions, full, 8000 bytes", least=GROWTH, required=True),
    Goal(6, "first delta of 64 at once, p99 beside quiet", "first delta of 64 beside quiet", most=3),
    Goal(6, "lag p99 beside posts of 1 MB, ms", "lag p99 ms beside big posts", most=10),
    Goal(7, "memory of an idle connection", "idle memory beside trio-websocket", most=0.7, required=True),
    Goal(7, "CPU of a handshake", "handshake beside trio-websocket", most=0.5, required=True),
    Goal(8, "agent loop, E faster than A", "loop E faster than A", least=0.40),
    Goal(8, "heavy classifier, E faster than B", "loop E faster than B, heavy", least=0.35),
    Goal(8, "E beside C warm", "loop E beside C warm", most=0.03),
)


def judged(figures: Mapping[str, float], quick: bool, every: bool) -> list[Row]:
    """A row for each goal that was measured, or for ``every`` one.

    A quick run's times are from too few rounds to judge by.
    """
    return [
        {
            "#": str(goal.number),
            "goal": goal.text,
            "": "required" if goal.required else "",
            "bound": goal.bound,
            "reached": shown(figures.get(goal.figure)),
            "verdict": _verdict(goal, figures.get(goal.figure), quick),
        }
        for goal in GOALS
        if every or goal.figure in figures
    ]


def _verdict(goal: Goal, value: float | None, quick: bool) -> str:
    if value is None:
        return "not measured"
    if quick and not goal.counted:
        return "not judged in a quick run"
    return "reached" if goal.reached(value) else "MISSED"
