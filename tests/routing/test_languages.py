import pytest

from skills_mcp.routing.query import find_function_words


@pytest.mark.parametrize(
    "text, word",
    [
        ("wie richte ich expo router ein", "ich"),
        ("comment configurer tailwind dans notre projet", "dans"),
        ("hoja inferior y selector de fecha con expo", "con"),
        ("como faço testes em laravel", "faço"),
        ("[ich] wir2die/und", "die"),
        ("[ich] wir2die/und \u2014", "die"),
    ],
)
def test_a_language_is_told_by_its_function_words(text: str, word: str) -> None:
    assert word in find_function_words(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "how do i set up the expo router",
        "the die and the las vegas app",
        "roll back postgres",
        "adiós",
        "認証画面を追加",
    ],
)
def test_what_is_not_told_counts_as_english(text: str) -> None:
    assert not find_function_words(text)
