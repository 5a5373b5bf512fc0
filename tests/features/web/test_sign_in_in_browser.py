"""People sign in at a real provider, in a real browser, and see what is theirs."""

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from soak.http.identity_provider import (
    IdentityProvider,
    find_port,
    install,
    make_key,
)
from soak.scenario import Unavailable
from tests.features.web.conftest import Site, find_barriers, opened_site
from tests.support import write

pytestmark = pytest.mark.skipif(
    not os.environ.get("CI") and not (shutil.which("npm") and shutil.which("node")),
    reason="npm and node are missing; Debian's packages npm and nodejs have them",
)

SECRET = "only-for-this-test"  # noqa: S105 - of a client that lives as long as the test
HIDDEN = "ui/react/auth"
GRANTS = [
    {"allow": ["*"], "deny": ["ui/react/**"]},
    {"when": {"groups": ["react"]}, "allow": ["**"]},
]


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("sign-in")
    port = find_port()
    url = f"http://127.0.0.1:{port}"
    client = {
        "client_id": "pages",
        "client_secret": SECRET,
        "redirect_uris": [f"{url}/sign-in/callback"],
        "post_logout_redirect_uris": [f"{url}/sign-out"],
    }
    people = {"client": client, "groups": {"ada": ["react"], "eve": ["sales"]}}
    file = write(folder / "people.json", json.dumps(people))
    try:
        installed = install(folder / "provider")
    except Unavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    provider = IdentityProvider(installed, f"{url}/mcp", file)
    provider.start(make_key("first"))
    try:
        settings: dict[str, Any] = {
            "http": {"port": port, "base_url": url, "auth": {"issuer": provider.url}},
            "web": {
                "client_id": "pages",
                "scopes": ["openid", "profile", "skills:report"],
                "client_secret_file": str(write(folder / "secret", f"{SECRET}\n")),
            },
            "access": GRANTS,
        }
        with opened_site(browser, **settings) as opened:
            yield opened
    finally:
        provider.kill()


def sign_in(page: Page, name: str) -> None:
    """Fill in the provider's page, and agree."""
    page.get_by_placeholder("Enter any login").fill(name)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_a_person_signs_in_and_sees_what_the_groups_give(site: Site) -> None:
    page = site.open(f"skills/{HIDDEN}")
    sign_in(page, "ada")

    expect(page).to_have_url(f"{site.url}skills/{HIDDEN}")
    expect(page.get_by_text("Name of ada")).to_be_visible()
    assert find_barriers(page) == []


def test_a_skill_of_another_group_is_nowhere(site: Site) -> None:
    page = site.open()
    sign_in(page, "eve")
    expect(page.get_by_text("Name of eve")).to_be_visible()
    hidden = [
        f"skills/{HIDDEN}",
        f"api/skills/{HIDDEN}/preview",
        f"api/skills/{HIDDEN}/files/x.md",
    ]
    shown = [
        "?q=react+auth",
        "?area=ui",
        "try?task=react+auth+login",
        f"try?task=login&skill={HIDDEN}",
        "problems",
        "problems?source=.&level=error",
        "sources",
        "report",
        "api/skills",
        "api/skills?q=react+auth",
    ]

    answers = {path: page.request.get(f"{site.url}{path}") for path in hidden + shown}
    missing = page.request.get(f"{site.url}skills/ui/other/auth")

    for path in hidden:
        assert answers[path].status == 404, path
    for path in shown:
        assert answers[path].status == 200, path
    # What was asked for stands in the form; what there is does not stand anywhere.
    for path in ("?area=ui", "problems", "sources", "report", "api/skills"):
        assert "ui/react" not in answers[path].text(), path
    for path in (
        "?q=react+auth",
        "try?task=react+auth+login",
        "api/skills?q=react+auth",
    ):
        assert HIDDEN not in answers[path].text(), path
    refused = answers[f"skills/{HIDDEN}"].text()
    assert refused.replace(HIDDEN, "X") == missing.text().replace("ui/other/auth", "X")


def test_signing_out_ends_both_sessions(site: Site) -> None:
    page = site.open()
    sign_in(page, "ada")

    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Yes, sign me out").click()

    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    assert find_barriers(page) == []
    page.goto(site.url)
    expect(page.get_by_placeholder("Enter any login")).to_be_visible()


def test_a_form_of_another_page_is_refused(site: Site) -> None:
    page = site.open()
    sign_in(page, "ada")
    expect(page.get_by_text("Name of ada")).to_be_visible()  # a page that leaves is not reloaded

    refused = page.request.post(f"{site.url}sign-out", form={"form_token": "0" * 64})
    foreign = page.request.post(f"{site.url}sign-out", headers={"Origin": "https://evil.example"})

    assert refused.status == 403
    assert "This form was not sent" in refused.text()
    assert foreign.status == 403
    page.reload()
    expect(page.get_by_text("Name of ada")).to_be_visible()


def test_a_callback_that_nobody_asked_for_is_refused(site: Site) -> None:
    page = site.open()

    page.goto(f"{site.url}sign-in/callback?code=stolen&state=made-up")

    expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    assert find_barriers(page) == []


def test_no_cookie_is_for_scripts(site: Site) -> None:
    page = site.open()
    sign_in(page, "ada")
    expect(page.get_by_text("Name of ada")).to_be_visible()

    assert page.evaluate("document.cookie") == ""
    [kept] = [each for each in page.context.cookies() if each["name"] == "skills_session"]
    assert kept["httpOnly"]
    assert kept["sameSite"] == "Lax"
