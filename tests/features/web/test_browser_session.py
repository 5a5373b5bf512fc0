"""What a browser keeps, and for how long that counts."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import jwt
import pytest

from skills_mcp.config import Grant
from skills_mcp.features.web.browser import (
    ATTEMPT_SECONDS,
    MAX_ENDED,
    BrowserSession,
    SessionSigner,
    begin_session,
)
from skills_mcp.skills.access import FEEDBACK, READ, REFRESH
from tests.issuer import Clock, unsigned

KEY = bytes(range(32))
GRANTS = (
    Grant(allow=("*",)),
    Grant(when={"groups": ("payments", "core")}, allow=("pay/**",)),
    Grant(when={"realm_access.roles": ("admin",)}, allow=("**",)),
)
CLAIMS = {
    "sub": "ada",
    "iss": "https://id.example.com",
    "name": "Ada Lovelace",
    "groups": ["payments", *(f"unknown-{number}" for number in range(500))],
    "realm_access": {"roles": ["admin", "other"]},
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


def seal(clock: Clock, key: bytes = KEY, grants: Iterable[Grant] = GRANTS) -> SessionSigner:
    return SessionSigner(key, hours=6, grants=tuple(grants), clock=clock)


def session(clock: Clock, **claims: Any) -> BrowserSession:
    return begin_session({**CLAIMS, **claims}, frozenset(), GRANTS, clock())


def test_a_browser_brings_back_the_session_it_was_given(clock: Clock) -> None:
    begun = session(clock)
    sealed = seal(clock).sign_session(begun)

    assert seal(clock).verify_session(sealed) == begun
    assert begun.name == "Ada Lovelace"


def test_only_claims_that_decide_something_are_kept(clock: Clock) -> None:
    kept = session(clock)

    assert kept.claims == {"groups": ["payments"], "realm_access.roles": ["admin"]}
    assert len(seal(clock).sign_session(kept)) < 800


def test_a_session_sees_what_a_token_with_its_claims_sees(clock: Clock) -> None:
    opened = seal(clock).verify_session(seal(clock).sign_session(session(clock)))

    assert opened
    caller = opened.principal(GRANTS)
    assert caller.access.grants == (
        (("*",), ()),
        (("pay/**",), ()),
        (("**",), ()),
    )
    assert caller.subject == "ada"
    assert caller.issuer == "https://id.example.com"


def test_a_grant_that_is_withdrawn_counts_at_once(clock: Clock) -> None:
    sealed = seal(clock).sign_session(session(clock))

    assert seal(clock, grants=GRANTS[:1]).verify_session(sealed) is None


@pytest.mark.parametrize(
    "granted, scopes",
    [
        ((), {READ}),
        (("openid", REFRESH, "other"), {READ, REFRESH}),
        ((FEEDBACK, REFRESH), {READ, FEEDBACK, REFRESH}),
    ],
)
def test_every_person_may_read_and_more_only_by_a_scope(
    granted: tuple[str, ...], scopes: set[str], clock: Clock
) -> None:
    begun = begin_session(CLAIMS, frozenset(granted), GRANTS, clock())

    assert begun.principal(GRANTS).scopes == scopes


def test_a_session_that_is_not_used_ends(clock: Clock) -> None:
    sealed = seal(clock).sign_session(session(clock))
    clock.seconds += 60 * 60 - 1
    assert seal(clock).verify_session(sealed)

    clock.seconds += 1

    assert seal(clock).verify_session(sealed) is None


def test_a_session_that_is_used_ends_at_a_fixed_time(clock: Clock) -> None:
    used, began = session(clock), clock()
    sealed = seal(clock).sign_session(used)

    while opened := seal(clock).verify_session(sealed):
        clock.seconds += 30 * 60
        used = seal(clock).renew(opened) or used
        sealed = seal(clock).sign_session(used)

    assert clock() == began + 6 * 60 * 60


def test_a_session_is_not_written_anew_for_each_request(clock: Clock) -> None:
    begun = session(clock)
    clock.seconds += 60

    assert seal(clock).renew(begun) is None


def test_nothing_else_is_a_session(clock: Clock) -> None:
    ours = seal(clock)
    good = ours.sign_session(session(clock))
    said = jwt.decode(good, options={"verify_signature": False})
    forged = [
        "",
        "x",
        good[:-2] + ("AA" if good[-2:] != "AA" else "BB"),
        seal(clock, bytes(32)).sign_session(session(clock)),
        unsigned(said),
        ours.sign_attempt({"state": "s"}),
        jwt.encode({**said, "aud": "sign-in"}, KEY, "HS256"),
        jwt.encode({k: v for k, v in said.items() if k != "exp"}, KEY, "HS256"),
    ]

    assert [ours.verify_session(each) for each in forged] == [None] * len(forged)


def test_an_attempt_lasts_some_minutes_and_is_no_session(clock: Clock) -> None:
    ours = seal(clock)
    attempt = ours.sign_attempt({"state": "s"})
    assert (ours.verify_attempt(attempt) or {})["state"] == "s"
    assert ours.verify_attempt(ours.sign_session(session(clock))) is None

    clock.seconds += ATTEMPT_SECONDS

    assert ours.verify_attempt(attempt) is None


def test_a_form_of_another_session_is_no_form_of_this_one(clock: Clock) -> None:
    ours, one, other = seal(clock), session(clock), session(clock)
    tokens = {
        ours.form_token(one.sid),
        ours.form_token(other.sid),
        seal(clock, bytes(32)).form_token(one.sid),
    }

    assert len(tokens) == 3
    assert seal(clock).form_token(one.sid) in tokens


def test_a_person_without_a_name_is_called_by_the_next_best(clock: Clock) -> None:
    assert session(clock, name=None, preferred_username="ada1").name == "ada1"
    assert session(clock, name="", email="ada@example.com").name == "ada@example.com"
    assert session(clock, name=1).name == "ada"
    assert len(session(clock, name="A" * 5000).name) == 100


def test_a_session_that_was_ended_here_is_over_in_all_its_cookies(clock: Clock) -> None:
    begun, here, elsewhere = session(clock), seal(clock), seal(clock)
    clock.seconds += 30 * 60
    renewed = here.renew(begun)
    assert renewed

    here.end(begun)

    for each in (begun, renewed):
        sealed = here.sign_session(each)
        assert here.verify_session(sealed) is None
        # Replicas share a key, and no memory.
        assert elsewhere.verify_session(sealed) == each


def test_of_ended_sessions_the_oldest_are_forgotten_first(clock: Clock) -> None:
    one, other = session(clock), session(clock)
    it = seal(clock)
    it.end(one)
    it.end(other)
    for number in range(MAX_ENDED - 1):
        it.end(replace(one, sid=f"{number}"))

    assert it.verify_session(it.sign_session(one)) == one
    assert it.verify_session(it.sign_session(other)) is None


@pytest.mark.parametrize("name", ["", " ", "\ud800", "a\nb", 7, None])
def test_a_name_that_cannot_be_shown_is_left_out(clock: Clock, name: object) -> None:
    assert session(clock, name=name, preferred_username="ada_l").name == "ada_l"
    assert session(clock, name=name).name == "ada"
