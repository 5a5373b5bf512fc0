"""Sign-in of people: anonymous, by a trusted reverse proxy, or by OpenID Connect.

Rule: a proxy's header counts only if the TCP peer is a configured proxy.
"""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from starlette.types import Scope

from skills_mcp.config import Config, Grant, Http, Web
from skills_mcp.config.loopback import is_loopback
from skills_mcp.errors import ConfigError
from skills_mcp.features.web.browser_session import SessionSigner
from skills_mcp.features.web.notice_page import Notice, NoticeRenderer
from skills_mcp.features.web.open_id import OpenIdClient
from skills_mcp.features.web.proxy_sign_in import ProxySignIn, parse_proxies
from skills_mcp.features.web.sign_in_routes import CALLBACK_PATH, OpenIdSignIn
from skills_mcp.features.web.visitors import BrowserSignIn, Visitor
from skills_mcp.files.durable import read_regular
from skills_mcp.files.kept_key import load_secret_key, read_secret_key
from skills_mcp.http.anonymous import derive_anonymous_scopes
from skills_mcp.skills.principal import READ
from skills_mcp.text.redaction import register_secret

logger = logging.getLogger(__name__)

_MAX_SECRET_BYTES = 4_096


class AnonymousSignIn:
    """Anonymous access to the pages, with the permissions of anonymous programs.

    Args:
        seal: Signs form tokens.
        may_read: Whether anonymous callers may read.
    """

    def __init__(self, seal: SessionSigner, *, may_read: bool) -> None:
        self._may_read = may_read
        self._visitor = Visitor(principal=None, form_token=seal.form_token(""))
        # Without a cookie there is nothing that another page could use.
        self._program = Visitor(principal=None)

    def find(self, scope: Scope) -> Visitor | None:
        """Anonymous visitor; None if anonymous callers may not read."""
        if not self._may_read:
            return None
        return self._program if scope["path"].startswith("/api/") else self._visitor

    def challenge(self, scope: Scope) -> Notice:
        """Name the settings for a sign-in."""
        del scope
        return Notice(
            title="These pages are closed",
            message="This server has no sign-in, and callers without one may not "
            "read. The operator of this server sets http.auth.issuer and "
            "web.client_id, web.trusted_header, or http.anonymous.",
            link="/",
            link_text="Try again",
            status=403,
        )


def choose_sign_in(config: Config, key_file: Path, show: NoticeRenderer) -> BrowserSignIn | None:
    """Sign-in as configured; None without pages for people.

    Args:
        config: The settings, with those of programs already checked by `check_sign_in`.
        key_file: Default file of the cookie key.
        show: Renders a notice.

    Raises:
        ConfigError: The settings contradict each other, or a file cannot be used.
    """
    check_web_settings(config.http, config.web)
    http, web, grants = config.http, config.web, config.access or None
    if not web.enabled:
        return None
    is_proxied = bool(web.trusted_header.user)
    if http.auth.issuer and not web.client_id and not is_proxied:
        logger.info("There are no pages for people: set web.client_id to let them sign in")
        return None
    seal = _open_seal(web, grants, key_file)
    if is_proxied:
        return ProxySignIn(web.trusted_header, seal, grants)
    if not web.client_id:
        return AnonymousSignIn(seal, may_read=READ in derive_anonymous_scopes(config))
    client = OpenIdClient(http.auth, web, _load_secret(web.client_secret_file))
    return OpenIdSignIn(client, seal, http, grants, show)


def check_web_settings(http: Http, web: Web) -> None:
    """Check the settings of the pages.

    Raises:
        ConfigError: They contradict each other, or would expose sessions.
    """
    header = web.trusted_header
    parse_proxies(header.proxies)
    for is_wrong, message in (
        (web.client_id and not http.auth.issuer, _NO_ISSUER),
        (web.client_id and header.user, _TWO_WAYS),
        (web.client_secret_file and not web.client_id, _NO_CLIENT),
        (web.client_id and "openid" not in web.scopes, _NO_OPENID),
        (header.user and not header.proxies, _NO_PROXY),
        ((header.proxies or header.groups) and not header.user, _NO_USER),
        (web.client_id and not _is_private(http), _PLAIN),
        (
            (web.client_id or header.user) and http.stateless and not web.cookie_key_file,
            _NO_KEY,
        ),
    ):
        if web.enabled and is_wrong:
            raise ConfigError(message)


def _is_private(http: Http) -> bool:
    """Whether cookies travel encrypted, or only on this machine."""
    if not http.base_url:
        return True  # then the server listens on this machine only
    parts = urlsplit(http.base_url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _open_seal(web: Web, grants: Sequence[Grant] | None, key_file: Path) -> SessionSigner:
    return SessionSigner(
        _load_cookie_key(web.cookie_key_file, key_file),
        hours=web.session_hours,
        idle_minutes=web.idle_minutes,
        grants=grants,
    )


def _load_cookie_key(setting: str, key_file: Path) -> bytes:
    """Load the key for cookie signatures.

    Raises:
        ConfigError: The configured file has none.
    """
    if not setting:
        return load_secret_key(key_file)
    file = _parse_file("web.cookie_key_file", setting)
    key = _read_or_none(file, read_secret_key)
    if key is None:
        raise ConfigError(
            f"web.cookie_key_file: {file} holds no key. Write what "
            "`openssl rand -hex 32` prints into it, the same for all replicas, and let "
            "the server's user read it."
        )
    register_secret(key.hex())
    return key


def _load_secret(setting: str) -> str:
    """Load the client secret; empty for a public client.

    Raises:
        ConfigError: The file cannot be used.
    """
    if not setting:
        return ""
    file = _parse_file("web.client_secret_file", setting)
    raw = _read_or_none(file, lambda path: read_regular(path, _MAX_SECRET_BYTES))
    secret = (raw or b"").decode("utf-8", "replace").strip()
    if not secret or not secret.isascii() or not secret.isprintable():
        raise ConfigError(
            f"web.client_secret_file: {file} holds no secret of one line. Write the "
            "client secret of your identity provider into it, and let the server's "
            "user read it."
        )
    register_secret(secret)
    return secret


def _parse_file(setting: str, text: str) -> Path:
    """Parse a path setting.

    Raises:
        ConfigError: It is a relative path.
    """
    file = Path(text).expanduser()
    if file.is_absolute():
        return file
    raise ConfigError(
        f"{setting}: {file} is a relative path. Write the whole path of the file, such "
        "as /run/secrets/pages."
    )


def _read_or_none(file: Path, read: Callable[[Path], bytes | None]) -> bytes | None:
    # In a container it is a link to a folder that is replaced as a whole.
    try:
        return read(Path(os.path.realpath(file)))
    except OSError:
        return None


_NO_ISSUER = (
    "web.client_id is set without http.auth.issuer: write the URL of your identity "
    "provider there, or leave both out."
)
_TWO_WAYS = (
    "web.client_id and web.trusted_header.user are both set: people sign in at the "
    "identity provider or at the proxy. Leave one of them out."
)
_NO_CLIENT = (
    "web.client_secret_file is set without web.client_id: write the client ID of the "
    "pages there, or leave both out."
)
_NO_OPENID = "web.scopes must contain openid: without it there is no ID token."
_NO_PROXY = (
    "web.trusted_header.user is set without web.trusted_header.proxies: then each "
    "caller could claim to be anyone. Write the address of your proxy there."
)
_NO_USER = (
    "web.trusted_header has settings, but no user: write the header in which your "
    "proxy names the person, such as X-Forwarded-User, or leave the section out."
)
_PLAIN = (
    "web.client_id needs an https:// URL as http.base_url: over plain HTTP others on "
    "the way can take the session of a person. The redirect URI of the client is that "
    f"URL with {CALLBACK_PATH}."
)
_NO_KEY = (
    "http.stateless is for several replicas, and each would sign cookies with a key of "
    "its own. Set web.cookie_key_file to a file with the same key for all of them."
)
