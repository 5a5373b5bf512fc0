"""Which sign-in the settings choose, and which they refuse."""

import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config import Config
from skills_mcp.errors import ConfigError
from skills_mcp.features.web.browser import BrowserSignIn
from skills_mcp.features.web.browser_sign_in import (
    AnonymousSignIn,
    OpenIdSignIn,
    ProxySignIn,
    choose_sign_in,
)
from tests.features.web.visiting import show
from tests.support import write

ISSUER = {"issuer": "https://id.example.com"}
SIGNED_IN = {"base_url": "https://skills.example.com", "auth": ISSUER}
PROXY = {"user": "X-Forwarded-User", "proxies": ["10.0.0.5"]}


def choose(
    tmp_path: Path, web: Mapping[str, Any], http: Mapping[str, Any] | None = None
) -> BrowserSignIn | None:
    config = Config.model_validate({"http": http or {}, "web": web}, strict=False)
    return choose_sign_in(config, tmp_path / "web.key", show)


def test_on_this_machine_nobody_signs_in(tmp_path: Path) -> None:
    assert isinstance(choose(tmp_path, {}), AnonymousSignIn)


def test_people_sign_in_where_programs_do(tmp_path: Path) -> None:
    chosen = choose(tmp_path, {"client_id": "pages"}, SIGNED_IN)

    assert isinstance(chosen, OpenIdSignIn)


def test_a_proxy_can_sign_people_in(tmp_path: Path) -> None:
    assert isinstance(choose(tmp_path, {"trusted_header": PROXY}), ProxySignIn)
    chosen = choose(tmp_path, {"trusted_header": PROXY}, SIGNED_IN)
    assert isinstance(chosen, ProxySignIn)


def test_there_are_no_pages_where_only_programs_can_sign_in(tmp_path: Path) -> None:
    assert choose(tmp_path, {}, SIGNED_IN) is None


def test_there_are_no_pages_where_they_are_switched_off(tmp_path: Path) -> None:
    assert choose(tmp_path, {"enabled": False}) is None
    assert choose(tmp_path, {"enabled": False, "client_id": "pages"}, SIGNED_IN) is None


@pytest.mark.parametrize(
    "web, http, message",
    [
        ({"client_id": "a"}, {}, "without http.auth.issuer"),
        ({"client_id": "a", "trusted_header": PROXY}, SIGNED_IN, "both set"),
        ({"client_secret_file": "/x"}, SIGNED_IN, "without web.client_id"),
        ({"client_id": "a", "scopes": ["profile"]}, SIGNED_IN, "must contain openid"),
        ({"trusted_header": {"user": "X-User"}}, {}, "write the address"),
        ({"trusted_header": {"proxies": ["10.0.0.5"]}}, {}, "but no user"),
        ({"trusted_header": {"groups": "X-Groups"}}, {}, "but no user"),
        (
            {"client_id": "a"},
            {**SIGNED_IN, "base_url": "http://skills.example.com"},
            "needs an https:// URL",
        ),
        ({"client_id": "a"}, {**SIGNED_IN, "stateless": True}, "the same key for all"),
        ({"trusted_header": PROXY}, {"stateless": True}, "the same key for all"),
        (
            {"client_id": "a", "client_secret_file": "pages"},
            SIGNED_IN,
            "is a relative path",
        ),
        (
            {"client_id": "a", "client_secret_file": "/does/not/exist"},
            SIGNED_IN,
            "holds no secret",
        ),
        (
            {"client_id": "a", "cookie_key_file": "/does/not/exist"},
            SIGNED_IN,
            "holds no key",
        ),
    ],
)
def test_settings_that_would_let_others_in_are_refused_at_the_start(
    web: Mapping[str, Any], http: Mapping[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="(?i)" + message):
        choose(tmp_path, web, http)


@pytest.mark.parametrize("url", ["http://localhost:8000", "http://127.0.0.1:8000"])
def test_this_machine_needs_no_tls(url: str, tmp_path: Path) -> None:
    http = {**SIGNED_IN, "base_url": url}

    assert isinstance(choose(tmp_path, {"client_id": "pages"}, http), OpenIdSignIn)


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_the_key_of_one_machine_is_made_for_its_user_alone(tmp_path: Path) -> None:
    one, again = choose(tmp_path, {}), choose(tmp_path, {})

    assert isinstance(one, AnonymousSignIn)
    assert isinstance(again, AnonymousSignIn)
    found = one.find({"path": "/"}), again.find({"path": "/"})
    assert found[0]
    assert found[0] == found[1]
    assert stat.S_IMODE((tmp_path / "web.key").stat().st_mode) == 0o600


def test_replicas_share_a_key(tmp_path: Path) -> None:
    key = write(tmp_path / "mounted", "ab" * 32 + "\n")
    link = tmp_path / "link"
    link.symlink_to(key)
    web = {"client_id": "pages", "cookie_key_file": str(link)}

    choose(tmp_path, web, {**SIGNED_IN, "stateless": True})

    assert not (tmp_path / "web.key").exists()


@pytest.mark.parametrize("text", ["", "short", "zz" * 32])
def test_a_key_is_64_digits(text: str, tmp_path: Path) -> None:
    web = {"client_id": "pages", "cookie_key_file": str(write(tmp_path / "key", text))}

    with pytest.raises(ConfigError, match="holds no key"):
        choose(tmp_path, web, SIGNED_IN)


def test_without_sign_in_pages_have_form_tokens_and_programs_need_none(
    tmp_path: Path,
) -> None:
    sign_in = choose(tmp_path, {})

    assert isinstance(sign_in, AnonymousSignIn)
    page = sign_in.find({"path": "/add"})
    program = sign_in.find({"path": "/api/skills/x/upload-install"})
    assert page
    assert program
    assert page.form_token
    assert not program.form_token
