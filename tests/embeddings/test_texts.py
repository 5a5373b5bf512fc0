from skills_mcp.embeddings.texts import (
    MAX_BODY_CHARACTERS,
    compose_question,
    compose_text,
)
from tests.support import make_skill


def test_name_description_and_the_start_of_the_body_stand_for_a_skill() -> None:
    skill = make_skill("pdf-forms", description="Fill in forms", body="x" * 9_999)

    text = compose_text(skill)

    assert text == f"pdf forms\nFill in forms\n{'x' * MAX_BODY_CHARACTERS}"


def test_the_place_the_keywords_and_the_files_of_a_skill_are_not_sent() -> None:
    skill = make_skill("secret-team/pdf", keywords=("classified",))

    text = compose_text(skill)

    assert "secret-team" not in text.partition("\n")[0]
    assert "classified" not in text


def test_half_a_character_does_not_break_the_request() -> None:
    skill = make_skill("a", description="\ud83d")

    assert compose_text(skill).isprintable() is False
    assert compose_text(skill).encode()
    assert compose_question("\ud83d bill") == "? bill"


def test_a_long_task_is_cut() -> None:
    assert len(compose_question("word " * 10_000)) <= 4_000
