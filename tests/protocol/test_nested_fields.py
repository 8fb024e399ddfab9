"""Fields inside of fields that are echoed: a wrong type is refused by its path, null is as absent."""

from __future__ import annotations

from typing import Any

import pytest

from responses_ref.protocol import codec
from responses_ref.protocol.errors import Refused
from responses_ref.protocol.resource import echo


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("text", {"verbosity": 3}, "text.verbosity"),
        ("text", {"format": "text"}, "text.format"),
        ("reasoning", {"effort": 9}, "reasoning.effort"),
        ("reasoning", {"summary": []}, "reasoning.summary"),
    ],
)
def test_a_wrong_type_inside(field: str, value: Any, param: str) -> None:
    """The path names the inner field."""
    with pytest.raises(Refused) as refused:
        codec.create({"model": "m", field: value})
    assert (refused.value.problem.code, refused.value.problem.param) == ("invalid_type", param)


def test_null_inside_is_as_absent() -> None:
    """What is echoed has the defaults for them, never null in text."""
    create = codec.create(
        {"model": "m", "text": {"format": None, "verbosity": None}, "reasoning": {"effort": None}}
    )
    fields = echo(create)
    assert fields["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert fields["reasoning"] == {"effort": None, "summary": None}
