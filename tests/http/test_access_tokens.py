import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.http import access_tokens
from skills_mcp.http.access_tokens import (
    InvalidTokenError,
    TokenValidator,
    parse_scopes,
)
from tests.issuer import (
    AUDIENCE,
    Issuer,
    check,
    private_key,
    running_issuer,
    unsigned,
    validator_of,
)


def test_a_valid_token_says_who_its_bearer_is(issuer: Issuer) -> None:
    claims = check(validator_of(issuer), issuer.token(groups=["payments"]))

    assert claims["sub"] == "ada"
    assert claims["groups"] == ["payments"]


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "ES256", "EdDSA"])
def test_signatures_by_private_keys_are_permitted(issuer: Issuer, algorithm: str) -> None:
    issuer.publish("mine", algorithm)

    claims = check(validator_of(issuer), issuer.token(algorithm=algorithm, kid="mine"))

    assert claims["sub"] == "ada"


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_key_without_alg_may_sign_with_each_algorithm_of_its_family(
    issuer: Issuer, algorithm: str
) -> None:
    del issuer.keys[0]["alg"]

    token = issuer.token(algorithm=algorithm, key=private_key("RS256"))

    assert check(validator_of(issuer), token)["sub"] == "ada"


def test_a_key_without_alg_signs_with_what_the_provider_lists(issuer: Issuer) -> None:
    issuer.metadata["id_token_signing_alg_values_supported"] = ["ES256", "PS256"]
    del issuer.keys[0]["alg"]
    validator, key = validator_of(issuer), private_key("RS256")

    for algorithm in ("PS256", "RS256"):
        assert check(validator, issuer.token(algorithm=algorithm, key=key))["sub"] == "ada"
    for algorithm in ("PS384", "RS512"):
        with pytest.raises(InvalidTokenError, match="another algorithm"):
            check(validator, issuer.token(algorithm=algorithm, key=key))


def test_a_key_with_alg_signs_with_nothing_else(issuer: Issuer) -> None:
    token = issuer.token(algorithm="PS256", key=private_key("RS256"))

    with pytest.raises(InvalidTokenError, match="another algorithm"):
        check(validator_of(issuer), token)


def test_one_of_several_audiences_is_enough(issuer: Issuer) -> None:
    token = issuer.token(aud=["account", AUDIENCE])

    assert check(validator_of(issuer), token)["sub"] == "ada"


@pytest.mark.parametrize("type_", ["at+jwt", "application/at+jwt", "AT+JWT", "JWT"])
def test_the_types_of_access_tokens_are_permitted(issuer: Issuer, type_: str) -> None:
    token = issuer.token(headers={"typ": type_})

    assert check(validator_of(issuer), token)["sub"] == "ada"


@pytest.mark.parametrize(
    "said, reason",
    [
        ({"seconds": -61}, "has expired"),
        ({"nbf_in": 600}, "not valid yet"),
        ({"iat_in": 600}, "not valid yet"),
        ({"iss": "https://evil.example.com"}, "not of the issuer"),
        ({"aud": "https://other.example.com"}, "not for this server"),
        ({"aud": [AUDIENCE + "/"]}, "not for this server"),
        ({"aud": []}, "no aud"),
        ({"aud": {"a": 1}}, "not for this server"),
        ({"without": ("aud",)}, "no aud"),
        ({"without": ("exp",)}, "no exp"),
        ({"without": ("iss",)}, "no iss"),
        ({"without": ("sub",)}, "no sub"),
        ({"sub": 7}, "cannot be read"),
        ({"sub": ""}, "sub of the token is no name"),
        ({"sub": " \t"}, "sub of the token is no name"),
        ({"sub": "ada\nroot"}, "sub of the token is no name"),
        ({"sub": "ada\x00"}, "sub of the token is no name"),
        ({"sub": "ada\u2028"}, "sub of the token is no name"),
        ({"sub": "\ud800"}, "sub of the token is no name"),
        ({"sub": "a" * 256}, "sub of the token is no name"),
        ({"exp": "soon"}, "cannot be read"),
        ({"kid": None}, "does not name its key"),
        ({"kid": "other"}, "no key of the token's name"),
        ({"number": 1}, "signature of the token is wrong"),
        ({"headers": {"typ": "logout+jwt"}}, "no access token"),
        ({"headers": {"typ": "dpop+jwt"}}, "no access token"),
        ({"headers": {"crit": ["exp"], "exp": 1}}, "critical headers"),
        ({"headers": {"crit": []}}, "critical headers"),
        ({"headers": {"alg": "RS512"}}, "another algorithm"),
        ({"typ": "ID"}, "no access token"),
        ({"typ": "Refresh"}, "no access token"),
        ({"at_hash": "x"}, "looks like an ID token"),
        ({"nonce": "x"}, "looks like an ID token"),
        ({"cnf": {"x5t#S256": "x"}}, "bound to its client"),
        ({"cnf": {"jkt": "x", "jku": "y"}}, "bound to its client"),
        ({"cnf": "x"}, "bound to its client"),
    ],
    ids=str,
)
def test_a_token_is_refused_with_its_reason(
    issuer: Issuer, said: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidTokenError, match=reason):
        check(validator_of(issuer), issuer.token(**said))


@pytest.mark.parametrize("sub", ["a" * 255, "Åda 李", "CgNhZGESBGxkYXA", "auth0|5"])
def test_a_subject_need_not_be_ascii(issuer: Issuer, sub: str) -> None:
    assert check(validator_of(issuer), issuer.token(sub=sub))["sub"] == sub


def test_a_clock_may_differ_by_the_skew(issuer: Issuer) -> None:
    late, early = issuer.token(seconds=-30), issuer.token(nbf_in=30)

    assert check(validator_of(issuer), late)
    assert check(validator_of(issuer), early)
    with pytest.raises(InvalidTokenError, match="expired"):
        check(validator_of(issuer, clock_skew_seconds=10), late)


def test_a_token_without_a_signature_is_refused(issuer: Issuer) -> None:
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})

    with pytest.raises(InvalidTokenError, match="permitted algorithm"):
        check(validator_of(issuer), unsigned(claims))


def test_the_public_key_is_no_secret_to_sign_with(issuer: Issuer) -> None:
    pem = (
        private_key("RS256")
        .public_key()
        .public_bytes(
            serialization.Encoding.PEM,
            serialization.PublicFormat.SubjectPublicKeyInfo,
        )
    )
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    # PyJWT refuses to sign with a PEM, so the key is hidden from its check.
    forged = jwt.encode(claims, pem[1:], "HS256", {"kid": "first"})

    with pytest.raises(InvalidTokenError, match="permitted algorithm"):
        check(validator_of(issuer), forged)


def test_a_published_secret_signs_nothing(issuer: Issuer) -> None:
    issuer.keys.append({"kty": "oct", "k": "c2VjcmV0" * 8, "kid": "shared"})
    token = issuer.token(algorithm="HS256", key="secret" * 8, kid="shared")
    disguised = issuer.token(kid="shared")

    with pytest.raises(InvalidTokenError, match="permitted algorithm"):
        check(validator_of(issuer), token)
    with pytest.raises(InvalidTokenError, match="no key of the token's name"):
        check(validator_of(issuer), disguised)


def test_a_short_key_is_refused(issuer: Issuer) -> None:
    short = rsa.generate_private_key(65537, 1024)  # noqa: S505 - on purpose
    parsed = jwt.get_algorithm_by_name("RS256").to_jwk(short.public_key(), as_dict=True)
    issuer.keys.append({**parsed, "kid": "short"})
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        token = issuer.token(key=short, kid="short")

    with pytest.raises(InvalidTokenError, match="too short"):
        check(validator_of(issuer), token)


@pytest.mark.parametrize("name", ["jku", "x5u", "jwk"])
def test_no_key_that_a_token_brings_is_used(issuer: Issuer, name: str) -> None:
    evil = private_key("RS256", 1)
    brought: Any = f"{issuer.url}/evil"
    if name == "jwk":
        brought = jwt.get_algorithm_by_name("RS256").to_jwk(evil.public_key(), as_dict=True)

    with pytest.raises(InvalidTokenError, match="signature"):
        check(validator_of(issuer), issuer.token(key=evil, headers={name: brought}))

    assert f"{issuer.url}/evil" not in issuer.requests
    assert "/evil" not in issuer.requests


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "a.b.c", "a b c", "é.é.é", "e30.e30.", "W10.e30.e30"),
        *("\x00", "\ud800.a.b", "bnVsbA.e30.e30"),
    ],
)
def test_what_is_no_token_is_refused(issuer: Issuer, text: str) -> None:
    with pytest.raises(InvalidTokenError):
        check(validator_of(issuer), text)

    assert issuer.requests == []


_HEADERS = st.dictionaries(
    st.sampled_from(["alg", "typ", "kid", "crit", "b64", "jku", "other"]),
    st.one_of(
        st.sampled_from(["RS256", "none", "HS256", "JWT", "at+jwt", "first"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=2),
            max_leaves=3,
        ),
    ),
)


@given(header=_HEADERS, rest=st.text("abcAB.=-_ \u00e9\ud800\x00", max_size=20))
def test_whatever_comes_as_a_token_is_refused(
    known: TokenValidator, header: dict[str, Any], rest: str
) -> None:
    head = jwt.utils.base64url_encode(json.dumps(header).encode()).decode()

    for token in (f"{head}.{rest}", f"{head}.e30.{rest}", rest):
        with pytest.raises(InvalidTokenError):
            check(known, token)


@pytest.fixture(scope="module")
def known() -> TokenValidator:
    """A validator that has its keys, whose provider has gone."""
    with running_issuer() as issuer:
        validator = validator_of(issuer)
        validator.load_first_keys()
        assert check(validator, issuer.token())
    return validator


def test_a_huge_token_is_refused_before_it_is_read(issuer: Issuer) -> None:
    token = issuer.token(groups=["x" * access_tokens.MAX_CHARACTERS])

    with pytest.raises(InvalidTokenError, match="longer than"):
        check(validator_of(issuer), token)

    assert issuer.requests == []


def test_deeply_nested_claims_are_refused(issuer: Issuer) -> None:
    deep = '{"kid":"first","alg":"RS256","a":' + "[" * 9_000
    head = jwt.utils.base64url_encode(deep.encode()).decode()

    with pytest.raises(InvalidTokenError, match="no JWT"):
        check(validator_of(issuer), f"{head}.e30.e30")


def test_no_reason_repeats_a_text_of_the_token(issuer: Issuer) -> None:
    token = issuer.token(iss='evil"\r\nSet-Cookie: a=b')

    with pytest.raises(InvalidTokenError) as refused:
        check(validator_of(issuer), token)

    assert "evil" not in str(refused.value)


def test_a_token_like_an_id_token_passes_if_the_operator_says_so(
    issuer: Issuer,
) -> None:
    validator = validator_of(issuer, accept_id_tokens=True)

    assert check(validator, issuer.token(at_hash="x", nonce="y"))["sub"] == "ada"


def test_a_token_that_has_expired_is_not_known_again(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator, token = validator_of(issuer), issuer.token(seconds=-30)
    check(validator, token)
    monkeypatch.delattr(jwt, "decode")

    with pytest.raises(AttributeError, match="decode"):
        check(validator, token)


def test_a_known_token_is_not_decoded_again(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator, token = validator_of(issuer), issuer.token()
    first = check(validator, token)
    monkeypatch.delattr(jwt, "decode")

    assert check(validator, token) is first


def test_only_so_many_tokens_are_known(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_tokens, "_MAX_CACHED_TOKENS", 2)
    validator = validator_of(issuer)

    for number in range(4):
        check(validator, issuer.token(jti=str(number)))

    assert len(validator._cache) == 2


@pytest.mark.parametrize(
    "claims, expected",
    [
        ({"scope": "skills:read skills:refresh"}, {"skills:read", "skills:refresh"}),
        ({"scp": "skills:read"}, {"skills:read"}),
        ({"scp": ["skills:read", 7, None]}, {"skills:read"}),
        ({"scope": "a", "scp": ["b"]}, {"a", "b"}),
        ({"scope": ""}, set()),
        ({"scope": None}, set()),
        ({"scope": {"skills:read": 1}}, set()),
        ({"scope": "api://x/skills:read"}, {"skills:read"}),
        ({"roles": ["skills:read"]}, None),
        ({}, None),
    ],
)
def test_scopes_are_a_text_or_a_list(claims: dict[str, Any], expected: set[str] | None) -> None:
    assert parse_scopes(claims, ("scope", "scp"), prefix="api://x/") == expected
