"""Name the skill for a prompt, as a hook of your agent.

The agent starts it with each prompt, as JSON on standard input. It is silent if no
skill fits. At a compaction, it prints what remains of the skills of the session.
"""

import logging
import os
from typing import Any, get_args

import click

from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import build_application, content_options
from skills_mcp.errors import SkillsError
from skills_mcp.features.hosts.early_commands.hook import print_hint, read_prompt
from skills_mcp.features.hosts.host import HookHost
from skills_mcp.features.hosts.prompt_socket import find_hint
from skills_mcp.files.user_folders import find_project_folder

logger = logging.getLogger(__name__)


@click.command(
    cls=SectionedCommand,
    reports_variables=True,
    examples=("""echo '{"prompt": "add a login page"}' | skills-mcp hook claude-code""",),
)
@click.argument("host", type=click.Choice(get_args(HookHost)))
@content_options(log_level="error")
def command(*, host: str, **values: Any) -> None:
    # Nothing is fetched, and unreadable input is no error: a prompt is never blocked.
    prompt = read_prompt()
    if not prompt:
        return
    try:
        library = build_application(**values).library
        library.load_stored()
        project = find_project_folder(os.environ, os.curdir)
        print_hint(host, find_hint(library, prompt, project))
    except (SkillsError, OSError) as error:
        logger.info("No skill is named: %s", error)
