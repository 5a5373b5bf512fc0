"""Web pages and REST API, and the sign-in of people.

A page is three things:

- a module with a function from a `Request` to `render_template(request, "NAME.html", ...)`;
  it queries `get_visible_library(request)`, limited to the caller's visibility
- a template `templates/NAME.html` that extends `layout.html` and fills the blocks
  `title` and `content`
- a line in `_routes` of `site.py`; a name of `_NAVIGATION` puts it into the navigation

Rule: no inline scripts or styles: all are in `static/`. Pages work without JavaScript;
htmx only saves full page loads.
"""
