"""A picture of the charts of a run: one SVG file, readable on light and on dark ground."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from .report import Chart, shown

WIDTH, LEFT, RIGHT = 860, 290, 80
BAR, GAP = 20, 6
PLOT_HEIGHT, LEGEND = 260, 18
# Apart for people who see no red or green, too (after Okabe and Ito); each is legible on both grounds.
COLOURS = ("#d55e00", "#b8860b", "#7f7f7f", "#009e73", "#5b8dd9", "#0072b2", "#cc79a7")
STYLE = """
svg { background: #ffffff; color: #1c1c1c; font: 13px system-ui, sans-serif }
@media (prefers-color-scheme: dark) { svg { background: #16181c; color: #e4e4e4 } }
text { fill: currentColor } .title { font-size: 15px; font-weight: 600 }
.axis { stroke: currentColor; stroke-opacity: 0.35 } .line { fill: none; stroke-width: 2 }
"""


def svg(charts: Iterable[Chart]) -> str:
    """All charts, one below the other."""
    parts, top = list[str](), 10.0
    for chart in charts:
        body, height = _bars(chart.bars, chart.unit) if chart.bars else _lines(chart)
        parts.append(f'<g transform="translate(0 {top:g})">{_text(10, 18, chart.title, "title")}{body}</g>')
        top += height + 20
    size = f'width="{WIDTH}" height="{top:g}" viewBox="0 0 {WIDTH} {top:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>{"".join(parts)}</svg>\n'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _bars(bars: Mapping[str, float], unit: str) -> tuple[str, float]:
    most, parts = max(bars.values()) or 1.0, list[str]()
    for at, (name, value) in enumerate(bars.items()):
        y, length = 32 + at * (BAR + GAP), (WIDTH - LEFT - RIGHT) * value / most
        colour = COLOURS[at % len(COLOURS)]
        parts.append(_text(LEFT - 8, y + 15, name, anchor="end"))
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:g}" height="{BAR}" rx="2" fill="{colour}"/>')
        parts.append(_text(LEFT + length + 6, y + 15, f"{shown(value)} {unit}"))
    return "".join(parts), 32 + len(bars) * (BAR + GAP)


def _lines(chart: Chart) -> tuple[str, float]:
    points = [point for line in chart.series.values() for point in line]
    right, high = max(x for x, _ in points), max(y for _, y in points) or 1.0
    left, wide, base = 60, WIDTH - 60 - RIGHT, 40 + PLOT_HEIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        return left + wide * x / right, base - PLOT_HEIGHT * max(y, 0.0) / high

    parts = [f'<path class="axis" d="M{left} 40V{base}H{left + wide}" fill="none"/>']
    parts += [_text(left - 6, place(0, y)[1] + 4, shown(float(y)), anchor="end") for y in (0, high / 2, high)]
    parts.append(_text(left, 34, chart.unit, anchor="end"))
    parts.append(_text(left + wide, base + 16, f"{chart.x} {right:g}", anchor="end"))
    for at, (name, line) in enumerate(chart.series.items()):
        colour = COLOURS[at % len(COLOURS)]
        parts.append(f'<path class="line" stroke="{colour}" d="{_path([place(*point) for point in line])}"/>')
        y = base + 30 + at * LEGEND
        parts.append(f'<rect x="{left}" y="{y - 9}" width="18" height="4" fill="{colour}"/>')
        parts.append(_text(left + 26, y, name))
    return "".join(parts), base + 30 + len(chart.series) * LEGEND


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
