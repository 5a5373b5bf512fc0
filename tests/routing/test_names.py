"""Which skills a text names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.routing.matcher import Mask
from skills_mcp.routing.search import NameIndex, normalize_name

NAMES = NameIndex(
    ["_root", "a/pdf-forms", "b/pdf_forms", "c/straße", "docs/Release Notes", "kafka"],
    ["_root", "pdf-forms", "pdf", "Straße", "Release Notes", "kafka-topics"],
)


def number_of(names: NameIndex, text: str, within: Mask = None) -> int | None:
    named = names.find_unique(text, within)
    return named and named.number


@pytest.mark.parametrize(
    "text, number",
    [
        ("a/pdf-forms", 1),
        ("A/PDF Forms", 1),
        ("b/pdf-forms", 2),
        ("$kafka", 5),
        (" release   notes\n", 4),
        ("docs/release_notes", 4),
        ("STRASSE", 3),
        ("pdf", 2),
        ("kafka-t", 5),
        ("rel", 4),
        ("release_no", 4),
        ("_root", 0),
    ],
)
def test_a_text_names_a_skill_by_path_or_name_or_its_only_beginning(text: str, number: int) -> None:
    assert number_of(NAMES, text) == number


@pytest.mark.parametrize(
    "task, number",
    [
        ("use the kafka-topics skill", 5),
        ("The skill `docs/release_notes`, please", 4),
        ("use the $kafka-topics skill.", 5),
        ("kafka topics skill", None),
        ("use kafka-topics", None),
        ("the kafka-topics skills", None),
    ],
)
def test_a_task_names_a_skill_beside_that_word(task: str, number: int | None) -> None:
    named = NAMES.find_mentioned(task)

    assert (named and named.number) == number


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "it is empty"),
        ("$", "nothing stands behind it"),
        ("re", "too short for a beginning"),
        ("pd", "too short, and not the only one"),
        ("the release notes", "there is more in it"),
        ("release", "a whole word that begins a name may describe another skill"),
        ("release no", "several words are no name that is cut off"),
        ("forms", "names begin otherwise"),
        ("a/pdf", "a path is whole"),
    ],
)
def test_other_texts_name_none(text: str, reason: str) -> None:
    assert NAMES.find_unique(text) is None, reason


def test_a_name_that_several_skills_have_names_none_of_them() -> None:
    names = NameIndex(["a/x", "b/x", "c/xenon"], ["review", "Review", "review-code"])

    assert names.find_name("review") == (0, 1)
    assert names.find_unique("review") is None
    assert names.find_unique("rev") is None
    assert number_of(names, "a/x") == 0


def test_what_may_not_be_found_is_not_in_the_way() -> None:
    names = NameIndex(["a/x", "b/x"], ["review", "review"])

    assert number_of(names, "review", np.array([False, True])) == 1
    assert number_of(names, "revi", np.array([True, False])) == 0
    assert names.find_unique("review", np.array([False, False])) is None


def test_paths_that_differ_in_signs_alone_are_both_found() -> None:
    names = NameIndex(["a-b", "a_b"], ["x", "y"])

    assert names.find_path("A b") == (0, 1)
    assert names.find_unique("a_b") is None


def test_a_skill_belongs_to_the_organisation_unless_it_says_otherwise() -> None:
    assert NAMES.scope(1) == "org"
    assert NameIndex(["a"], ["a"], ["user"]).scope(0) == "user"


@pytest.mark.parametrize(
    "file, first",
    [
        ("b/Pdf-Forms/SKILL.md", (1, 2)),
        ("/content/c/straße.md", (3,)),
        ("kafka.md", (5,)),
        ("elsewhere/SKILL.md", (0, 5)),
    ],
)
def test_a_file_leads_to_the_skills_it_may_belong_to(file: str, first: tuple[int, ...]) -> None:
    assert NAMES.find_by_file(file)[: len(first)] == first


TEXTS = st.text("abAB _-é", max_size=4)


@given(st.lists(TEXTS, max_size=8), TEXTS)
def test_a_look_up_equals_a_look_at_every_name(every: list[str], text: str) -> None:
    names = NameIndex([f"p/{name}" for name in every], every)
    wanted = normalize_name(text)

    folded = list(map(normalize_name, every))

    assert sorted(names.find_name(text)) == [n for n, name in enumerate(folded) if name == wanted]
    assert sorted(names.find_by_prefix(text)) == [
        n for n, name in enumerate(folded) if name.startswith(wanted)
    ]
    assert list(names.find_path(f"P/{text}")) == [
        n for n, name in enumerate(folded) if name == wanted
    ]
