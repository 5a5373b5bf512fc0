"""Web application with its sign-in."""

from functools import partial
from pathlib import Path

from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.features.authoring.intake.uploads import open_uploads
from skills_mcp.features.web.refused_page import show_notice
from skills_mcp.features.web.sign_in_choice import choose_sign_in
from skills_mcp.features.web.sign_in_routes import OpenIdSignIn
from skills_mcp.features.web.site import create_site
from skills_mcp.features.web.visitors import BrowserMiddleware
from skills_mcp.http.application import WebPart
from skills_mcp.library import SkillLibrary


def build_web(library: SkillLibrary, events: EventStore | None, key_file: Path) -> WebPart | None:
    """Build the pages as configured; None if disabled.

    Args:
        library: The unrestricted library.
        events: Data of the report; None if none are kept.
        key_file: Default file of the cookie key.

    Raises:
        ConfigError: The settings of the pages, or of uploads, cannot be used.
    """
    if not library.config.web.enabled:
        return None
    sign_in = choose_sign_in(library.config, key_file, show_notice)
    routes = sign_in.routes if isinstance(sign_in, OpenIdSignIn) else []
    site = create_site(library, events, routes, open_uploads(library))
    if sign_in is None:
        return WebPart(site, None)
    takes_tokens = bool(library.config.http.auth.issuer)
    return WebPart(site, partial(BrowserMiddleware, sign_in=sign_in, takes_tokens=takes_tokens))
