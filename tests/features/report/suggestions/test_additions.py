"""What is added to a frontmatter, and that nothing else changes."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.report.skill_additions import (
    KEYWORD_KEYS,
    UnsafeAdditionError,
    _Addition,
    _check,
    add_clause,
    add_example,
    add_keywords,
)
from skills_mcp.skills.skill_parser import parse_package, parse_rule_file

BODY = "# Rules\n\n---\nkeywords: [none]\n"


def file(head: str) -> bytes:
    return f"---\n{head}\n---\n{BODY}".encode()


def head_of(raw: bytes) -> str:
    return raw.decode().removeprefix("---\n").removesuffix(f"\n---\n{BODY}")


def is_insertion(old: bytes, new: bytes) -> bool:
    """Whether a text is another one with something put in at one place."""
    begin = next((n for n in range(len(old)) if old[n] != new[n]), len(old))
    return old[begin:] == new[len(new) - len(old) + begin :]


@pytest.mark.parametrize(
    "before, after",
    [
        ("description: Log in", "description: Log in. Use when new."),
        ("description: Log in.\nname: a", "description: Log in. Use when new.\nname: a"),
        ("description: Log\n  in!", "description: Log\n  in! Use when new."),
        ('description: "Log in"', 'description: "Log in. Use when new."'),
        ("description: 'Log in.'", "description: 'Log in. Use when new.'"),
        ("description: >-\n  Log\n  in\nname: a",
         "description: >-\n  Log\n  in.\n  Use when new.\nname: a"),
        ("description: |\n  Log in.", "description: |\n  Log in.\n  Use when new."),
    ],
)  # fmt: skip
def test_a_clause_ends_the_description_in_the_style_of_its_author(before: str, after: str) -> None:
    assert head_of(add_clause(file(before), "Use when new.", is_package=True)) == head_of(
        file(after)
    )


@pytest.mark.parametrize(
    "head, reason",
    [
        ("name: a", "no description"),
        ("description: [a]", "no description"),
        (f"description: {'a' * 1020}", "over 1,024 characters"),
        ("description: Log in # to the app", "only a person"),
    ],
)
def test_a_clause_that_cannot_be_added_is_left_to_a_person(head: str, reason: str) -> None:
    with pytest.raises(UnsafeAdditionError, match=reason):
        add_clause(file(head), "Use when new: kiosk # 1.", is_package=True)


@pytest.mark.parametrize(
    "before, after",
    [
        ("keywords: [a, b]  # ours", "keywords: [a, b, sso]  # ours"),
        ("keywords: [a, b,]", "keywords: [a, b, sso,]"),
        ('keywords: ["a", "b"]', 'keywords: ["a", "b", "sso"]'),
        ("keywords:\n- 'a'\n- 'b'", "keywords:\n- 'a'\n- 'b'\n- 'sso'"),
        ("keywords: [\n  a, # first\n  b # last\n]",
         "keywords: [\n  a, # first\n  b, sso # last\n]"),
        ("keywords:\n  - a\n  - 'b'   # ours\n\n# Since May\ninherit: no",
         "keywords:\n  - a\n  - 'b'   # ours\n  - sso\n\n# Since May\ninherit: no"),
        ("keywords:\n- a\ninherit: no", "keywords:\n- a\n- sso\ninherit: no"),
    ],
)  # fmt: skip
def test_a_keyword_joins_those_of_a_rule_file(before: str, after: str) -> None:
    old = file(f"description: One\n{before}")

    new = add_keywords(old, ["sso"], is_package=False)

    assert head_of(new) == f"description: One\n{after}"
    skill, problems = parse_rule_file(new.decode(), file="a.md", directory=None)
    assert skill
    assert skill.keywords[-1] == "sso"
    assert not problems


@pytest.mark.parametrize(
    "before, after",
    [
        ("name: a", "name: a\nmetadata:\n  keywords: sso"),
        ("name: a\nmetadata:\n    # Us\n    owner: web # team\nlicense: MIT",
         ("name: a\nmetadata:\n    # Us\n    owner: web # team\n    keywords: sso\n"
         "license: MIT")),
        ("name: a\nmetadata:\n  keywords: b, c # ours",
         "name: a\nmetadata:\n  keywords: b, c, sso # ours"),
        ("name: a\nmetadata:\n  keywords: 'b, c'",
         "name: a\nmetadata:\n  keywords: 'b, c, sso'"),
        ("name: a\nmetadata:\n  keywords: >-\n    b,\n    c\n  owner: web",
         "name: a\nmetadata:\n  keywords: >-\n    b,\n    c, sso\n  owner: web"),
        ("name: a\ntags: [b]\nmetadata:\n  keywords: c",
         "name: a\ntags: [b, sso]\nmetadata:\n  keywords: c"),
        ("name: a\nmetadata:\n  triggers:\n    keywords: [b]",
         "name: a\nmetadata:\n  triggers:\n    keywords: [b, sso]"),
    ],
)  # fmt: skip
def test_a_keyword_of_a_package_goes_where_its_author_has_them(before: str, after: str) -> None:
    old = file(f"description: One\n{before}")

    new = add_keywords(old, ["sso"], is_package=True)

    assert head_of(new) == f"description: One\n{after}"
    skill, _ = parse_package(new.decode(), file="a/SKILL.md", path="a", files={})  # type: ignore[arg-type]
    assert skill
    assert "sso" in skill.keywords


@pytest.mark.parametrize(
    "before, after",
    [
        ("keywords: [a]", "keywords: [a]\nexamples:\n  - 'add: a # sign, please'"),
        ("keywords: [a]\nexamples: [one]",
         'keywords: [a]\nexamples: [one, "add: a # sign, please"]'),
        ("examples:\n  - query: one\n    note: x\nkeywords: [a]",
         ("examples:\n  - query: one\n    note: x\n  - 'add: a # sign, please'\n"
         "keywords: [a]")),
        ("examples: |\n  one\n\n  two\nkeywords: [a]",
         "examples: |\n  one\n\n  two\n  add: a # sign, please\nkeywords: [a]"),
    ],
)  # fmt: skip
def test_an_example_joins_those_of_a_rule_file(before: str, after: str) -> None:
    old = file(f"description: One\n{before}")

    new = add_example(old, "add: a # sign, please", is_package=False)

    assert head_of(new) == f"description: One\n{after}"
    skill, _ = parse_rule_file(new.decode(), file="a.md", directory=None)
    assert skill
    assert skill.examples[-1] == "add: a # sign, please"


@pytest.mark.parametrize("task", ["no", "null", "- a", "%x", "@a: b", "{a", "'", "a\\n"])
def test_the_metadata_of_a_package_gets_examples_as_one_text(task: str) -> None:
    old = file("name: a\ndescription: One\nmetadata:\n  owner: web")
    try:
        new = add_example(old, task, is_package=True)
    except UnsafeAdditionError:
        assert task == "null"  # YAML's word for nothing
        return

    new = add_example(new, "a second one", is_package=True)

    assert yaml.safe_load(head_of(new))["metadata"] == {
        "owner": "web",
        "examples": f"{task}\na second one",
    }


@pytest.mark.parametrize(
    "head, reason",
    [
        ("description: One\nkeywords: {a: b}", "neither a list nor a text"),
        ("description: One\nkeywords: [a]\nkeywords: [b]", "keywords twice"),
        ("{description: One, keywords: [a]}", "not YAML with"),
        ("description: One\nkeywords: [a", "not YAML with"),
        ("description: &d One\nkeywords: [*d]", "not YAML with"),
    ],
)
def test_what_is_not_understood_is_left_to_a_person(head: str, reason: str) -> None:
    with pytest.raises(UnsafeAdditionError, match=reason):
        add_keywords(file(head), ["sso"], is_package=False)


@pytest.mark.parametrize(
    "head, reason",
    [
        ("examples: one", "no text with |"),
        ("examples: >\n  one", "no text with |"),
        ("examples: [two]", "only a person"),
        ("metadata: {owner: web}", "no mapping with a key per line"),
    ],
)
def test_an_example_that_could_change_others_is_left_to_a_person(head: str, reason: str) -> None:
    with pytest.raises(UnsafeAdditionError, match=reason):
        add_example(file(f"description: One\n{head}"), "two", is_package=True)


def test_an_addition_that_would_change_another_field_is_refused() -> None:
    before = {"metadata": {"owner": "web", "keywords": "a"}}
    added = _Addition("keywords", "sso", KEYWORD_KEYS, is_package=True)

    with pytest.raises(UnsafeAdditionError, match="only a person"):
        _check(before, "metadata: {keywords: 'a, sso'}", ("metadata", "keywords"), added)


@pytest.mark.parametrize(
    "raw, reason",
    [
        (b"# No head\n", "no frontmatter"),
        (b"\n---\nkeywords: [a]\n---\n", "no frontmatter"),
        (b"---\nkeywords: [\xff]\n---\n", "UTF-8"),
        (b"---\r\nkeywords: [a]\n---\n", "different ways"),
    ],
)
def test_a_file_that_begins_otherwise_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(UnsafeAdditionError, match=reason):
        add_keywords(raw, ["sso"], is_package=False)


def test_a_word_that_yaml_may_misread_is_no_keyword() -> None:
    raw = file("description: One\nkeywords: [a]")

    with pytest.raises(UnsafeAdditionError, match="misread"):
        add_keywords(raw, ["a: b"], is_package=False)


def test_line_ends_and_the_mark_of_utf_8_are_kept() -> None:
    plain = file("description: One\nkeywords:\n  - a")
    old = b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n")

    new = add_keywords(old, ["sso"], is_package=False)

    assert new == old.replace(b"  - a\r\n", b"  - a\r\n  - sso\r\n")


_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
_VALUE = st.recursive(
    _TEXT | st.lists(_TEXT, max_size=4),
    lambda inner: st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def heads(draw: st.DrawFn) -> str:
    """Draw a frontmatter as a program writes it, in one of several styles."""
    fields: dict[str, Any] = draw(st.dictionaries(_TEXT, _VALUE, max_size=4))
    place = draw(st.sampled_from([*KEYWORD_KEYS, ("examples",), ("description",)]))
    value: Any = draw(_VALUE)
    for key in reversed(place):
        value = {key: value}
    fields |= value
    return yaml.safe_dump(
        fields,
        default_flow_style=draw(st.sampled_from([None, False])),
        default_style=draw(st.sampled_from([None, "'", '"', "|", ">"])),
        allow_unicode=draw(st.booleans()),
        width=draw(st.sampled_from([20, 1000])),
        indent=draw(st.sampled_from([2, 4])),
    )


@given(heads() | _TEXT, _TEXT, st.booleans(), st.booleans())
def test_whatever_a_frontmatter_holds_the_rest_stays_to_the_byte(
    head: str,
    body: str,
    is_package: bool,  # noqa: FBT001 - Hypothesis passes it
    is_example: bool,  # noqa: FBT001
) -> None:
    old = f"---\n{head.rstrip()}\n---\n{body}".encode()
    try:
        if is_example:
            new = add_example(old, "add a # sign: please", is_package=is_package)
        else:
            new = add_keywords(old, ["sso"], is_package=is_package)
    except UnsafeAdditionError:
        return

    assert is_insertion(old, new)
    assert new.endswith(f"---\n{body}".encode())
    added = new.decode().split("\n---\n")[0].removeprefix("---\n")
    before, after = yaml.safe_load(head), yaml.safe_load(added)
    assert before != after
    kept = {key for key in before if key in after and before[key] == after[key]}
    assert len(before.keys() - kept) <= 1
