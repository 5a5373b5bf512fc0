"""The relying party, against a provider that also misbehaves."""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from skills_mcp.config import Auth, Web
from skills_mcp.features.web.browser_sign_in import (
    OpenIdClient,
    SignedInPerson,
    SignInAttempt,
    SignInRefusedError,
)
from skills_mcp.http.provider_metadata import ProviderUnavailableError
from tests.issuer import Issuer, private_key, running_issuer, unsigned

CALLBACK = "https://skills.example.com/sign-in/callback"
PAGES = "pages"


def client_of(
    url: str, secret: str = "", auth: Mapping[str, Any] | None = None, **web: Any
) -> OpenIdClient:
    return OpenIdClient(Auth(issuer=url, **(auth or {})), Web(client_id=PAGES, **web), secret)


def come_back(
    issuer: Issuer,
    client: OpenIdClient | None = None,
    *,
    needed: tuple[str, ...] = (),
    returned: Mapping[str, str] | None = None,
    answer: Mapping[str, Any] | None = None,
    **token: Any,
) -> SignedInPerson:
    """Sign ada in; the provider answers as a good one unless it is told otherwise."""
    attempt = SignInAttempt.draw()
    said = {"aud": PAGES, "nonce": attempt.nonce, **token}
    id_token = issuer.token(without=("scope", "client_id"), **said)
    issuer.tokens = {"id_token": id_token, "access_token": "opaque", **(answer or {})}
    query = {"code": "a-code", "state": attempt.state, **(returned or {})}
    client = client or client_of(issuer.url)
    return client.finish(attempt, CALLBACK, query, needed)


def test_the_browser_is_sent_with_state_nonce_and_a_challenge(issuer: Issuer) -> None:
    attempt = SignInAttempt.draw()

    url = urlsplit(client_of(issuer.url).begin(attempt, CALLBACK))

    hashed = hashlib.sha256(attempt.verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
    assert f"{url.scheme}://{url.netloc}{url.path}" == f"{issuer.url}/auth"
    assert {name: each for name, [each] in parse_qs(url.query).items()} == {
        "response_type": "code",
        "client_id": PAGES,
        "redirect_uri": CALLBACK,
        "scope": "openid profile",
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    assert attempt.verifier not in url.query


def test_no_two_attempts_share_anything() -> None:
    one, other = SignInAttempt.draw(), SignInAttempt.draw()

    drawn = {one.state, one.nonce, one.verifier}
    assert drawn.isdisjoint({other.state, other.nonce, other.verifier})
    assert all(len(each) >= 43 for each in drawn)


def test_a_person_comes_back_with_what_the_provider_says(issuer: Issuer) -> None:
    person = come_back(issuer, name="Ada Lovelace", groups=["payments"])

    assert person.claims["sub"] == "ada"
    assert person.claims["name"] == "Ada Lovelace"
    assert person.claims["groups"] == ["payments"]
    [(form, sender)] = issuer.forms
    assert form["grant_type"] == "authorization_code"
    assert form["code"] == "a-code"
    assert form["redirect_uri"] == CALLBACK
    assert len(form["code_verifier"]) >= 43
    assert form["client_id"] == PAGES
    assert sender == ""


def test_the_secret_is_sent_as_the_provider_wants_it(issuer: Issuer) -> None:
    come_back(issuer, client_of(issuer.url, "a-secret"))
    issuer.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    come_back(issuer, client_of(issuer.url, "a-secret"))

    (_, basic), (posted, other) = issuer.forms
    expected = base64.b64encode(b"pages:a-secret").decode()
    assert basic == f"Basic {expected}"
    assert posted["client_secret"] == "a-secret"  # noqa: S105
    assert other == ""


@pytest.mark.parametrize(
    "returned, reason",
    [
        ({"state": "made-up"}, "not begun in this browser"),
        ({"state": ""}, "not begun in this browser"),
        ({"iss": "https://evil.example"}, "another identity provider"),
        ({"error": "access_denied"}, "says access_denied: no reason is given"),
        ({"code": ""}, "no code"),
    ],
)
def test_an_answer_that_was_not_asked_for_is_refused_before_any_request(
    issuer: Issuer, returned: Mapping[str, str], reason: str
) -> None:
    with pytest.raises(SignInRefusedError, match=reason):
        come_back(issuer, returned=returned)

    assert not issuer.forms


@pytest.mark.parametrize(
    "token, reason",
    [
        ({"nonce": "of another sign-in"}, "another sign-in"),
        ({"aud": "another client"}, "not for this server"),
        ({"aud": [PAGES, "other"], "azp": "other"}, "for another client"),
        ({"iss": "https://evil.example"}, "not of the issuer"),
        ({"seconds": -300}, "has expired"),
        ({"typ": "Bearer"}, "is no ID token"),
        ({"key": private_key("RS256", 7)}, "signature"),
    ],
)
def test_a_wrong_id_token_lets_nobody_in(
    issuer: Issuer, token: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises(SignInRefusedError, match=reason):
        come_back(issuer, **token)


def test_an_unsigned_id_token_lets_nobody_in(issuer: Issuer) -> None:
    forged = unsigned({"sub": "ada", "iss": issuer.url, "aud": PAGES})

    with pytest.raises(SignInRefusedError, match="not signed"):
        come_back(issuer, answer={"id_token": forged})


def test_keycloaks_id_token_is_one(issuer: Issuer) -> None:
    assert come_back(issuer, typ="ID").claims["typ"] == "ID"


@pytest.mark.parametrize("answer", [{"id_token": None}, {"id_token": 1}, {"id_token": ""}])
def test_an_answer_without_an_id_token_lets_nobody_in(
    issuer: Issuer, answer: Mapping[str, Any]
) -> None:
    with pytest.raises(SignInRefusedError):
        come_back(issuer, answer=answer)


def test_a_code_that_the_provider_refuses_says_what_to_compare(issuer: Issuer) -> None:
    issuer.broken["/token"] = (400, b'{"error": "invalid_client"}')

    with pytest.raises(SignInRefusedError, match=r"invalid_client.*web\.client_id"):
        come_back(issuer)


def test_groups_that_the_id_token_lacks_are_asked_for(issuer: Issuer) -> None:
    issuer.people["opaque"] = {"sub": "ada", "groups": ["payments"], "name": "Other"}

    person = come_back(issuer, needed=("groups",), name="Ada")

    assert person.claims["groups"] == ["payments"]
    assert person.claims["name"] == "Ada"


def test_nothing_is_asked_that_nobody_needs(issuer: Issuer) -> None:
    come_back(issuer, needed=("groups",), groups=["payments"])

    assert "/me" not in issuer.requests


def test_what_is_told_of_another_person_lets_nobody_in(issuer: Issuer) -> None:
    issuer.people["opaque"] = {"sub": "eve", "groups": ["payments"]}

    with pytest.raises(SignInRefusedError, match="another person"):
        come_back(issuer, needed=("groups",))


@pytest.mark.parametrize(
    "answer, scopes",
    [
        ({}, {"openid", "skills:refresh"}),
        ({"scope": "openid"}, {"openid"}),
        ({"scope": ""}, set()),
    ],
)
def test_the_scopes_are_those_that_were_granted(
    issuer: Issuer, answer: Mapping[str, str], scopes: set[str]
) -> None:
    asked = ("openid", "api://skills/skills:refresh")
    client = client_of(issuer.url, auth={"scope_prefix": "api://skills/"}, scopes=asked)

    assert come_back(issuer, client, answer=answer).scopes == scopes


def test_signing_out_ends_the_session_of_the_provider_too(issuer: Issuer) -> None:
    url = client_of(issuer.url).sign_out_url("https://skills.example.com/sign-out")

    assert url == (
        f"{issuer.url}/end?client_id=pages&post_logout_redirect_uri="
        "https%3A%2F%2Fskills.example.com%2Fsign-out"
    )


def test_a_provider_without_such_a_place_is_left_alone(issuer: Issuer) -> None:
    del issuer.metadata["end_session_endpoint"]

    assert client_of(issuer.url).sign_out_url("https://skills.example.com/") == ""


def test_a_provider_that_is_away_is_asked_once_in_a_while() -> None:
    with running_issuer() as gone:
        url = gone.url
    client = client_of(url)

    for _ in range(3):
        with pytest.raises(ProviderUnavailableError, match="cannot be reached"):
            client.begin(SignInAttempt.draw(), CALLBACK)
    with running_issuer(int(url.rpartition(":")[2])) as back:
        with pytest.raises(ProviderUnavailableError):
            client.begin(SignInAttempt.draw(), CALLBACK)

        assert not back.requests


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "userinfo_endpoint"])
def test_nobody_is_sent_where_others_can_listen(issuer: Issuer, name: str) -> None:
    issuer.metadata[name] = "http://login.example.com/"
    client = client_of(issuer.url)

    def sign_in() -> None:
        client.begin(SignInAttempt.draw(), CALLBACK)
        come_back(issuer, client, needed=("groups",))

    with pytest.raises(ProviderUnavailableError, match=f"names no https://.*{name}"):
        sign_in()
