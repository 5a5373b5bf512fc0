"""The pages and REST, and what lets people in to them."""

from functools import partial
from pathlib import Path

from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.features.authoring.intake.uploads import open_uploads
from skills_mcp.features.web.refused_page import show_notice
from skills_mcp.features.web.sign_in_choice import choose_sign_in
from skills_mcp.features.web.sign_in_routes import OpenIdSignIn
from skills_mcp.features.web.site import create_site
from skills_mcp.features.web.visitors import Visitors
from skills_mcp.http.application import WebPart
from skills_mcp.library import SkillLibrary


def open_web(
    library: SkillLibrary, events: EventStore | None, key_file: Path
) -> WebPart | None:
    """Return the pages as the settings have them; None if they are switched off.

    Args:
        library: What is shown.
        events: What the report is made of; None if none are kept.
        key_file: Where the key of cookies is kept if no setting names a file.

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
    return WebPart(site, partial(Visitors, sign_in=sign_in, takes_tokens=takes_tokens))
