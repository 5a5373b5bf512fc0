"""Serve MCP, on standard input and output or over HTTP (the default)."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import click

from skills_mcp.about import compose_install_command
from skills_mcp.bootstrap import Application, build, find_state_folder, for_http
from skills_mcp.cli.command_group import (
    CONFIG_EXIT,
    OVER_HTTP,
    CommandGroup,
    SectionedCommand,
    SectionOption,
    print_error,
    repeat_options,
)
from skills_mcp.cli.invocation import CommandRunner, find_working_folder
from skills_mcp.cli.options import build_application, content_options, read_options
from skills_mcp.config import TOOLSETS, Config
from skills_mcp.errors import ConfigError
from skills_mcp.processes.memory import gc_frozen, limit_malloc_arenas
from skills_mcp.server import windows

if TYPE_CHECKING:
    from skills_mcp.server.parts import ServerPart, Serving
    from skills_mcp.server.windows.rendezvous import Rendezvous
    from skills_mcp.server.wire import Wire

_HELLO = (
    "Waiting for an MCP client on standard input; Ctrl-C ends it. To see the skills "
    "yourself: skills-mcp tree"
)

_NEEDED_FOR_HTTP = ("alembic", "authlib", "jwt", "prometheus_client", "sqlalchemy", "uvicorn")

_HTTP_KEYS = ("host", "port", "operations_host", "operations_port", "base_url")

_http_option = partial(click.option, cls=SectionOption, section=OVER_HTTP)


def _parse_toolsets(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(filter(None, map(str.strip, text.split(","))))
    for name in names or [text]:
        if name not in TOOLSETS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(TOOLSETS)}.")
    return names


@click.command(
    cls=SectionedCommand,
    reports_variables=True,
    context_settings={"allow_extra_args": True},
    examples=(
        "skills-mcp serve --repo https://github.com/acme/skills.git",
        "skills-mcp serve --skills-dir ./skills --log-level debug",
        "skills-mcp serve --transport http --port 8080",
    ),
)
@click.option(
    "--toolsets",
    envvar="SKILLS_MCP_TOOLSETS",
    metavar="NAMES",
    callback=_parse_toolsets,
    help=f"Which tools to offer, separated by commas: {','.join(TOOLSETS)}.",
)
@click.option(
    "--transport",
    envvar="SKILLS_MCP_TRANSPORT",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="How clients reach the server.",
)
@_http_option("--host", metavar="ADDRESS", help="Listen here.  [default: http.host]")
@_http_option("--port", metavar="N", type=int, help="The port.  [default: http.port]")
@_http_option(
    "--operations-host",
    metavar="ADDRESS",
    help="Listen here for health and metrics.  [default: http.operations_host]",
)
@_http_option(
    "--operations-port",
    metavar="N",
    type=int,
    help="The port of these.  [default: http.operations_port]",
)
@_http_option(
    "--base-url",
    metavar="URL",
    help="The URL that clients use, without /mcp.  [default: http.base_url]",
)
@content_options(log_level="info")
@click.pass_context
def command(context: click.Context, /, *, transport: str, **values: Any) -> None:
    if context.args and context.parent and isinstance(context.parent.command, CommandGroup):
        raise click.UsageError(context.parent.command.describe_unknown(context.args))
    http = {key: values.pop(key) for key in _HTTP_KEYS}
    values["http"] = {key: value for key, value in http.items() if value is not None}
    if transport == "http":
        run_http(build_application(serves_groups=True, **values))
    elif windows.claim:
        _run_windows(*windows.claim, **values)
    else:
        _run_stdio(**values)


def _run_windows(rendezvous: "Rendezvous", claim: int, **values: Any) -> None:
    """Serve all windows of a rendezvous, in a process that no host has started.

    Raises:
        ConfigError: Each window shows it by a server of its own.
    """
    from skills_mcp.server.windows.window_log import ServerLog

    variables = dict(os.environ)  # before a secret is taken out of the environment
    log = ServerLog(find_state_folder(variables) / "server.log")
    log.take_streams()
    runner = CommandRunner(cast("click.Group", click.get_current_context().find_root().command))
    with gc_frozen():
        application = build(*read_options(**values))
        config = application.library.config
        # A forwarder sees the usual spellings of both, because it reads no YAML.
        if not config.share.enabled or (config.discover and not rendezvous.keeps_folder):
            return
        import anyio

        from skills_mcp.server.windows.window_server import WindowServer

        serving, parts = _open_serving(application, variables)
    limit_malloc_arenas()
    runner.take_streams()
    server = WindowServer(serving, parts, rendezvous, claim, log=log, run_command=runner.run)
    anyio.run(server.run)


def _open_serving(
    application: Application, variables: Mapping[str, str]
) -> "tuple[Serving, Sequence[ServerPart]]":
    from skills_mcp.server.app import create_server
    from skills_mcp.server.parts import Serving, open_parts

    serving = Serving(
        server=create_server(application.library),
        library=application.library,
        publisher=application.publisher,
        transport="pipe",
        arguments=sys.argv[1:],
        environment=variables,
    )
    return serving, open_parts(serving)


def _run_stdio(**values: Any) -> None:
    from skills_mcp.server.wire import claimed_wire

    is_typed_at = os.isatty(0)
    variables = dict(os.environ)  # before a secret is taken out of the environment
    with claimed_wire() as wire:
        with gc_frozen():
            application = _build_for(wire, is_typed_at=is_typed_at, **values)
            application.library.open_project(variables, find_working_folder())
            import anyio

            from skills_mcp.server.stdio import serve_stdio

            serving, parts = _open_serving(application, variables)
        limit_malloc_arenas()
        if is_typed_at:
            click.echo(repeat_options(_HELLO), err=True)
        anyio.run(serve_stdio, serving, wire, parts)


def _build_for(wire: "Wire", *, is_typed_at: bool, **values: Any) -> Application:
    """Build the application, or answer the client with the error until it disconnects.

    A host shows nothing of a server that ends at once; a person reads standard error.
    """
    try:
        return build(*read_options(**values))
    except ConfigError as error:
        if is_typed_at:
            raise
        import anyio

        from skills_mcp.server.app import create_unconfigured_server
        from skills_mcp.server.stdio import serve_unconfigured

        print_error(error)
        anyio.run(serve_unconfigured, create_unconfigured_server(error), wire, CONFIG_EXIT)
        raise


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
    import anyio

    from skills_mcp.http.http_server import serve_http
    from skills_mcp.server.app import create_server
    from skills_mcp.server.parts import Serving, open_parts

    library = application.library
    if on_open is None:
        _refuse_discovery(library.config)
    with gc_frozen():
        application = for_http(application, os.environ, is_local=on_open is not None)
        serving = Serving(
            server=create_server(library, is_shared=True),
            library=library,
            publisher=application.publisher,
            transport="tcp",
            home=find_state_folder(os.environ),
            environment=dict(os.environ),
            store=application.store,
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
    if missing := [name for name in _NEEDED_FOR_HTTP if find_spec(name) is None]:
        raise ConfigError(
            f"{command} needs {' and '.join(missing)}, which is not installed: "
            f"{compose_install_command('http')}"
        )
