"""Each recipe is tried: its settings accept the token that it shows."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from skills_mcp.config import Layer, Settings
from skills_mcp.http.access_tokens import MAX_CHARACTERS
from skills_mcp.http.authentication import check_sign_in
from skills_mcp.skills.access import (
    EVENTS,
    FEEDBACK,
    READ,
    REFRESH,
    REPORT,
    UPLOAD,
)
from tests.docs.pages import DOCS, codes, prose, table
from tests.http.test_sign_in import bearer, guarded
from tests.issuer import Issuer, running_issuer

PAGE = DOCS / "how-to" / "sign-in.md"
RECIPES = ("Keycloak", "Entra ID", "Okta", "Dex")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


def recipe(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of a recipe, and the claims of its token."""
    text = PAGE.read_text(encoding="utf-8")
    [part] = re.findall(rf"^## {name}\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    [settings] = re.findall(r"```yaml\n(.*?)```", part, re.DOTALL)
    [token] = re.findall(r"```json token\n(.*?)```", part, re.DOTALL)
    return yaml.safe_load(settings), json.loads(token)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_accepts_the_token_that_it_shows(name: str, issuer: Issuer) -> None:
    settings, claims = recipe(name)
    section = settings["http"]
    check_sign_in(Settings((Layer("page", settings),)).resolve())
    assert claims["iss"] == section["auth"].pop("issuer")
    said = {**claims, "iss": issuer.url}

    with guarded(issuer.url, base_url=section["base_url"], **section["auth"]) as client:
        unnamed = ("scope", "client_id")
        token = issuer.token(without=() if "scope" in said else unnamed, **said)
        caller = client.get("/mcp", headers=bearer(token))
        other = client.get("/mcp", headers=bearer(issuer.token(aud="other")))

    assert caller.is_success, caller.text
    assert "skills:read" in caller.json()["scopes"]
    assert other.status_code == 401


def test_the_page_names_the_scopes_and_the_answers() -> None:
    scopes = [codes(row["Scope"])[0] for row in table(prose(PAGE)) if "Scope" in row]
    answers = [row["Answer"] for row in table(prose(PAGE)) if "Answer" in row]

    assert scopes == [READ, FEEDBACK, REFRESH, REPORT, EVENTS, UPLOAD]
    assert [each.split()[0] for each in answers] == ["401", "401", "400", "403", "503"]


def test_the_page_about_security_names_the_limit() -> None:
    page = DOCS / "explanation" / "security-over-http.md"

    assert f"{MAX_CHARACTERS:,} characters" in prose(page)
