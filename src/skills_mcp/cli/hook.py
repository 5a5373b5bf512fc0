"""`skills-mcp hook`: the skill for a prompt, without a running server."""

import logging
from collections.abc import Mapping
from typing import Any

from skills_mcp.bootstrap import build
from skills_mcp.cli.options import read_options
from skills_mcp.errors import SkillsError
from skills_mcp.features.hosts.prompt_hook import print_hint, read_prompt
from skills_mcp.features.hosts.prompt_socket import find_hint

logger = logging.getLogger(__name__)


def print_cached_hint(host: str, values: Mapping[str, Any]) -> None:
    """Print the skill for the prompt on standard input, from cached content.

    Nothing is fetched, and unreadable input is no error: a prompt is never blocked.

    Args:
        host: The host, for the format of the output.
        values: The values of `content_options`.
    """
    prompt = read_prompt()
    if not prompt:
        return
    try:
        library = build(*read_options(**values)).library
        library.load_stored()
        print_hint(host, find_hint(library, prompt))
    except (SkillsError, OSError) as error:
        logger.info("No skill is named: %s", error)
