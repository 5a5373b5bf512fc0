"""Any text ends in a skill or in the reason why not."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.files.paths import parse_relative
from skills_mcp.skills.model import Argument, Asset, Problem, Script, Skill
from skills_mcp.skills.skill_parser import derive_rule_path, parse_rule_file
from tests.support import skill_text

FOLDER = Path("nowhere")


def parse(text: str) -> tuple[Skill | None, tuple[Problem, ...]]:
    return parse_rule_file(text, file="ui/react/auth.md", directory=FOLDER)


def parse_good(text: str) -> Skill:
    skill, problems = parse(text)
    assert problems == ()
    assert skill is not None
    return skill


def parse_served(text: str) -> tuple[Skill, str]:
    """Return a skill with the one thing in it that is wrong."""
    skill, [problem] = parse(text)
    assert skill is not None
    assert problem.level == "warning"
    assert problem.file == "ui/react/auth.md"
    assert problem.hint
    return skill, problem.reason


def reason_not_served(text: str) -> str:
    skill, [problem] = parse(text)
    assert skill is None
    assert problem.level == "error"
    assert problem.hint
    return problem.reason


@pytest.mark.spec("4.2")
def test_everything_that_a_file_declares_is_read() -> None:
    text = """---
description: React authentication components and patterns
keywords: [react, auth, component]
inherit: false
priority: 10
assets:
  - file: assets/AuthProvider.tsx.template
    description: A provider
    type: template
scripts:
  - file: scripts/scaffold.sh
    description: Writes the files
    execution: server
    args:
      - name: component_name
        description: In PascalCase
        required: false
---

# Auth

Use the provider.
"""

    assert parse_good(text) == Skill(
        path=derive_rule_path("ui/react/auth.md"),
        file="ui/react/auth.md",
        name="auth",
        description="React authentication components and patterns",
        keywords=("react", "auth", "component"),
        body="# Auth\n\nUse the provider.",
        inherit=False,
        priority=10,
        assets=(Asset("assets/AuthProvider.tsx.template", "A provider", "template"),),
        scripts=(
            Script(
                "scripts/scaffold.sh",
                "Writes the files",
                "server",
                (Argument("component_name", "In PascalCase", required=False),),
            ),
        ),
        directory=FOLDER,
    )


@pytest.mark.spec("4.2")
def test_what_a_file_leaves_out_has_the_specified_default() -> None:
    text = """---
description: D
keywords: [k]
assets: [{file: a.txt}]
scripts: [{file: s.sh, args: [{name: n}]}]
---
"""

    skill = parse_good(text)

    assert skill.inherit is True
    assert skill.priority == 0
    assert skill.assets == (Asset("a.txt", "", "other"),)
    argument = Argument("n", "", required=True)
    assert skill.scripts == (Script("s.sh", "", "claude", (argument,)),)


@pytest.mark.spec("4.2")
def test_a_file_without_assets_and_scripts_has_none() -> None:
    skill = parse_good(skill_text())

    assert skill.assets == ()
    assert skill.scripts == ()


@pytest.mark.spec("4.3")
@pytest.mark.parametrize(
    "file, path",
    [
        ("_root.md", "_root"),
        ("ui/_index.md", "ui/_index"),
        ("ui/react/_index.md", "ui/react/_index"),
        ("ui/react/auth.md", "ui/react/auth"),
        ("no-inherit.md", "no-inherit"),
        ("notes.md.md", "notes.md"),
        ("v1.2.md", "v1.2"),
    ],
)
def test_the_path_is_the_file_without_its_extension(file: str, path: str) -> None:
    assert derive_rule_path(file) == path


@pytest.mark.spec("4.2")
@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "has no frontmatter"),
        ("# Title\n\n---\n\ntext", "has no frontmatter"),
        ("--\ndescription: D\n--\n", "has no frontmatter"),
        ("---\ndescription: D\n", "has a frontmatter that never ends"),
        ("---", "has a frontmatter that never ends"),
        ("---\nkeywords: [a\n---\n", "has a frontmatter that is no valid YAML"),
        ("---\na: &x b\nc: *x\n---\n", "no valid YAML: it uses an alias"),
        ("---\n" + "[" * 60_000 + "\n---\n", "no valid YAML: it is nested deeper"),
        ("---\n" + "#" * 70_000 + "\n---\n", "no valid YAML: it is longer than"),
        ("---\n- a\n---\n", "has a frontmatter without `key: value` lines"),
        ("---\njust text\n---\n", "has a frontmatter without `key: value` lines"),
        ("---\n\n---\nbody", "has a frontmatter without `key: value` lines"),
        ("---\ndescription: D\n---\n", "has no keywords"),
        ("---\ndescription: D\nkeywords:\n---\n", "has no keywords"),
        ("---\ndescription: D\nkeywords: []\n---\n", "has no keywords"),
        ("---\ndescription: D\nkeywords: ['', ' ']\n---\n", "has no keywords"),
        ("---\ndescription: D\nkeywords: [[a]]\n---\n", "has no keywords"),
        ("---\ndescription: D\nkeywords: a, b\n---\n", "has keywords, not a list"),
        ("---\ndescription: D\nkeywords: {a: b}\n---\n", "has keywords, not a list"),
        ("---\nkeywords: [a]\n---\n", "has no description"),
        ("---\ndescription: '  '\nkeywords: [a]\n---\n", "has no description"),
        ("---\ndescription: ~\nkeywords: [a]\n---\n", "has no description"),
        ("---\ndescription: [D]\nkeywords: [a]\n---\n", "has no description"),
    ],
)
def test_a_file_that_is_no_skill_says_why(text: str, reason: str) -> None:
    assert reason in reason_not_served(text)


@pytest.mark.spec("4.2")
def test_everything_that_keeps_a_file_from_being_served_is_said_at_once() -> None:
    skill, problems = parse("---\npriority: 1\n---\n")

    assert skill is None
    reasons = [problem.reason for problem in problems]
    assert reasons == ["has no keywords", "has no description"]


def test_an_error_in_the_frontmatter_names_the_line_of_the_file() -> None:
    text = "---\ndescription: D\nkeywords: [a]\npriority: 1: 2\n---\n"

    assert reason_not_served(text).endswith("in line 4")


@pytest.mark.parametrize(
    "text, why",
    [
        ("\ufeff---\ndescription: D\nkeywords: [k]\n---\nB", "a byte order mark"),
        ("\n\n---\ndescription: D\nkeywords: [k]\n---\nB", "empty lines before it"),
        ("---\r\ndescription: D\r\nkeywords: [k]\r\n---\r\nB\r\n", "line ends of DOS"),
        ("-----\ndescription: D\nkeywords: [k]\n----\nB", "more than three dashes"),
        ("---  \ndescription: D\nkeywords: [k]\n--- \nB", "spaces after the dashes"),
        ("---\ndescription: D\nkeywords: [k]\n---\n\n\nB\n\n", "empty lines around it"),
    ],
)
def test_the_frontmatter_is_found_in_spite_of(text: str, why: str) -> None:
    skill = parse_good(text)

    assert (skill.description, skill.keywords, skill.body) == ("D", ("k",), "B"), why


def test_line_ends_of_dos_do_not_reach_the_body() -> None:
    text = "---\r\ndescription: D\r\nkeywords: [k]\r\n---\r\none\r\n\r\ntwo\r\n"

    assert parse_good(text).body == "one\n\ntwo"


def test_a_rule_in_the_body_is_part_of_the_body() -> None:
    text = "---\ndescription: D\nkeywords: [k]\n---\nabove\n\n---\n\nbelow\n"

    assert parse_good(text).body == "above\n\n---\n\nbelow"


@pytest.mark.spec("4.2")
@pytest.mark.parametrize(
    "written, keywords",
    [
        ("[react, auth]", ("react", "auth")),
        ("[' react ', auth]", ("react", "auth")),
        ("[no, 1.10, 0x1F, 2026-01-31]", ("no", "1.10", "0x1F", "2026-01-31")),
        ("[React, C++, .net]", ("React", "C++", ".net")),
        ("[認証, créer, 'react hooks']", ("認証", "créer", "react hooks")),
    ],
)
def test_keywords_are_the_texts_that_the_author_wrote(
    written: str, keywords: tuple[str, ...]
) -> None:
    text = f"---\ndescription: D\nkeywords: {written}\n---\n"

    assert parse_good(text).keywords == keywords


@pytest.mark.parametrize(
    "written, keywords",
    [
        ("[a, b, a]", ("a", "b")),
        ("[React, react]", ("React",)),
        ("[STRASSE, straße, b]", ("STRASSE", "b")),
        ("[a, '', b]", ("a", "b")),
        ("[a, [b], {c: d}, e]", ("a", "e")),
        ("[b, a, A, B, c]", ("b", "a", "c")),
    ],
)
def test_each_keyword_is_kept_once_where_it_stands_first(
    written: str, keywords: tuple[str, ...]
) -> None:
    text = f"---\ndescription: D\nkeywords: {written}\n---\n"

    skill, reason = parse_served(text)

    assert skill.keywords == keywords
    assert reason == "has keywords that are empty, repeated or no text"


def test_a_description_of_several_lines_becomes_one() -> None:
    text = "---\ndescription: |\n  One.\n\n  Two.\nkeywords: [k]\n---\n"

    assert parse_good(text).description == "One. Two."


@pytest.mark.spec("4.2")
@pytest.mark.parametrize(
    "written, inherit",
    [
        ("true", True),
        ("false", False),
        ("False", False),
        ("no", False),
        ("OFF", False),
        ("'false'", False),
        ("yes", True),
        ("", True),
        ("~", True),
        ("Null", True),
    ],
)
def test_inherit_is_true_unless_it_says_false(written: str, inherit: bool) -> None:  # noqa: FBT001
    text = f"---\ndescription: D\nkeywords: [k]\ninherit: {written}\n---\n"

    assert parse_good(text).inherit is inherit


@pytest.mark.parametrize("written", ["maybe", "0", "1", "[false]", "{a: b}", "[]"])
def test_any_other_inherit_is_reported_and_taken_for_true(written: str) -> None:
    text = f"---\ndescription: D\nkeywords: [k]\ninherit: {written}\n---\n"

    skill, reason = parse_served(text)

    assert skill.inherit is True
    assert reason.startswith("has inherit: ")
    assert reason.endswith(", so true is used")


def test_a_rule_file_can_be_a_core_skill() -> None:
    text = "---\ndescription: D\nkeywords: [k]\nalwaysApply: true\n---\n"

    assert parse_good(text).always_apply
    assert not parse_good(text.replace("true", "false")).always_apply


@pytest.mark.spec("4.2")
@pytest.mark.parametrize(
    "written, priority",
    [("5", 5), ("-5", -5), ("+5", 5), ("1000", 1000), ("-1000", -1000), ("", 0)],
)
def test_a_priority_is_a_whole_number(written: str, priority: int) -> None:
    text = f"---\ndescription: D\nkeywords: [k]\npriority: {written}\n---\n"

    assert parse_good(text).priority == priority


@pytest.mark.parametrize(
    "written", ["high", "1.5", "1001", "-1001", "9" * 5000, "[1]", "{a: 1}", "1e3"]
)
def test_any_other_priority_is_reported_and_taken_for_zero(written: str) -> None:
    text = f"---\ndescription: D\nkeywords: [k]\npriority: {written}\n---\n"

    skill, reason = parse_served(text)

    assert skill.priority == 0
    assert reason.startswith("has priority: ")
    assert reason.endswith(", so 0 is used")


@pytest.mark.spec("7.1")
@pytest.mark.parametrize(
    "file", ["../secret", "/etc/passwd", "a/../../b", "a\\b", "C:/x", "nul.txt"]
)
@pytest.mark.parametrize("key", ["assets", "scripts"])
def test_a_declared_file_outside_the_folder_is_left_out(key: str, file: str) -> None:
    fields: dict[str, Any] = {key: [{"file": file}, {"file": "good.txt"}]}

    skill, reason = parse_served(skill_text(**fields))

    assert [entry.file for entry in skill.entries()] == ["good.txt"]
    assert reason == f"declares {file!r}, which is not inside its folder"


@pytest.mark.spec("7.1")
def test_without_a_folder_there_are_no_assets_and_no_scripts() -> None:
    text = skill_text(assets=[{"file": "a.txt"}], scripts=[{"file": "s.sh"}])

    skill, [problem] = parse_rule_file(text, file="a/b.md", directory=None)

    assert skill is not None
    assert tuple(skill.entries()) == ()
    assert problem.reason == "declares assets or scripts, but has no folder for them"
    assert "a/b/" in problem.hint


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"assets": [{"type": "image"}]}, "has an entry in assets without file"),
        ({"assets": ["a.txt"]}, "has an entry in assets without file"),
        ({"assets": [{"file": ["a.txt"]}]}, "has an entry in assets without file"),
        ({"assets": "a.txt"}, "has assets, not a list"),
        ({"assets": {"file": "a.txt"}}, "has assets, not a list"),
        ({"scripts": [{"file": ""}]}, "has an entry in scripts without file"),
        ({"scripts": "run.sh"}, "has scripts, not a list"),
        (
            {"scripts": [{"file": "s.sh", "args": [{"required": True}]}]},
            "has an entry in args without name",
        ),
        ({"scripts": [{"file": "s.sh", "args": "name"}]}, "has args, not a list"),
        (
            {"scripts": [{"file": "s.sh", "args": [{"name": "n", "required": "?"}]}]},
            "has required: '?', so true is used",
        ),
    ],
)
def test_a_wrong_declaration_is_reported_and_the_skill_served(
    fields: dict[str, Any], reason: str
) -> None:
    assert parse_served(skill_text(**fields))[1] == reason


@pytest.mark.spec("12.2")
@pytest.mark.parametrize("execution", ["Server", "SERVER", "sever", "client", "true"])
def test_a_spelling_mistake_never_moves_a_script_to_the_server(execution: str) -> None:
    scripts = [{"file": "s.sh", "execution": execution}]

    skill, reason = parse_served(skill_text(scripts=scripts))

    assert skill.scripts[0].execution == "claude"
    assert reason.startswith(f"has execution: {execution!r} for s.sh")


# --- any text at all ----------------------------------------------------------

WORDS = st.sampled_from(
    [
        *("description", "keywords", "inherit", "priority", "assets", "scripts"),
        *("file", "type", "execution", "args", "name", "required", "server"),
        *("true", "no", "null", "~", "0", "-1", "1.5", "../x", "a.txt", "''", "é"),
    ]
)
PUNCTUATION = st.sampled_from(
    [
        *(": ", ":\n  ", "\n", "\n- ", "- ", "[", "]", "{", "}", ", ", "*", "&"),
        *("|\n  ", "!!int ", "'", '"', "#", "---\n", "\t", "<<: ", "? ", "%", "\0"),
    ]
)
FRONTMATTERISH = st.lists(WORDS | PUNCTUATION, max_size=40).map(
    lambda parts: "---\n" + "".join(parts) + "\n---\nbody"
)

LEAF = st.none() | st.booleans() | st.integers(-9999, 9999) | st.text(max_size=8)
TREE = st.recursive(
    LEAF | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


def is_skill_or_problem(text: str) -> None:
    for directory in (None, FOLDER):
        skill, problems = parse_rule_file(text, file="a.md", directory=directory)

        errors = [problem for problem in problems if problem.level == "error"]
        assert bool(errors) is (skill is None)
        for problem in problems:
            assert problem.file == "a.md"
            assert problem.reason
            assert problem.hint
        if skill:
            assert all(skill.keywords)
            assert skill.description
            for entry in skill.entries():
                assert parse_relative(entry.file)


@pytest.mark.spec("4.2")
@given(st.text())
@example("---")
@example("---\n---\n---")
@example("---\n\ud800: 1\n---\n")
def test_any_text_is_a_skill_or_a_problem(text: str) -> None:
    is_skill_or_problem(text)


@pytest.mark.spec("4.2")
@given(FRONTMATTERISH)
def test_anything_between_two_lines_of_dashes_is_a_skill_or_a_problem(
    text: str,
) -> None:
    is_skill_or_problem(text)


@pytest.mark.spec("4.2")
@given(st.dictionaries(WORDS, TREE, max_size=6))
def test_any_value_of_any_field_is_a_skill_or_a_problem(fields: dict[str, Any]) -> None:
    good = {"description": "D", "keywords": ["k"]}

    for values in (fields, good | fields, fields | good):
        is_skill_or_problem(f"---\n{yaml.safe_dump(values)}---\nbody")


SEEN = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)


@pytest.mark.spec("4.2")
@given(
    SEEN.filter(lambda text: text.casefold() not in {"~", "null"}),  # as good as none
    st.lists(SEEN, min_size=1, max_size=4, unique_by=str.casefold),
)
@example("no", ["1.10", "2026-01-31", "~", "0x1F", "null", "- a", "a: b", "#c"])
def test_what_can_be_seen_is_read_as_it_was_written(description: str, keywords: list[str]) -> None:
    fields = {"description": description, "keywords": keywords}
    text = f"---\n{yaml.safe_dump(fields, allow_unicode=True)}---\nbody"

    skill, _ = parse_rule_file(text, file="a.md", directory=None)

    assert skill is not None
    assert skill.description == description
    assert list(skill.keywords) == keywords


def test_control_characters_never_reach_a_terminal() -> None:
    text = '---\ndescription: "\\e[31mred"\nkeywords: ["a\\u0007b"]\n---\nBody'

    skill, problems = parse_rule_file(text, file="a.md", directory=None)

    assert skill is not None
    assert (skill.description, skill.keywords) == ("[31mred", ("ab",))
    assert [problem.reason for problem in problems] == [
        "has control characters, which are left out"
    ]
