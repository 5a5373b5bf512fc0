"""Look at your skills in a browser, on this machine alone."""

import json
import sys
import webbrowser
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any

import click

from skills_mcp.bootstrap import build
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.commands.serve import run_http
from skills_mcp.cli.options import content_options, json_option, read_options

# Settings of a server for an organisation are for another address than this one.
_HTTP: Mapping[str, object] = {
    "host": "127.0.0.1",
    "port": 0,
    "operations_host": "127.0.0.1",
    "operations_port": 0,
    "base_url": "",
    "stateless": False,
    "trust_proxy_headers": False,
    "allowed_hosts": (),
    "allowed_origins": (),
    "anonymous": None,
    "allow_anonymous": False,
    "auth": {"issuer": "", "audience": ""},
    "webhook_secret_file": "",
}
_SETTINGS: Mapping[str, object] = {
    "access": (),
    "web": {
        "enabled": True,
        "client_id": "",
        "client_secret_file": "",
        "trusted_header": {"user": "", "groups": "", "proxies": ()},
    },
}


@click.command(cls=SectionedCommand, examples=("skills-mcp open --skills-dir ./skills",))
@click.option(
    "--browser/--no-browser",
    "opens_browser",
    default=True,
    help="Open a browser, or only print the address.",
)
@json_option
@content_options(log_level="error")
def command(*, opens_browser: bool, as_json: bool, **values: Any) -> None:
    options, environment = read_options(**values)
    application = build(replace(options, http=_HTTP, settings=_SETTINGS), environment)
    opens_browser = opens_browser and _has_browser(environment)
    announce = partial(_announce, opens_browser=opens_browser, as_json=as_json)
    run_http(application, "open", on_open=announce)


def _announce(url: str, *, opens_browser: bool, as_json: bool) -> None:
    if as_json:
        # On one line: a program that waits for the address reads no further.
        click.echo(json.dumps({"url": f"{url}/"}))
    else:
        click.echo(f"The pages are at {url}/ (Ctrl-C ends them)")
    if opens_browser:
        # Some browsers keep the caller until they are closed.
        Thread(target=webbrowser.open, args=(f"{url}/",), daemon=True).start()


def _has_browser(environment: Mapping[str, str]) -> bool:
    """Whether there is a screen; a browser in the terminal would take Ctrl-C away."""
    if sys.platform in {"win32", "darwin"} or environment.get("BROWSER"):
        return True
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))
