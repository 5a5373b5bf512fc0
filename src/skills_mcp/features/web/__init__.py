"""What people look at: pages and REST, and how people sign in to them.

A page is three things:

- a module with a function that takes a `Request` and returns
  `render_page(request, "NAME.html", ...)`; it asks `library_of(request)`, which shows
  what the caller may see
- a template `templates/NAME.html` that extends `layout.html` and fills the blocks
  `title` and `content`
- a line in `_routes` of `site.py`; a name of `_NAVIGATION` puts it into the navigation

Rule: a page has no script and no style of its own: everything stands in `static/`. It
works without JavaScript, and htmx only spares the browser a new page.
"""

from skills_mcp.features.web.entrance import open_web
from skills_mcp.features.web.site import create_site

__all__ = ["create_site", "open_web"]
