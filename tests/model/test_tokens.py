from __future__ import annotations

import json
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from responses_ref.model.tokens import WORDS, Generator, tokenise

VECTORS = json.loads(files("responses_ref.model").joinpath("token_vectors.json").read_text("utf-8"))

# Texts where the classes meet, beside any text at all.
TEXTS = st.text() | st.text(alphabet="aZ09 \n\t.{\x7f\x80é漢😀", max_size=60)


@pytest.mark.parametrize("vector", VECTORS["tokens"], ids=lambda vector: ascii(vector["text"])[:20])
def test_the_tokens_are_those_of_the_vectors(vector):
    assert tokenise(vector["text"]) == vector["tokens"]


def test_there_are_vectors_enough():
    assert len(VECTORS["tokens"]) >= 25


def limit_of(character: str) -> tuple[int, str]:
    """How long a token of this character's class may be, by the words of the spec."""
    if character >= "\x80":
        return 2, "beyond ASCII"
    if character in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
        return 8, "letter"
    if character in "0123456789":
        return 3, "digit"
    return (4, "punctuation") if "!" <= character <= "~" else (8, "blank")


def by_the_words(text: str) -> list[str]:
    """The tokeniser again, written from its description instead of as a pattern."""
    tokens = []
    while text:
        space = text[0] == " " and len(text) > 1 and limit_of(text[1])[1] != "blank"
        limit, kind = limit_of(text[1 if space else 0])
        end = int(space)
        while end < len(text) and end - space < limit and limit_of(text[end])[1] == kind:
            end += 1
        tokens.append(text[:end])
        text = text[end:]
    return tokens


@given(TEXTS)
def test_the_pattern_says_what_the_words_say(text):
    assert tokenise(text) == by_the_words(text)


@given(TEXTS)
def test_tokens_joined_are_the_text_again(text):
    assert "".join(tokenise(text)) == text


@pytest.mark.parametrize("vector", VECTORS["numbers"], ids=lambda vector: str(vector["seed"]))
def test_the_numbers_are_those_of_the_vectors(vector):
    random = Generator(vector["seed"])
    assert [random.draw() for _ in vector["numbers"]] == vector["numbers"]


@pytest.mark.parametrize("vector", VECTORS["words"], ids=lambda vector: str(vector["seed"]))
def test_the_words_are_those_of_the_vectors(vector):
    assert tokenise(Generator(vector["seed"]).words(vector["count"])) == vector["tokens"]


@given(st.integers(), st.integers(0, 300))
def test_so_many_words_are_so_many_tokens_when_they_come_back(seed, count):
    words = tokenise(Generator(seed).words(count))
    assert len(words) == count
    assert tokenise("".join(words)) == words


def test_the_words_are_what_the_bits_and_the_arguments_rely_on():
    assert len(WORDS) == len(set(WORDS)) == 32
    assert all(3 <= len(word) <= 8 and tokenise(word) == [word] for word in WORDS)


@given(st.integers(), st.integers(1, 1000))
def test_a_number_is_below_its_bound(seed, bound):
    assert 0 <= Generator(seed).below(bound) < bound


def test_every_number_below_a_bound_comes():
    random = Generator(7)
    assert {random.below(5) for _ in range(200)} == set(range(5))
    assert {random.choice("xyz") for _ in range(200)} == set("xyz")
