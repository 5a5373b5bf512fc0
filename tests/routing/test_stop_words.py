"""Words that say nothing about a task."""

import pytest

from skills_mcp.routing.stop_words import ENGLISH, FRENCH, STOP_WORDS
from skills_mcp.routing.tokens import fold, tokenize


@pytest.mark.spec("5.1")
def test_the_words_that_the_specification_names_are_in_the_list() -> None:
    assert {"a", "an", "the", "is", "of", "to", "in", "for", "with"} <= ENGLISH
    assert {"le", "la", "les", "un", "une", "de", "du", "et", "ou", "en"} <= FRENCH


@pytest.mark.parametrize("word", sorted(STOP_WORDS))
def test_every_stop_word_can_be_met(word: str) -> None:
    # A word in another form would never equal a token.
    assert fold(word) == word
    assert tokenize(f"{word} react {word}") == ("react",)


@pytest.mark.parametrize(
    "word",
    [
        *("go", "c", "r", "js", "ts", "api", "use", "case", "car", "make", "rust"),
        *("next", "spring", "swift", "node", "test", "type", "class", "error", "ai"),
    ],
)
def test_a_technical_term_is_no_stop_word(word: str) -> None:
    assert tokenize(word) == (word,)
