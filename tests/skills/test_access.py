"""Which skills a caller may see: grants, claims and the scope of a request."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Visibility
from skills_mcp.config.sections import Grant
from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.skills.access import (
    EVERYTHING,
    MAX_SCOPE_PATTERNS,
    Access,
    derive_access,
    find_acting_agent,
    parse_scope,
)
from skills_mcp.skills.skill_index import is_enabled
from tests.support import make_skill

SKILLS = (
    make_skill("_root"),
    make_skill("payments/_index"),
    make_skill("payments/refund", name="Refunds"),
    make_skill("ui/button"),
)

ALL = tuple(skill.path for skill in SKILLS)
EVERY_CALLER = Grant(allow=("*",), deny=("payments/**",))
PAYMENTS = Grant(when={"groups": ("payments", "owners")}, allow=("payments/**",))


def seen(access: Access) -> tuple[str, ...]:
    return tuple(skill.path for skill in SKILLS if access.sees(skill))


def asked(access: Access) -> tuple[str, ...]:
    asks_for = access.compile_scope()
    return tuple(skill.path for skill in SKILLS if asks_for(skill))


def test_without_grants_every_caller_sees_everything() -> None:
    assert derive_access(None, {}) == EVERYTHING
    assert seen(EVERYTHING) == ALL


def test_a_caller_without_any_grant_sees_nothing() -> None:
    assert seen(derive_access([], {})) == ()
    assert seen(derive_access([PAYMENTS], {"groups": ["sales"]})) == ()


def test_a_grant_without_conditions_is_for_every_caller() -> None:
    assert seen(derive_access([EVERY_CALLER], {})) == ("_root", "ui/button")


def test_what_one_grant_denies_another_may_give() -> None:
    access = derive_access([EVERY_CALLER, PAYMENTS], {"groups": ["payments"]})

    assert seen(access) == ALL


def test_callers_with_the_same_grants_have_the_same_access() -> None:
    one = derive_access([EVERY_CALLER, PAYMENTS], {"sub": "ann", "groups": ["owners"]})
    other = derive_access([EVERY_CALLER, PAYMENTS], {"sub": "bo", "groups": "payments"})

    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    "when, claims, applies",
    [
        ({"groups": ("a",)}, {"groups": ["b", "a"]}, True),
        ({"groups": ("a",)}, {"groups": "a"}, True),
        ({"groups": ("a",)}, {"groups": "b a"}, False),
        ({"groups": ("b a",)}, {"groups": "b a"}, True),
        ({"groups": ("a",)}, {}, False),
        ({"groups": ("a",)}, {"groups": None}, False),
        ({"groups": ("a",)}, {"groups": {"a": 1}}, False),
        ({"groups": ()}, {"groups": []}, False),
        ({"scope": ("skills:read",)}, {"scope": "openid skills:read"}, True),
        ({"scp": ("skills:read",)}, {"scp": "openid skills:read"}, True),
        ({"level": ("3",)}, {"level": 3}, True),
        ({"email_verified": ("true",)}, {"email_verified": True}, True),
        ({"email_verified": ("1",)}, {"email_verified": True}, False),
        ({"a": ("x",), "b": ("y",)}, {"a": "x", "b": "y"}, True),
        ({"a": ("x",), "b": ("y",)}, {"a": "x"}, False),
        ({"realm.roles": ("dev",)}, {"realm": {"roles": ["dev"]}}, True),
        ({"realm.roles": ("dev",)}, {"realm": "roles"}, False),
        (
            {"realm.roles": ("dev",)},
            {"realm.roles": ["ops"], "realm": {"roles": ["dev"]}},
            False,
        ),
        ({"https://a.example/g": ("a",)}, {"https://a.example/g": ["a"]}, True),
    ],
)
def test_each_claim_that_is_named_must_have_one_of_its_values(
    when: dict[str, tuple[str, ...]], claims: dict[str, Any], *, applies: bool
) -> None:
    access = derive_access([Grant(when=when, allow=("*",))], claims)

    assert bool(seen(access)) is applies


def test_a_folder_pattern_fits_its_rules_too() -> None:
    access = derive_access([Grant(allow=("payments/**",))], {})

    assert seen(access) == ("payments/_index", "payments/refund")


def test_a_pattern_fits_a_name_in_any_case() -> None:
    assert seen(derive_access([Grant(allow=("refunds",))], {})) == ("payments/refund",)


def test_a_scope_narrows_what_is_asked_for_and_not_what_is_seen() -> None:
    access = derive_access([EVERY_CALLER], {}, ("ui/**",))

    assert seen(access) == ("_root", "ui/button")
    assert asked(access) == ("ui/button",)
    assert asked(EVERYTHING) == ALL


def test_a_scope_is_parsed_as_a_header_has_it() -> None:
    assert parse_scope("") == ()
    assert parse_scope(" ui/** ,, pdf,ui/** ") == ("ui/**", "pdf")


@pytest.mark.parametrize(
    "text",
    [
        ",".join(map(str, range(MAX_SCOPE_PATTERNS + 1))),
        "a" * 1000,
        ",".join(f"{n}{'a' * 250}" for n in range(MAX_SCOPE_PATTERNS)),
        ",".join(f"{n}*a[bc]?" for n in range(MAX_SCOPE_PATTERNS)),
        "**/a" * 64 + "*",
    ],
)
def test_a_scope_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="Name folders"):
        parse_scope(text)


def test_a_scope_has_room_for_dozens_of_deep_folders() -> None:
    folders = [f"**/organisation/platform-{n}/payments/refunds/**" for n in range(32)]

    assert len(parse_scope(",".join(folders))) == MAX_SCOPE_PATTERNS


words = st.text(alphabet="ab/*?[]!éÉ_", min_size=1, max_size=8)


@given(words, words, st.lists(words, max_size=3), st.lists(words, max_size=3))
def test_patterns_mean_what_they_mean_in_visibility(
    path: str, name: str, allow: list[str], deny: list[str]
) -> None:
    skill = make_skill(path, name=name)
    access = derive_access([Grant(allow=tuple(allow), deny=tuple(deny))], {})

    same = Visibility.model_construct(allow=tuple(allow), deny=tuple(deny))

    assert access.sees(skill) == (bool(allow) and is_enabled(skill, same))


@pytest.mark.parametrize(
    "claims, is_given",
    [
        ({"sub": "ada", "act": {"sub": "reviewer"}}, True),
        ({"sub": "ada", "act": {"sub": "outer", "act": {"sub": "reviewer"}}}, True),
        ({"sub": "ada", "azp": "reviewer"}, True),
        ({"sub": "reviewer", "client_id": "reviewer"}, True),
        ({"sub": "reviewer"}, False),
        ({"sub": "ada", "azp": "ide", "act": {"client_id": "reviewer"}}, False),
        # A claim of the provider counts alone.
        ({"agent": ["other"], "azp": "reviewer"}, False),
    ],
)
def test_a_grant_is_for_an_agent_that_acts_or_asked_for_the_token(
    claims: dict[str, Any], *, is_given: bool
) -> None:
    grant = Grant(when={"agent": ("reviewer",)}, allow=("payments/**",))

    assert bool(seen(derive_access([grant], claims))) is is_given


@pytest.mark.parametrize(
    "claims, agent",
    [
        ({"sub": "ada", "azp": "ide"}, ""),
        ({"sub": "ada", "act": {"sub": "reviewer"}, "azp": "ide"}, "reviewer"),
        ({"sub": "bot", "client_id": "bot"}, "bot"),
        ({"sub": "bot@clients", "azp": "bot"}, "bot"),
        ({"sub": "1f0c", "azp": "bot", "idtyp": "app"}, "bot"),
        ({"sub": "1f0c", "azp": "bot", "preferred_username": "service-account-bot"}, "bot"),
        ({"sub": "ada", "act": "reviewer"}, ""),
    ],
)
def test_an_agent_acts_for_a_person_or_without_one(claims: dict[str, Any], agent: str) -> None:
    assert find_acting_agent(claims) == agent
