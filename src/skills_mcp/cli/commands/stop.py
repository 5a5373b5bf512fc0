"""End the servers for all windows of this user.

A window that is still open starts the next one when its client asks for something.
"""

import os

import click

from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import json_option
from skills_mcp.cli.terminal import print_json
from skills_mcp.server.windows.running_servers import stop_servers


@click.command(cls=SectionedCommand, examples=("skills-mcp stop",))
@json_option
def command(*, as_json: bool) -> None:
    stopped = stop_servers(os.environ)
    if as_json:
        print_json({"stopped": [server.render() for server in stopped]})
        return
    for server in stopped:
        click.echo(f"Ended {server}")
    if not stopped:
        click.echo("No server was running.")
