"""The pages in a real browser: on a phone and on a desk, in light and in dark, and what a click does."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Page, browser
from test_report import made, page

from conformance.report.matrix import matrix_page

WIDTHS = {"phone": 390, "desktop": 1280}
HEIGHT = 900
# The contrast of the text against the page, as WCAG counts it; 4.5 is what it asks for.
CONTRAST = """(() => {
  const light = (color) => {
    const parts = color.match(/[\\d.]+/g).slice(0, 3).map((one) => one / 255);
    const [r, g, b] = parts.map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    return color === "rgba(0, 0, 0, 0)" ? behind(element.parentElement) : color;
  };
  const worst = [...document.querySelectorAll("p, .text, .v, .quiet, .id, .short, b")].map((element) => {
    const [one, other] = [light(getComputedStyle(element).color), light(behind(element))].sort();
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  });
  return Math.min(...worst);
})()"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    file = tmp_path / "report.html"
    file.write_text(page(), "utf-8")
    return file


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    file = tmp_path / "matrix.html"
    file.write_text(matrix_page([made()[0], made()[0]]), "utf-8")
    return file


async def no_sideways_scrolling(found: Page) -> None:
    wide = await found.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
async def test_a_report(width: int, dark: bool, report: Path, tmp_path: Path) -> None:
    async with browser(tmp_path / "profile") as found:
        await found.open(report, width=width, height=HEIGHT, dark=dark)
        clauses = len(made()[0]["clauses"])
        assert await found.run("document.querySelectorAll('.clause').length") == clauses
        first = await found.run("document.querySelector('.clause .v').textContent")
        assert first == "fail"
        await no_sideways_scrolling(found)
        await a_click_draws_the_trace(found)
        await no_sideways_scrolling(found)
        assert await found.run(CONTRAST) >= 4.5
        await the_filters_filter(found, clauses)
        assert found.complaints == []


async def a_click_draws_the_trace(found: Page) -> None:
    await found.run("document.querySelector('#RWS-SEQ-002 > summary').click()")
    await found.run("new Promise(requestAnimationFrame)")
    inside = "document.querySelector('#RWS-SEQ-002')"
    assert await found.run(f"{inside}.querySelectorAll('.rec.c2s').length") > 0
    assert await found.run(f"{inside}.querySelectorAll('.rec.s2c').length") > 2
    assert await found.run(f"{inside}.querySelectorAll('.trace .marked').length") > 0
    assert "2 after 0" in await found.run(f"{inside}.textContent")
    await found.run(f"{inside}.querySelector('.jump').click()")
    await found.run("new Promise(requestAnimationFrame)")
    top = await found.run(f"{inside}.querySelector('.rec.marked').getBoundingClientRect().top")
    assert 0 <= top < HEIGHT
    assert '"sequence_number": 2' in await found.run(f"{inside}.querySelector('.rec.marked pre').textContent")


async def the_filters_filter(found: Page, clauses: int) -> None:
    shown = "[...document.querySelectorAll('.clause')].filter((one) => !one.hidden).length"
    typed = "const box = document.getElementById('{}'); box.{}; box.dispatchEvent(new Event('input'))"
    await found.run("{" + typed.format("search", "value = 'rws-seq-002'") + "}")
    named = sum("rws-seq-002" in f"{one['id']} {one['reason']}".lower() for one in made()[0]["clauses"])
    assert await found.run(shown) == named < clauses
    assert await found.run("document.getElementById('count').textContent") == f"{named} of {clauses} clauses"
    await found.run("{" + typed.format("search", "value = ''") + "}")
    await found.run("{" + typed.format("verdict", "value = 'fail'") + "}")
    failed = sum(one["verdict"] == "fail" for one in made()[0]["clauses"])
    assert await found.run(shown) == failed
    await found.run("{" + typed.format("required", "checked = true") + "}")
    assert await found.run(shown) == sum(
        one["required"] and one["verdict"] == "fail" for one in made()[0]["clauses"]
    )


async def test_an_address_with_a_clause_opens_it(report: Path, tmp_path: Path) -> None:
    async with browser(tmp_path / "profile") as found:
        await found.open(report, width=1280, place="#RWS-SEQ-002")
        assert await found.run("document.querySelector('#RWS-SEQ-002').open")
        assert not await found.run("document.querySelector('#RWS-SEQ-001').open")


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
async def test_a_matrix(width: int, matrix: Path, tmp_path: Path) -> None:
    async with browser(tmp_path / "profile") as found:
        await found.open(matrix, width=width)
        assert await found.run("document.querySelectorAll('thead th').length") == 3
        assert await found.run("document.querySelector('tbody th').clientWidth") > 200
        assert await found.run("document.querySelectorAll('tbody code').length") > 10
        await no_sideways_scrolling(found)
        assert found.complaints == []
