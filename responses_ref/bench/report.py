"""What a benchmark found, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

Row = dict[str, Any]


@attrs.frozen
class Chart:
    """One picture: ``series`` of (x, y) points as lines, or ``bars`` of a name and a value."""

    title: str
    unit: str
    series: Mapping[str, Sequence[tuple[float, float]]] = attrs.Factory(dict)
    bars: Mapping[str, float] = attrs.Factory(dict)
    x: str = ""


@attrs.define
class Report:
    """``figures`` are what the goals are judged by; a fault voids the run: a count was wrong."""

    name: str
    notes: list[str] = attrs.Factory(list)
    tables: dict[str, list[Row]] = attrs.Factory(dict)
    figures: dict[str, float] = attrs.Factory(dict)
    faults: list[str] = attrs.Factory(list)
    missing: list[str] = attrs.Factory(list)
    charts: list[Chart] = attrs.Factory(list)

    def check(self, holds: bool, fault: str) -> None:
        """Note a fault unless it holds."""
        if not holds:
            self.faults.append(fault)

    def text(self) -> str:
        """The report as it is printed."""
        parts = [f"== {self.name} ==", *self.notes]
        for title, rows in self.tables.items():
            parts += ["", title, *table(rows)]
        parts += [f"not installed, so not compared: {name}" for name in self.missing]
        parts += [f"WRONG: {fault}" for fault in self.faults]
        return "\n".join(parts)

    def data(self) -> dict[str, Any]:
        """The report for a program."""
        names = ("notes", "tables", "figures", "faults", "missing")
        return {name: getattr(self, name) for name in names}


def table(rows: Iterable[Row]) -> list[str]:
    """Rows as aligned lines; the first row's keys are the columns. Numbers stand right."""
    rows = list(rows)
    if not rows:
        return []
    columns = list(rows[0])
    cells = [columns, *([shown(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(columns))]
    left = [not any(isinstance(row.get(column), int | float) for row in rows) for column in columns]
    return [
        "  ".join(_aligned(*cell) for cell in zip(line, widths, left, strict=True)).rstrip() for line in cells
    ]


def _aligned(text: str, width: int, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)


def shown(value: Any) -> str:
    """A cell: three digits are enough of any measured number."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    digits = max(0, 2 - _magnitude(value))
    return f"{value:,.{min(digits, 4)}f}"


def _magnitude(value: float) -> int:
    size, magnitude = abs(value), 0
    while size >= 10:
        size, magnitude = size / 10, magnitude + 1
    while 0 < size < 1 and magnitude > -3:
        size, magnitude = size * 10, magnitude - 1
    return magnitude


def middle(values: Iterable[float]) -> float:
    """The median (the lower one of two)."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def quantile(values: Iterable[float], share: float) -> float:
    """The value that so much of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
