"""`skills-mcp --transport http`: one server for many callers."""

import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import anyio

from skills_mcp.about import DISTRIBUTION
from skills_mcp.bootstrap import Application, find_home, open_event_backend
from skills_mcp.config import Config
from skills_mcp.errors import ConfigError
from skills_mcp.processes.memory import gc_frozen

_NEEDED = ("alembic", "authlib", "jwt", "prometheus_client", "sqlalchemy", "uvicorn")


def run_http(
    application: Application,
    command: str = "--transport http",
    on_open: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal; the process ends here.

    Args:
        application: The application to serve.
        command: The command line, for messages.
        on_open: Called with the URL as soon as there are skills; the server is then for
            the local user alone.
    """
    _require_extra(command)
    from skills_mcp.http.http_server import serve_http
    from skills_mcp.server.app import create_server
    from skills_mcp.server.parts import Serving, open_parts

    library = application.library
    if on_open is None:
        _refuse_discovery(library.config)
    with gc_frozen():
        collection = open_event_backend(application, os.environ)
        serving = Serving(
            server=create_server(library, is_shared=True),
            library=library,
            publisher=collection.publisher,
            transport="tcp",
            home=find_home(os.environ),
            environment=dict(os.environ),
            store=collection.store,
        )
        parts = open_parts(serving)
    anyio.run(partial(serve_http, serving, parts, on_open=on_open))


def _refuse_discovery(config: Config) -> None:
    """Refuse to share one person's skills with many callers.

    Raises:
        ConfigError: Discovery is on.
    """
    if config.discover:
        raise ConfigError(
            "discover serves the skills of one person's project and home, and "
            "--transport http serves many callers. Switch it off with --no-discover or "
            "`discover: false`, and name what to serve in sources."
        )


def _require_extra(command: str) -> None:
    """Require the packages for HTTP.

    Raises:
        ConfigError: One is missing.
    """
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise ConfigError(
            f"{command} needs {' and '.join(missing)}, which is not installed: "
            f"pip install '{DISTRIBUTION}[http]'"
        )
