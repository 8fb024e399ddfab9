"""The diagrams in the spec are the tables of the code, and stay so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from responses_ref.diagrams import BLOCK, DIAGRAMS, draw, main

SPEC = Path(__file__).parent.parent / "spec"  # not beside the package, where that is installed

EDGE = re.compile(r"^    (\S+) --> (\S+)(?: : (.+))?$")


def edges(name: str) -> list[tuple[str, str, str]]:
    found = [EDGE.match(line) for line in draw(DIAGRAMS[name]).splitlines() if " --> " in line]
    return [(edge[1], edge[2], edge[3] or "") for edge in found if edge is not None]


@pytest.mark.parametrize("name", DIAGRAMS)
def test_every_step_is_drawn_or_told(name: str) -> None:
    """Each step of a table is an edge, or its event is named below the picture, or it is a prototype's."""
    diagram, drawn = DIAGRAMS[name], edges(name)
    for (before, what), after in diagram.table.items():
        if {before, after} & diagram.left_out or before in diagram.ends:
            continue
        first = "[*]" if before == "idle" else before.replace(" ", "_")
        last = "[*]" if diagram.ends == {after} else after.replace(" ", "_")
        label = diagram.words.get(what, what.removeprefix("response.").split(" ")[0])
        seen = any(label in words for one, two, words in drawn if (one, two) == (first, last))
        assert seen or f"`{what}`" in draw(diagram)


@pytest.mark.parametrize("name", DIAGRAMS)
def test_the_text_is_mermaid(name: str) -> None:
    """One fenced block; names without spaces, each state with a space introduced once; a start and an end."""
    lines = draw(DIAGRAMS[name]).splitlines()
    assert lines[:2] == ["```mermaid", "stateDiagram-v2"]
    assert lines.count("```") == 1
    body = lines[2 : lines.index("```")]
    introduced = [line.split(" as ")[1] for line in body if line.startswith("    state ")]
    assert len(introduced) == len(set(introduced))
    for line in body:
        assert line.startswith("    state ") or EDGE.match(line)
    states = {state for edge in edges(name) for state in edge[:2]}
    assert {state for state in states if "_" in state} == set(introduced)
    assert any(one == "[*]" for one, _, _ in edges(name))
    assert any(two == "[*]" for _, two, _ in edges(name))


def test_the_picture_of_a_response_is_small() -> None:
    """Few enough edges to be read: what can happen anywhere is not among them."""
    drawn = edges("RESPONSE")
    assert len(drawn) < 45
    assert not any("failed" in words or "error" in words for _, _, words in drawn)
    assert ("created", "open", "in_progress") in drawn


def test_the_spec_is_drawn_from_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """``python -m responses_ref.diagrams`` has been run since the last change of a table."""
    assert main(["--check", str(SPEC)]) == 0, capsys.readouterr().out
    names = {
        found[2] for path in SPEC.glob("*.md") for found in BLOCK.finditer(path.read_text(encoding="utf-8"))
    }
    assert names == set(DIAGRAMS)


def test_draw_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Drawing fills the block and nothing else; checking changes nothing and says which chapter differs."""
    chapter = tmp_path / "a.md"
    text = "before\n\n<!-- diagram: STEER -->\nold\n<!-- end -->\n\nafter\n"
    chapter.write_text(text)
    (tmp_path / "b.md").write_text("no diagram")
    assert main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().out == "a.md differs from the tables\n"
    assert chapter.read_text() == text
    assert main([str(tmp_path)]) == 0
    new = chapter.read_text()
    assert new.startswith("before\n\n<!-- diagram: STEER -->\n```mermaid\n")
    assert new.endswith("```\n<!-- end -->\n\nafter\n")
    assert main(["--check", str(tmp_path)]) == 0
    assert main([str(tmp_path)]) == 0
    assert chapter.read_text() == new


def test_an_unknown_diagram(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A marker that names no table is a mistake, and is told."""
    (tmp_path / "a.md").write_text("<!-- diagram: LIFE -->\n<!-- end -->\n")
    with pytest.raises(SystemExit) as done:
        main(["--check", str(tmp_path)])
    assert done.value.code == 2
    assert "a.md: no diagram is called 'LIFE'" in capsys.readouterr().err
