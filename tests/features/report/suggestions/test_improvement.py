"""Which additions are kept, by what the real matcher answers with them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from skills_mcp.features.authoring.prompts import Prompt, collect_examples
from skills_mcp.features.report import skill_additions as improvement_module
from skills_mcp.features.report.skill_additions import (
    AcceptedAddition,
    ClauseAddition,
    Improvement,
    LaterAdditions,
    TaskAddition,
    WordAddition,
    rate_outcome,
    try_additions,
)
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.skill_discovery import MAX_SKILL_BYTES
from tests.packages import write_package
from tests.support import open_library, write, write_skill


def prompt(query: str, *expect: str, avoid: Sequence[str] = ()) -> Prompt:
    return Prompt(query=query, expect=expect, avoid=tuple(avoid), origin="test")


def words(skill: str, *added: str) -> WordAddition:
    return WordAddition(skill, added)


def run(
    folder: Path,
    additions: Sequence[WordAddition],
    *prompts: Prompt,
    tasks: Sequence[TaskAddition] = (),
    clauses: Sequence[ClauseAddition] = (),
) -> Improvement:
    library = open_library(folder)
    own = collect_examples(library.view().snapshot.index)
    later = LaterAdditions(lambda _idle, _outcomes: clauses, lambda _: tasks)
    with library.edited_copy() as copy:
        return try_additions(copy, (*own, *prompts), additions, later)


def rates(improvement: Improvement) -> list[tuple[int, int]]:
    both = zip(improvement.before, improvement.after, strict=True)
    return [(rate_outcome(old), rate_outcome(new)) for old, new in both]


def is_same_as_served(folder: Path, improvement: Improvement) -> bool:
    """Whether the program answers so if the new texts are really in the files."""
    for each in improvement.texts:
        write(folder / each.editable.file, each.new)
    library: SkillLibrary = open_library(folder)
    now = run(folder, [], *(outcome.prompt for outcome in improvement.before))
    assert library.view().snapshot.problems == ()
    return [o.answers for o in now.before][-len(improvement.after) :] == [
        o.answers for o in improvement.after
    ]


@pytest.fixture
def rivals(tmp_path: Path) -> Path:
    """Two skills that share the one word of most tasks."""
    write_skill(tmp_path, "api.md", keywords=["auth", "api", "jwt"])
    write_skill(tmp_path, "web.md", keywords=["auth", "login", "page"])
    return tmp_path


def test_a_keyword_that_settles_a_task_is_kept(rivals: Path) -> None:
    asked = prompt("auth at the kiosk", "web"), prompt("auth of a kiosk", "web")

    done = run(rivals, [words("web", "kiosk")], *asked)

    gains = tuple(each.query for each in asked)
    assert done.accepted == (AcceptedAddition(words("web", "kiosk"), gains),)
    assert done.rejected == ()
    assert rates(done) == [(1, 2), (1, 2)]
    [text] = done.texts
    assert text.diff.startswith(b"diff --git a/web.md b/web.md\n")
    assert b"+- kiosk\n" in text.diff
    assert is_same_as_served(rivals, done)


def test_a_keyword_that_takes_a_skill_from_an_example_is_dropped(rivals: Path) -> None:
    # A keyword more lowers what each of the others is worth: one of four is too little.
    write(rivals / "config.yaml", "matching:\n  min_score: 0.3\n")
    text = (rivals / "web.md").read_text()
    write(rivals / "web.md", text.replace("---\n", "---\nexamples: [a login]\n", 1))

    done = run(rivals, [words("web", "kiosk")], prompt("auth at the kiosk", "web"))

    [dropped] = done.rejected
    assert (dropped.reason, dropped.detail) == ("harm", "a login")
    assert (done.accepted, done.texts) == ((), ())
    assert rates(done) == [(2, 2), (1, 1)]


def test_a_keyword_that_draws_a_task_away_from_another_skill_is_dropped(
    rivals: Path,
) -> None:
    mine, other = prompt("auth at the kiosk", "web"), prompt("api for a kiosk", "api")

    done = run(rivals, [words("web", "kiosk")], mine, other)

    assert [each.reason for each in done.rejected] == ["harm"]


def test_a_task_that_a_skill_does_not_help_with_may_not_find_it(rivals: Path) -> None:
    mine = prompt("auth at the kiosk", "web")
    bad = prompt("paint a kiosk", avoid=["web"])

    done = run(rivals, [words("web", "kiosk")], mine, bad)

    assert [each.reason for each in done.rejected] == ["harm"]


def test_a_clause_is_kept_unless_a_task_gets_worse(rivals: Path) -> None:
    write(rivals / "config.yaml", "matching:\n  algorithm: ranked\n")
    asked = prompt("auth at the kiosk", "web"), prompt("jwt of the api", "api")
    helpful, harmful = ClauseAddition("web", ("kiosk",)), ClauseAddition("web", ("jwt", "api"))
    silent = ClauseAddition("api", ("kiosk",), "web")

    done = run(rivals, [], *asked, clauses=[helpful, harmful, silent])

    assert [each.addition for each in done.accepted] == [helpful, silent]
    assert done.accepted[1].gains == ()
    assert is_same_as_served(rivals, done)


def test_a_keyword_that_changes_nothing_is_dropped(rivals: Path) -> None:
    done = run(rivals, [words("web", "kiosk")], prompt("a login", "web"))

    assert [each.reason for each in done.rejected] == ["no-gain"]


def test_words_that_help_only_together_are_kept_together(tmp_path: Path) -> None:
    many = [f"word{number}" for number in range(4)]
    write_skill(tmp_path, "web.md", keywords=["auth", *many])
    write_skill(tmp_path, "api.md", keywords=["auth", "api", "jwt", "scope"])

    done = run(
        tmp_path,
        [words("web", "kiosk"), words("web", "badge")],
        prompt("auth with a badge at the kiosk", "web"),
    )

    assert [each.addition for each in done.accepted] == [words("web", "kiosk", "badge")]
    assert done.rejected == ()


def test_a_task_that_is_settled_already_needs_no_other_word(rivals: Path) -> None:
    asked = prompt("auth with a badge at the kiosk", "web")

    done = run(rivals, [words("web", "kiosk"), words("web", "badge")], asked)

    assert [each.addition for each in done.accepted] == [words("web", "kiosk")]
    assert [each.reason for each in done.rejected] == ["no-gain"]


def test_additions_to_several_skills_are_judged_together(rivals: Path) -> None:
    additions = [words("web", "kiosk"), words("api", "badge")]

    done = run(rivals, additions, prompt("auth at a kiosk", "web"), prompt("auth badge", "api"))

    assert [each.addition for each in done.accepted] == additions
    assert [each.editable.file for each in done.texts] == ["api.md", "web.md"]
    assert rates(done) == [(1, 2), (1, 2)]
    assert is_same_as_served(rivals, done)


def test_an_example_is_added_where_its_skill_is_the_answer(rivals: Path) -> None:
    asked = prompt("a login", "web"), prompt("auth", "web")
    tasks = [TaskAddition("web", each.query) for each in asked]

    done = run(rivals, [], *asked, tasks=tasks)

    assert [each.addition for each in done.accepted] == tasks[:1]
    assert b"+examples:\n+  - a login\n" in done.texts[0].diff


def test_a_skill_gets_a_few_examples_at_once(rivals: Path) -> None:
    asked = [prompt(f"a login {number}", "web") for number in range(5)]
    tasks = [TaskAddition("web", each.query) for each in asked]

    done = run(rivals, [], *asked, tasks=tasks)

    assert [each.addition for each in done.accepted] == tasks[:3]
    [text] = done.texts
    assert text.diff.count(b"\n+  - a login ") == 3


def test_a_skill_that_examples_would_break_gets_none_and_keeps_its_keyword(
    rivals: Path,
) -> None:
    keyword = "- kiosk\n"
    text = (rivals / "web.md").read_text()
    write(rivals / "web.md", text.ljust(MAX_SKILL_BYTES - len(keyword)))
    asked = prompt("auth at the kiosk", "web"), prompt("jwt api", "api")
    tasks = [TaskAddition(each.expect[0], each.query) for each in asked]

    done = run(rivals, [words("web", "kiosk")], *asked, tasks=tasks)

    assert [each.addition for each in done.accepted] == [
        words("web", "kiosk"),
        tasks[1],
    ]
    [dropped] = done.rejected
    assert (dropped.addition, dropped.reason) == (tasks[0], "unsafe")
    assert is_same_as_served(rivals, done)


def test_a_head_that_cannot_be_edited_safely_is_left_out_with_the_reason(
    tmp_path: Path,
) -> None:
    write(
        tmp_path / "web.md",
        "---\ndescription: One\nkeywords: [auth]\nkeywords: [auth, login]\n---\n",
    )
    write_skill(tmp_path, "api.md", keywords=["auth", "api"])

    done = run(tmp_path, [words("web", "kiosk")], prompt("auth of a kiosk", "web"))

    [dropped] = done.rejected
    assert (dropped.reason, dropped.detail) == (
        "unsafe",
        "it has keywords twice in one place",
    )
    assert done.texts == ()


def test_a_package_is_improved_by_its_metadata(tmp_path: Path) -> None:
    for name in ("customs-forms", "tax-forms"):
        write_package(tmp_path, name, description="Fill in forms.")
    asked = (
        prompt("stamp the forms", "tax-forms"),
        prompt("a stamp on forms", "tax-forms"),
    )

    done = run(tmp_path, [words("tax-forms", "stamp")], *asked)

    assert len(done.accepted) == 1
    assert b"+metadata:\n+  keywords: stamp\n" in done.texts[0].diff
    assert is_same_as_served(tmp_path, done)


def test_only_so_many_are_tried_and_the_others_are_named(
    rivals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(improvement_module, "MAX_TRIALS", 1)
    additions = [words("web", "kiosk"), words("api", "badge")]

    done = run(rivals, additions, prompt("auth at the kiosk", "web"))

    assert [each.addition for each in done.accepted] == additions[:1]
    [dropped] = done.rejected
    assert (dropped.addition, dropped.reason) == (additions[1], "limit")


def test_without_an_addition_nothing_is_tried(rivals: Path) -> None:
    done = run(rivals, [], prompt("a login", "web"))

    assert (done.accepted, done.rejected, done.texts) == ((), (), ())
    assert done.before == done.after
