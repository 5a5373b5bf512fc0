import json
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config import Visibility
from skills_mcp.features.authoring.prompts import (
    Prompt,
    PromptsError,
    check_prompts,
    collect_examples,
    describe_missing_skill,
    load_prompts,
)
from skills_mcp.skills.skill_index import SkillFilter, SkillIndex
from tests.support import make_skill, write

INDEX = SkillIndex(
    (
        make_skill("ui/react/auth", category="web", examples=("add login", "sign in")),
        make_skill("api/errors"),
        make_skill("hidden"),
    ),
    Visibility(deny=("hidden",)),
)


def load(folder: Path, text: str | bytes, name: str = "p.jsonl") -> tuple[Prompt, ...]:
    return load_prompts(write(folder / name, text))


def findings(folder: Path, text: str | bytes, name: str = "p.jsonl") -> list[str]:
    with pytest.raises(PromptsError) as caught:
        load(folder, text, name)
    return list(map(str, caught.value.findings))


def line(**fields: Any) -> str:
    return json.dumps({"query": "add login", "expect": "ui/react/auth", **fields})


def test_each_line_is_a_prompt_and_says_where_it_stands(tmp_path: Path) -> None:
    text = f"# ours\n\n{line(expect=['a', 'b'])}\n{line(ambiguous=True)}\n"

    first, second = load(tmp_path, text)

    assert first == Prompt(query="add login", expect=("a", "b"), origin="p.jsonl:3")
    assert second.is_ambiguous
    assert second.expect == ("ui/react/auth",)
    assert second.origin == "p.jsonl:4"


@pytest.mark.parametrize("expect", [None, []])
def test_a_prompt_may_expect_no_skill(tmp_path: Path, expect: Any) -> None:
    [prompt] = load(tmp_path, line(expect=expect))

    assert prompt.expect == ()


def test_a_prompt_may_say_where_to_look(tmp_path: Path) -> None:
    [prompt] = load(tmp_path, line(within="ui", category="Web"))

    assert prompt.scoping == SkillFilter("ui", "Web")


@pytest.mark.parametrize("name", ["p.yaml", "p.YML"])
def test_yaml_holds_a_list_of_the_same(tmp_path: Path, name: str) -> None:
    text = (
        "# ours\n- query: add login\n  expect: ui/react/auth\n\n"
        "- expect: [a, b]\n  query: |\n    fix\n    - it\n- {query: x, expect: null}\n"
    )

    first, second, third = load(tmp_path, text, name)

    assert first.expect == ("ui/react/auth",)
    assert second.query == "fix\n- it"
    assert third.expect == ()
    assert [p.origin for p in (first, second, third)] == [
        f"{name}:{number}" for number in (2, 5, 9)
    ]


def test_yaml_on_one_line_counts_its_entries(tmp_path: Path) -> None:
    [prompt] = load(tmp_path, "[{query: x, expect: y}]", "p.yaml")

    assert prompt.origin == "p.yaml, entry 1"


def test_other_keys_are_for_other_programs(tmp_path: Path) -> None:
    [prompt] = load(tmp_path, line(id=7, notes="from support", tags=["x"]))

    assert prompt.query == "add login"


@pytest.mark.parametrize(
    "text, said",
    [
        ('{"expect": "a"}', "query is missing"),
        (line(query=" "), "query is missing"),
        ('{"query": "a"}', "expect is missing"),
        (line(expect=7), "expect must be a path, a list of paths or null, not 7"),
        (line(expect=["a", ""]), "expect must be"),
        (line(ambiguous="yes"), "ambiguous must be true or false, not 'yes'"),
        (line(expect=None, ambiguous=True), "ambiguous has no meaning"),
        (line(within=1), "within must be a text"),
        (line(ambigous=True), "'ambigous' is unknown: did you mean ambiguous?"),
        ("[]", "is not a mapping, but []"),
        ("{query: x}", "is not JSON (Expecting property name"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(tmp_path: Path, text: str, said: str) -> None:
    [found] = findings(tmp_path, f"\n{text}")

    assert found.startswith("p.jsonl:2: ")
    assert said in found


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    found = findings(tmp_path, f"{{\n{line()}\n{{}}\n")

    assert [each.split(" ")[0] for each in found] == [*("p.jsonl:1:", "p.jsonl:3:", "p.jsonl:3:")]


def test_the_message_of_many_findings_ends(tmp_path: Path) -> None:
    with pytest.raises(PromptsError, match=r"and 950 more") as caught:
        load(tmp_path, "{\n" * 1000)

    assert len(str(caught.value).splitlines()) == 51


@pytest.mark.parametrize(
    "name, text, said",
    [
        ("p.yaml", "a: b", "is not a list"),
        ("p.yaml", "- [", "is not YAML that can be read"),
        ("p.yaml", f"- query: {'x' * 70_000}", "a JSON Lines file has no size limit"),
        ("p.jsonl", b"\xff", "is not UTF-8 text"),
    ],
)
def test_a_file_of_another_kind_is_refused(
    tmp_path: Path, name: str, text: str | bytes, said: str
) -> None:
    [found] = findings(tmp_path, text, name)

    assert said in found


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PromptsError, match="cannot be read"):
        load_prompts(tmp_path / "missing.jsonl")


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    assert load(tmp_path, f"\ufeff{line()}")


def test_authors_keep_prompts_in_their_skills() -> None:
    prompts = collect_examples(INDEX)

    assert prompts == tuple(
        Prompt(query=query, expect=("ui/react/auth",), origin="ui/react/auth.md")
        for query in ("add login", "sign in")
    )


def prompt(*expect: str, **fields: Any) -> Prompt:
    return Prompt(query="q", expect=expect, origin="p.jsonl:1", **fields)


def test_prompts_that_name_skills_of_the_content_pass() -> None:
    known = (
        prompt("ui/react/auth"),
        prompt(),
        prompt("api/errors", scoping=SkillFilter("/api/")),
        prompt("ui/react/auth", scoping=SkillFilter("ui/react/auth", "Web")),
    )

    check_prompts(known, INDEX)


@pytest.mark.parametrize(
    "wrong, said",
    [
        (prompt(scoping=SkillFilter("ap")), "There is no skill below 'ap'"),
        (prompt(scoping=SkillFilter(category="wep")), "no skill of the category 'wep'"),
    ],
)
def test_a_prompt_that_looks_where_no_skill_is_is_refused(wrong: Prompt, said: str) -> None:
    with pytest.raises(PromptsError, match=r"p\.jsonl:1: ") as caught:
        check_prompts((wrong, prompt("api/errors")), INDEX)

    [found] = map(str, caught.value.findings)
    assert said in found


@pytest.mark.parametrize(
    "wrong, said",
    [
        (prompt("ui/react/aut"), "there is no skill 'ui/react/aut': did you "),
        (prompt("ui/react/aut", "gone"), "did you mean ui/react/auth?"),
        (prompt("errors"), "did you mean api/errors?"),
        (prompt("x" * 500), "there is no skill 'xxx"),
        (prompt("hidden"), "is not offered here"),
        (prompt("gone", "api/errors"), ""),
        (prompt(), ""),
    ],
)
def test_a_skill_that_does_not_exist_is_named(wrong: Prompt, said: str) -> None:
    found = describe_missing_skill(wrong, INDEX)

    assert said in found
    assert bool(said) == bool(found)
