"""Examples of a skill: reading them, and which of them fit a query (003)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.routing.tokenizer import tokenize
from skills_mcp.skills.model import Skill, Stamp
from skills_mcp.skills.skill_examples import (
    Example,
    FittingExample,
    examples_from_tasks,
    is_example_file,
    parse_example,
    rank_examples,
    read_examples,
    truncate_examples,
)
from tests.packages import PNG
from tests.support import make_skill, write

FILE = "examples/first-steps.md"


def skill_with(folder: Path, files: dict[str, str | bytes]) -> Skill:
    stamps = {file: Stamp.of(write(folder / file, data).stat()) for file, data in files.items()}
    return make_skill("pdf", directory=folder, files=stamps)


def an_example(text: str = "", *tags: str, title: str = "") -> Example:
    return Example(title, tags, text, FILE)


def scores(query: str, *examples: Example) -> list[int]:
    chosen = rank_examples(examples, query, tokenize, limit=10)
    return [each.score for each in chosen]


def titles(query: str, *examples: Example, most: int = 10) -> list[str]:
    chosen = rank_examples(examples, query, tokenize, limit=most)
    return [each.example.title for each in chosen]


# --- which files --------------------------------------------------------------


@pytest.mark.parametrize("file", ["examples/a.md", "Examples/A.MD", "examples/.md"])
def test_markdown_in_the_folder_of_examples_is_an_example(file: str) -> None:
    assert is_example_file(file)


@pytest.mark.parametrize(
    "file",
    ["a.md", "examples.md", "examples/a.py", "examples/b/a.md", "b/examples/a.md"],
)
def test_other_files_are_no_examples(file: str) -> None:
    assert not is_example_file(file)


# --- one file -----------------------------------------------------------------


@pytest.mark.parametrize("tags", ["Forms, EU tax", "[Forms, EU tax]", "\n  - Forms\n  - EU tax"])
def test_title_and_tags_are_read_from_the_frontmatter(tags: str) -> None:
    text = f"---\ntitle: A form\ntags: {tags}\n---\n\n# Heading\n\nFill it in.\n"

    assert parse_example(text, file=FILE) == Example(
        "A form", ("Forms", "EU tax"), "# Heading\n\nFill it in.", FILE
    )


def test_keys_may_be_in_capitals_and_values_may_be_no_yaml() -> None:
    text = "---\nTitle: Fix: the login\nTAGS: a, b\n---\nDo it.\n"

    example = parse_example(text, file=FILE)

    assert (example.title, example.tags) == ("Fix: the login", ("a", "b"))
    assert example.text == "Do it."


@pytest.mark.parametrize(
    "text, title",
    [
        ("# A form\n\nText", "A form"),
        ("Text\n\n### A form ##\n", "A form"),
        ("# Use C#\n", "Use C#"),
        ("```sh\n# a comment\n```\n\n## A form\n", "A form"),
        ("# ##\n# A form\n", "A form"),
        ("---\ntags: a\n---\n# A form\n", "A form"),
        ("---\ntitle:\n---\n# A form\n", "A form"),
        ("\ufeff# A form\n", "A form"),
        ("#hash\n", "first-steps"),
        ("Text without any heading\n", "first-steps"),
        ("", "first-steps"),
    ],
)
def test_without_a_title_it_is_the_first_heading_or_the_files_name(text: str, title: str) -> None:
    assert parse_example(text, file=FILE).title == title


@pytest.mark.parametrize(
    "text",
    [
        "---\nNo frontmatter, but a line across the page.",
        "---\n---",
        "# How to begin\n\n```\n---\nname: a\ndescription: b\n---\n```",
    ],
)
def test_what_is_no_frontmatter_is_a_part_of_the_text(text: str) -> None:
    example = parse_example(text, file=FILE)

    assert (example.text, example.tags) == (text, ())


def test_titles_and_tags_are_short() -> None:
    many = ", ".join(f"{number}{'x' * 200}" for number in range(30))
    text = f"---\ntitle: {'x' * 200}\ntags: {many}\n---\n"

    example = parse_example(text, file=FILE)

    assert example.title == "x" * 99 + "…"
    assert [len(tag) for tag in example.tags] == [100] * 20


def test_a_task_of_the_frontmatter_is_an_example_without_a_file() -> None:
    long = "fill in " * 20

    assert examples_from_tasks(["fill in a form", long]) == (
        Example("fill in a form", (), "fill in a form", None),
        Example(long[:99] + "…", (), long, None),
    )


@given(st.text())
def test_any_text_is_an_example(text: str) -> None:
    example = parse_example(text, file=FILE)

    assert example.title
    assert len(example.title) <= 100


# --- which fit ----------------------------------------------------------------


def test_a_word_counts_once_and_a_tag_twice() -> None:
    text = an_example("A form, another form")
    title = an_example("", title="The form")
    tag = an_example("", "form")
    both = an_example("the form", "form")

    assert scores("fill in the form", text, title, tag, both) == [3, 2, 1, 1]
    assert scores("a form with fields", an_example("form fields", "forms")) == [2]


def test_the_best_come_first_and_those_without_a_word_are_left_out() -> None:
    examples = (
        an_example("other", title="none"),
        an_example("form", title="one"),
        an_example("form fields", title="two"),
        an_example("form", title="one more"),
    )

    assert titles("form fields", *examples) == ["two", "one", "one more"]
    assert titles("form fields", *examples, most=2) == ["two", "one"]


@pytest.mark.parametrize("query", ["zebra", "", "the"])
def test_the_first_ones_are_returned_if_none_fits(query: str) -> None:
    examples = [an_example(title=name) for name in ("a-1", "b-1", "c-1")]

    assert titles(query, *examples, most=2) == ["a-1", "b-1"]
    assert scores(query, *examples) == [0, 0, 0]


def test_words_of_every_script_are_compared_whatever_their_case() -> None:
    assert scores("CRÉER un formulaire", an_example("créer")) == [1]
    assert scores("認証 画面", an_example("画面 認証")) == [2]


def test_nothing_is_chosen_where_there_is_nothing() -> None:
    assert rank_examples((), "form", tokenize, limit=3) == ()


# --- how much of them ---------------------------------------------------------


def cut(max_bytes: int, *texts: str) -> list[tuple[str, bool]]:
    chosen = [FittingExample(an_example(text), 1) for text in texts]
    shown = truncate_examples(chosen, max_bytes=max_bytes)
    return [(each.example.text, each.example.truncated) for each in shown]


def test_texts_that_fit_together_are_whole() -> None:
    assert cut(6, "abc", "déf"[:2], "") == [("abc", False), ("dé", False), ("", False)]


def test_the_best_has_the_room_and_the_others_what_is_left() -> None:
    assert cut(9, "one\ntwo", "x\nyy", "z") == [
        ("one\ntwo", False),
        ("x\n", True),
        ("", True),
    ]


def test_a_text_is_cut_behind_a_line_or_else_behind_a_character() -> None:
    assert cut(9, "one\ntwo\nthree") == [("one\ntwo\n", True)]
    assert cut(4, "aéé") == [("aé", True)]


@given(st.integers(0, 40), st.lists(st.text(max_size=20), max_size=4))
def test_all_texts_together_are_never_too_long(limit: int, texts: list[str]) -> None:
    shown = cut(limit, *texts)

    assert sum(len(text.encode()) for text, _ in shown) <= limit
    for (text, truncated), whole in zip(shown, texts, strict=True):
        assert whole.startswith(text)
        assert truncated is (text != whole)


# --- reading them -------------------------------------------------------------


def read(skill: Skill, *, max_bytes: int = 100, max_files: int = 9) -> tuple[list[str], list[str]]:
    examples, notes = read_examples(skill, max_bytes=max_bytes, max_files=max_files)
    return [each.text for each in examples], list(notes)


def test_only_the_examples_are_read_in_the_order_of_the_files(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "SKILL.md": "no",
        "examples/a.md": "A",
        "examples/b.md": "B",
        "examples/b.py": "no",
    }

    assert read(skill_with(tmp_path, files)) == (["A", "B"], [])


def test_of_a_large_file_the_beginning_is_read(tmp_path: Path) -> None:
    skill = skill_with(tmp_path, {"examples/a.md": "one\ntwo\nthree\n"})

    [example], notes = read_examples(skill, max_bytes=9, max_files=9)

    assert (example.text, example.truncated, notes) == ("one\ntwo", True, ())


def test_a_file_that_cannot_be_read_leaves_a_note_and_the_others(
    tmp_path: Path,
) -> None:
    files = {"a": "A", "changed": "B", "gone": "C", "z": "Z"}
    skill = skill_with(
        tmp_path,
        {f"examples/{name}.md": text for name, text in files.items()} | {"examples/image.md": PNG},
    )
    write(tmp_path / "examples/changed.md", "something else")
    (tmp_path / "examples/gone.md").unlink()

    texts, notes = read(skill)

    assert texts == ["A", "Z"]
    assert [note.partition(" ")[0] for note in notes] == [
        "'examples/changed.md'",
        "'examples/gone.md'",
        "'examples/image.md'",
    ]
    assert "Call refresh_skills" in notes[0]
    assert "no UTF-8 text" in notes[2]


def test_so_many_files_are_looked_at_and_the_rest_is_said(tmp_path: Path) -> None:
    skill = skill_with(tmp_path, {f"examples/{n}.md": str(n) for n in range(4)})

    texts, [note] = read(skill, max_files=3)

    assert texts == ["0", "1", "2"]
    assert note.startswith("Only the first 3 of 4 files were searched.")
    assert read(skill, max_files=4) == (["0", "1", "2", "3"], [])
