"""From a task in free text to the words that can find a skill."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.routing.tokenizer import ENGLISH, FRENCH, STOP_WORDS, fold, tokenize


@pytest.mark.spec("5.1")
@pytest.mark.parametrize(
    "text, tokens, reason",
    [
        (
            "Create a React component for the authentication",
            "create react component authentication",
            "the example of the specification",
        ),
        ("", "", "nothing"),
        ("the of and le la", "", "nothing but stop words"),
        ("... !? --- '", "", "nothing but punctuation"),
        ("React REACT react", "react", "each word once"),
        ("b a-b c b", "b a-b c", "in the order of the text"),
        ("auth/login,signup;(oauth)", "auth login signup oauth", "punctuation"),
        ("server-side front-end", "server-side front-end", "hyphens stay"),
        ("-v --verbose the- -the-", "v verbose", "hyphens around a word do not"),
        ("user_id __init__", "user_id __init__", "an identifier is one word"),
        ("utf8 i18n 2fa 404", "utf8 i18n 2fa 404", "numbers stay"),
        ("tab\there\nthere\u00a0nbsp", "tab nbsp", "every kind of white space"),
        ("C'est l'API d'Angular", "api angular", "French elisions"),
        ("Créer l'écran jusqu'à l'été", "créer écran", "French accents stay"),
        ("qu'une lorsqu'il s'agit", "agit", "elisions of two letters and more"),
        ("l\u2019authentification", "authentification", "the typographic apostrophe"),
        ("I don't, can't and won't deploy", "deploy", "English negations"),
        ("it's what's React's we're I'll", "react", "English contractions"),
        ("STRASSE Straße", "strasse", "folded, not only lowercased"),
        (
            "\uff32\uff45\uff41\uff43\uff54 ﬁle",
            "react file",
            "full width and ligatures",
        ),
        ("\u2121 \u2166", "tel vii", "a sign that stands for capital letters"),
        ("cafe\u0301 café", "café", "composed and decomposed are the same"),
        ("認証を実装する", "認証を実装する", "Japanese has no spaces"),
        ("添加登录功能。修复", "添加登录功能 修复", "Chinese punctuation"),
        ("ログイン ﾛｸﾞｲﾝ", "ログイン", "half width"),
        ("добавить вход", "добавить вход", "Cyrillic"),
        ("हिन्दी", "हिन्दी", "marks belong to their letter"),
    ],
)
def test_a_text_becomes_its_meaningful_words(text: str, tokens: str, reason: str) -> None:
    assert " ".join(tokenize(text)) == tokens, reason


@pytest.mark.spec("5.1")
@given(st.text() | st.text("ab l'dnt-_.é ", max_size=30))
@example("the-")
@example("'n't")
def test_tokens_are_distinct_folded_words_that_carry_meaning(text: str) -> None:
    tokens = tokenize(text)

    assert len(set(tokens)) == len(tokens)
    for token in tokens:
        assert token == token.strip("-")
        assert not any(map(str.isspace, token))
        assert token not in STOP_WORDS
        assert fold(token) == token


@given(st.text(), st.text())
def test_a_longer_text_only_adds_tokens(text: str, more: str) -> None:
    assert set(tokenize(text)) <= set(tokenize(f"{text} {more}"))


@pytest.mark.parametrize("unit", ["n", "n'", "an't", "l'", "a-", "\N{SOFT HYPHEN}"])
def test_a_long_text_is_read_once_and_not_once_per_letter(unit: str) -> None:
    # Quadratic work on a million letters would not end within a day.
    tokens = tokenize(unit * 1_000_000)

    assert len(tokens) <= 1


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@pytest.mark.spec("5.1")
def test_the_words_that_the_specification_names_are_in_the_list() -> None:
    assert {"a", "an", "the", "is", "of", "to", "in", "for", "with"} <= ENGLISH
    assert {"le", "la", "les", "un", "une", "de", "du", "et", "ou", "en"} <= FRENCH


def test_every_stop_word_can_be_met() -> None:
    # A word in another form would never equal a token.
    assert [word for word in STOP_WORDS if fold(word) != word] == []
    kept = {word: tokenize(f"{word} react {word}") for word in STOP_WORDS}
    assert {word: tokens for word, tokens in kept.items() if tokens != ("react",)} == {}


@pytest.mark.parametrize(
    "word",
    [
        *("go", "c", "r", "js", "ts", "api", "use", "case", "car", "make", "rust"),
        *("next", "spring", "swift", "node", "test", "type", "class", "error", "ai"),
    ],
)
def test_a_technical_term_is_no_stop_word(word: str) -> None:
    assert tokenize(word) == (word,)
