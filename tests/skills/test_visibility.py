"""Which skills a server offers, and what that means for all others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Visibility
from skills_mcp.errors import SkillDisabledError, SkillNotFoundError
from skills_mcp.skills.inheritance import compose, find_in_lineage, inherited_assets
from skills_mcp.skills.model import Asset, Skill
from skills_mcp.skills.skill_index import SkillIndex, is_denied, is_enabled, normalize_pattern
from tests.support import make_skill

SKILLS = (
    make_skill("_root", category="rules"),
    make_skill("office/_index", category="rules"),
    make_skill("office/pdf", category="documents"),
    make_skill("office/xlsx", category="documents"),
    make_skill("web/forms", name="Web Forms", category="web"),
    make_skill("web/plain"),
)


def offered(**rules: Any) -> list[str]:
    return [skill.path for skill in SkillIndex(SKILLS, Visibility(**rules))]


ALL = [skill.path for skill in SKILLS]


def test_without_rules_every_skill_is_offered() -> None:
    assert offered() == ALL


@pytest.mark.parametrize(
    "names, paths",
    [
        (["pdf"], ["office/pdf"]),
        (["PDF", " xlsx "], ["office/pdf", "office/xlsx"]),
        (["web/forms"], ["web/forms"]),
        (["web forms"], ["web/forms"]),
        (["pdf*"], []),
        (["absent"], []),
        (["_root", "pdf"], ["_root", "office/pdf"]),
    ],
)
def test_enabled_skills_are_named_by_name_or_by_path(names: list[str], paths: list[str]) -> None:
    assert offered(enabled_skills=tuple(names)) == paths


@pytest.mark.parametrize(
    "categories, paths",
    [
        (["documents"], ["office/pdf", "office/xlsx"]),
        (["Web", "DOCUMENTS"], ["office/pdf", "office/xlsx", "web/forms"]),
        (["absent"], []),
    ],
)
def test_enabled_categories_are_compared_in_lower_case(
    categories: list[str], paths: list[str]
) -> None:
    assert offered(enabled_categories=tuple(categories)) == paths


def test_enabled_skills_decide_alone_if_there_are_any() -> None:
    found = offered(enabled_skills=("web/plain",), enabled_categories=("documents",))

    assert found == ["web/plain"]


@pytest.mark.parametrize(
    "pattern, paths",
    [
        ("office/*", ["office/_index", "office/pdf", "office/xlsx"]),
        ("OFFICE/P*", ["office/pdf"]),
        ("*forms", ["web/forms"]),
        ("web forms", ["web/forms"]),
        ("office", []),
        ("*", ALL),
        ("o*x", ["office/_index", "office/xlsx"]),
        ("office/[px]*", ["office/pdf", "office/xlsx"]),
        ("pdf", ["office/pdf"]),
        ("_index", ["office/_index"]),
    ],
)
def test_a_pattern_fits_the_whole_path_or_the_whole_name(pattern: str, paths: list[str]) -> None:
    assert offered(allow=(pattern,)) == paths
    assert offered(deny=(pattern,)) == [path for path in ALL if path not in paths]


def test_what_is_denied_is_not_offered_whatever_else_is_set() -> None:
    found = offered(
        deny=("office/pdf",),
        allow=("office/*",),
        enabled_skills=("pdf", "xlsx"),
        enabled_categories=("documents",),
    )

    assert found == ["office/xlsx"]


def test_what_is_not_allowed_is_not_offered_even_if_it_is_enabled() -> None:
    assert offered(allow=("office/*",), enabled_skills=("web/forms", "pdf")) == ["office/pdf"]


RULES = st.builds(
    Visibility,
    **{
        name: st.lists(
            st.sampled_from([*ALL, "pdf", "PDF", "office/*", "web/*", "*", "documents", "Web"]),
            max_size=2,
        ).map(tuple)
        for name in ["enabled_skills", "enabled_categories", "allow", "deny"]
    },
)


@given(RULES, st.sampled_from(SKILLS))
def test_a_rule_more_to_deny_never_shows_more(rules: Visibility, skill: Skill) -> None:
    stricter = rules.model_copy(update={"deny": (*rules.deny, "office/*")})

    assert is_enabled(skill, rules) or not is_enabled(skill, stricter)
    assert not (is_denied(skill, rules) and is_enabled(skill, rules))


# --- what a hidden skill still is ---------------------------------------------


@pytest.mark.parametrize(
    "rules", [{"deny": ("pdf",)}, {"allow": ("web/*",)}, {"enabled_skills": ("xlsx",)}]
)
@pytest.mark.parametrize("name", ["office/pdf", "pdf", "$pdf", "PDF"])
def test_a_hidden_skill_is_known_and_refused(rules: dict[str, Any], name: str) -> None:
    index = SkillIndex(SKILLS, Visibility(**rules))

    with pytest.raises(SkillDisabledError) as caught:
        index.resolve(name)

    assert name.removeprefix("$") in str(caught.value)
    assert "ask the operator" in str(caught.value)


def test_a_hidden_skill_is_refused_by_its_path_in_every_way() -> None:
    index = SkillIndex(SKILLS, Visibility(deny=("office/pdf",)))

    with pytest.raises(SkillDisabledError):
        index.require("office/pdf")
    with pytest.raises(SkillNotFoundError):
        index.require("office/docx")
    assert index.get("office/pdf") is None
    assert index.hidden_count == 1
    assert len(index) == 5


def test_a_hidden_skill_is_not_proposed_for_a_path_that_leads_nowhere() -> None:
    index = SkillIndex(SKILLS, Visibility(deny=("office/pdf",)))

    with pytest.raises(SkillNotFoundError) as caught:
        index.require("other/pd")

    assert "office/pdf" not in str(caught.value)


def rules_of_three() -> tuple[Skill, ...]:
    asset = Asset("logo.svg", "", "image")
    return (
        make_skill("_root", body="R."),
        make_skill("ui/_index", body="U.", assets=(asset,)),
        make_skill("ui/forms", body="F.", category="screens"),
    )


@pytest.mark.parametrize(
    "rules",
    [
        {"enabled_skills": ("forms",)},
        {"allow": ("ui/forms",)},
        {"enabled_categories": ("screens",)},
    ],
)
def test_rules_that_are_not_offered_still_reach_the_skills_below(
    rules: dict[str, Any],
) -> None:
    index = SkillIndex(rules_of_three(), Visibility(**rules))
    [forms] = index

    text = compose(index.contributors(forms))

    assert [part in text for part in ("R.", "U.", "F.")] == [True, True, True]
    assert find_in_lineage(index, forms, "logo.svg") is not None
    assert len(inherited_assets(index.contributors(forms))) == 1


def test_rules_that_are_denied_reach_nobody() -> None:
    index = SkillIndex(rules_of_three(), Visibility(deny=("ui/_index",)))

    forms = index.require("ui/forms")

    assert "U." not in compose(index.contributors(forms))
    assert "R." in compose(index.contributors(forms))
    assert find_in_lineage(index, forms, "logo.svg") is None
    assert inherited_assets(index.contributors(forms)) == ()
    assert [skill.path for skill in index.lineage(forms)] == ["_root", "ui/forms"]


@pytest.mark.parametrize(
    "pattern", ["secret", "./secret", "/secret", "secret/", " secret/SKILL.md"]
)
def test_the_ways_to_write_a_skills_place_are_one(pattern: str) -> None:
    assert normalize_pattern(pattern) == "secret"
