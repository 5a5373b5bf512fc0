"""Tokens that are bound to a key of the client (DPoP, RFC 9449)."""

import base64
import json
import time
import uuid
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import httpx
import jwt
import pytest
from jwt.algorithms import ECAlgorithm

from skills_mcp.http.access_tokens import derive_thumbprint
from tests.http.test_sign_in import BASE, bearer, fields, guarded
from tests.issuer import Issuer, private_key, running_issuer

KEY, OTHER = private_key("ES256", 7), private_key("ES256", 8)
URL = f"{BASE}/mcp"


def public(key: Any) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(ECAlgorithm.to_jwk(key.public_key()))
    return written


def prove(token: str, *, key: Any = KEY, head: dict[str, Any] | None = None, **claims: Any) -> str:
    """Return a proof for `POST /mcp` that is valid unless it is told otherwise."""
    ath = base64.urlsafe_b64encode(sha256(token.encode()).digest()).rstrip(b"=").decode()
    said = {"htm": "POST", "htu": URL, "iat": int(time.time()), "jti": uuid.uuid4().hex}
    said |= {"ath": ath, **claims}
    heads = {"typ": "dpop+jwt", "jwk": public(key), **(head or {})}
    return jwt.encode({k: v for k, v in said.items() if v is not None}, key, "ES256", heads)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def client(issuer: Issuer) -> Iterator[httpx.Client]:
    with guarded(issuer.url) as client:
        yield client


@pytest.fixture(scope="module")
def token(issuer: Issuer) -> str:
    return issuer.token(cnf={"jkt": derive_thumbprint(public(KEY))})


def send(client: httpx.Client, token: str, *proofs: str, scheme: str = "DPoP") -> httpx.Response:
    headers = [("Authorization", f"{scheme} {token}"), *(("DPoP", proof) for proof in proofs)]
    return client.post("/mcp", content=b"{}", headers=headers)


def test_the_holder_of_the_key_comes_in(client: httpx.Client, token: str) -> None:
    reply = send(client, token, prove(token))

    assert reply.json()["subject"] == "ada"
    assert send(
        client, token, prove(token, htu="HTTPS://Skills.example.com:443/mcp?x=1")
    ).is_success


def test_a_copied_token_is_of_no_use(client: httpx.Client, token: str) -> None:
    now = int(time.time())
    stolen = {
        "no proof": (),
        "two proofs": (prove(token), prove(token)),
        "another key": (prove(token, key=OTHER),),
        "key of another": (prove(token, key=OTHER, head={"jwk": public(KEY)}),),
        "private key": (prove(token, head={"jwk": {**public(KEY), "d": "x"}}),),
        "no key": (prove(token, head={"jwk": "x"}),),
        "another kind": (prove(token, head={"typ": "JWT"}),),
        "another method": (prove(token, htm="GET"),),
        "another URL": (prove(token, htu="https://evil.example/mcp"),),
        "no URL": (prove(token, htu=5),),
        "another token": (prove("other"),),
        "old": (prove(token, iat=now - 600),),
        "of tomorrow": (prove(token, iat=now + 86_400),),
        "no time": (prove(token, iat=None),),
        "no name": (prove(token, jti=None),),
        "no JWT": ("x",),
        "long": (f"{prove(token)}{'x' * 9_000}",),
    }

    statuses = {why: send(client, token, *proofs).status_code for why, proofs in stolen.items()}
    as_bearer = send(client, token, prove(token), scheme="Bearer")

    assert statuses == dict.fromkeys(stolen, 401)
    assert as_bearer.status_code == 401


def test_a_proof_is_used_once(client: httpx.Client, token: str) -> None:
    proof = prove(token)

    first, again = send(client, token, proof), send(client, token, proof)

    assert (first.status_code, again.status_code) == (200, 401)
    assert again.headers["WWW-Authenticate"].startswith("DPoP ")
    assert 'error="invalid_dpop_proof"' in again.headers["WWW-Authenticate"]
    assert "used before" in again.json()["error"]["message"]


def test_a_token_for_everyone_is_no_bound_one(client: httpx.Client, issuer: Issuer) -> None:
    free = issuer.token()

    assert send(client, free, prove(free)).status_code == 401
    assert fields(client.post("/mcp", headers=bearer("e30.e30.e30")))["error"] == "invalid_token"


def test_a_setting_accepts_bound_tokens_alone(issuer: Issuer, token: str) -> None:
    with guarded(issuer.url, require_dpop=True) as client:
        free = client.post("/mcp", headers=bearer(issuer.token()), content=b"{}")
        bound = send(client, token, prove(token))
        metadata = client.get("/.well-known/oauth-protected-resource/mcp").json()

    assert (free.status_code, bound.status_code) == (401, 200)
    assert free.headers["WWW-Authenticate"].startswith("DPoP ")
    assert "ES256" in metadata["dpop_signing_alg_values_supported"]
    assert metadata["dpop_bound_access_tokens_required"] is True
