"""`skills-mcp hook`: the skill for a prompt, where no server runs that can say it."""

import logging
from collections.abc import Mapping
from typing import Any

from skills_mcp.bootstrap import build
from skills_mcp.cli.options import read_options
from skills_mcp.errors import SkillsError
from skills_mcp.features.hosts.hint import find_hint
from skills_mcp.features.hosts.prompt_hook import print_hint, read_prompt

logger = logging.getLogger(__name__)


def print_kept_hint(host: str, given: Mapping[str, Any]) -> None:
    """Print the skill for the prompt on standard input, by what this machine has.

    Nothing is fetched, and what cannot be read is no error: a prompt is never blocked.

    Args:
        host: What its hook prints.
        given: The values of `content_options`.
    """
    prompt = read_prompt()
    if not prompt:
        return
    try:
        library = build(*read_options(**given)).library
        library.load_kept()
        print_hint(host, find_hint(library, prompt))
    except (SkillsError, OSError) as error:
        logger.info("No skill is named: %s", error)
