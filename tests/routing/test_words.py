"""From any text to the terms that the ranked algorithm compares."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.routing import inverted_index, lexicon
from skills_mcp.routing.inverted_index import IndexedDocument, TextIndex
from skills_mcp.routing.lexicon import (
    Word,
    analyze_token,
    lower_known_words,
    split_raw_tokens,
    stem,
)
from skills_mcp.routing.query import QueryParser, QueryWord
from skills_mcp.routing.tokenizer import FILLER, STOP_WORDS, tokenize


def words(text: str) -> list[Word]:
    return [word for piece in split_raw_tokens(text) for word in analyze_token(piece.decode())]


def typed(text: str) -> str:
    return " ".join(word.typed for word in words(text))


def terms(text: str) -> set[str]:
    return {word.term for word in words(text)}


@pytest.mark.parametrize(
    "text, expected, reason",
    [
        ("Deploy to the staging", "deploy staging", "stop words go"),
        ("server-side user_id", "server side user id", "both marks separate"),
        ("state-of-the-art", "state art", "and stop words between them go, too"),
        ("showMenu", "showmenu show menu", "the whole and its parts"),
        ("useEffect", "useeffect effect", "but not what says nothing"),
        ("HTTPServer", "httpserver http server", "capitals before a word"),
        ("APIs URLs README", "apis urls readme", "capitals alone are one word"),
        ("OAuth2Client", "oauth2client o auth2 client", "a number belongs to its word"),
        ("日本API", "日本 api", "another script is another word"),
        ("認証画面", "認証 証画 画面", "every two characters"),
        ("「認証」をuseEffectで、", "認証 を useeffect で effect", "Japanese marks separate"),
        ("「什么」Why不用", "什么 why 不用", "a question word stays"),
        ("'form' ──▶ “field”", "form field", "quotes and drawn lines separate"),
        ("認", "認", "a single one stays"),
        ("認-証", "認 証", "also when a mark keeps it alone"),
        ("様々", "様々", "the repetition mark belongs to it"),
        ("로그인", "로그 그인", "Korean, too"),
        ("добавить вход", "добавить вход", "Cyrillic has spaces"),
        ("C++, C# and .NET", "c++ c# .net", "the sign is the name"),
        ("l'API d'Angular", "api angular", "French elisions"),
        ("don't (app's)", "app", "English contractions"),
        ("a/b=c", "b c", "every sign separates"),
        ("test test", "test test", "as often as it stands there"),
        ("please help me make a form", "form", "what requests are padded with goes"),
        ("form\u00a0field\x1ftext", "form field text", "every space separates"),
        ("node.js .net core", "node js .net core", "a point separates, or names"),
    ],
)
def test_a_text_is_taken_apart(text: str, expected: str, reason: str) -> None:
    assert typed(text) == expected, reason


def test_most_pieces_of_any_text_need_no_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicon, "tokenize", lambda text: pytest.fail(f"{text} is tokenised"))
    assert terms("「認証画面」を追加、useEffect ──▶ 'form' (id_1)") >= {
        "認証",
        "追加",
        "form",
        "id",
    }


@pytest.mark.parametrize(
    "forms",
    [
        ("query", "queries"),
        ("class", "classes"),
        ("box", "boxes"),
        ("type", "types", "typing", "typed"),
        ("test", "tests", "testing", "tested"),
        ("string", "strings"),
        ("embedding", "embeddings"),
        ("apply", "applies", "applied", "applying"),
        ("deploy", "deploys", "deploying", "deployed"),
        ("plan", "plans", "planning", "planned"),
        ("call", "calls", "calling", "called"),
        ("validate", "validates", "validating", "validation", "validations"),
        ("quick", "quickly"),
        ("family", "families"),
        ("créer", "creer"),
        ("e\u0301cran", "écran", "ecran"),
    ],
)
def test_the_forms_of_a_word_are_one_term(forms: tuple[str, ...]) -> None:
    assert len(set.union(*map(terms, forms))) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("app", "apply"),
        ("is", "ios", "io"),
        ("string", "str"),
        ("css", "cs"),
        ("king", "k"),
        ("ガラス", "カラス"),
        ("हिन्दी", "हन्द"),
    ],
)
def test_different_words_stay_different(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == len(words)


def test_a_word_remembers_how_it_was_typed() -> None:
    assert words("Créer queries") == [Word("creer", "créer"), Word("queri", "queries")]


@given(st.text() | st.text("abYZ-_' .+#éß認証カガ로그'", max_size=30))
def test_any_text_has_words_and_each_can_be_compared(text: str) -> None:
    for word in words(text):
        assert word.term
        assert word.typed not in STOP_WORDS | FILLER
        assert not any(map(str.isspace, word.typed))


@given(st.lists(st.sampled_from(["React", "C++", "l'api", "e-mail", "認証", "x."])))
def test_a_text_is_no_more_than_its_pieces(pieces: list[str]) -> None:
    text = " / ".join(pieces)

    expected = {part for token in tokenize(text) for part in token.split("-")}

    assert set(typed(text).split()) == expected


@given(st.text("abYZ19-_.", max_size=30))
def test_plain_pieces_are_taken_apart_as_all_others(piece: str) -> None:
    # A sign that is dropped, and the tokenizer has to look at all of it.
    assert analyze_token(piece) == analyze_token(f"{piece}'")


def test_every_thread_has_a_stemmer_of_its_own() -> None:
    texts = [f"{word}{number}s" for number in range(500) for word in ("query", "ring")]
    expected = [stem(text) for text in texts]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: [stem(text) for text in texts], range(16)))

    assert found == [expected] * 16


FEW_WORDS = 8


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> QueryParser:
    """A parser that remembers few words."""
    monkeypatch.setattr(inverted_index, "_WORD_CACHE_SIZE", FEW_WORDS)
    return QueryParser(TextIndex.build([IndexedDocument("ant", "bat", "", "", "cat", 0)]))


def test_words_are_forgotten_however_many_a_task_has(forgetful: QueryParser) -> None:
    for task in range(20):
        text = " ".join(f"word{task}x{number}" for number in range(100))
        forgetful.read_words(text, text)

    forgetful.read_words("ant", "ant")

    assert len(forgetful._words) <= FEW_WORDS
    assert len(forgetful._pieces) <= FEW_WORDS


def test_threads_that_share_a_parser_read_the_same_words(forgetful: QueryParser) -> None:
    def read(text: str) -> list[QueryWord]:
        return forgetful.read_words(text, text)

    texts = [f"ant bat{number} useEffect-{number} 認証{number} cat" for number in range(40)]
    expected = list(map(read, texts))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, texts * 20))

    assert found == expected * 20


@pytest.mark.parametrize("unit", ["a", "aB", "認", "-", "s", "'", "ing", "é"])
def test_a_long_word_is_read_once_and_not_once_per_letter(unit: str) -> None:
    # Quadratic work on a million letters would not end within a day.
    found = words(unit * 1_000_000)

    assert len(found) <= 4


@pytest.mark.parametrize(
    "piece, known, kept",
    [
        ("GitHub", {"github"}, "github"),
        ("GitHub", {"git", "hub"}, "GitHub"),
        ("B2B-SaaS", {"b2b", "saas"}, "b2b-saas"),
        ("GitHub-useEffect", {"github"}, "github-useEffect"),
        ("README", set(), "README"),
    ],
)
def test_a_word_in_mixed_case_stays_whole_where_it_is_known(
    piece: str, known: set[str], kept: str
) -> None:
    assert lower_known_words(piece, known.__contains__) == kept
