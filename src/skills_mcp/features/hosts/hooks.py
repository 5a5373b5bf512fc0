"""The hook of hosts: prompts of this user are answered beside stdio."""

import logging
import os
from contextlib import suppress
from pathlib import Path

from skills_mcp.server.parts import ServerPart, Serving

logger = logging.getLogger(__name__)


def open_part(serving: Serving) -> ServerPart | None:
    """Open the socket at which the hooks of hosts ask a server on stdio."""
    if serving.transport != "pipe":
        return None
    from skills_mcp.features.hosts.prompt_hook import derive_address
    from skills_mcp.features.hosts.prompt_socket import PromptSocket

    _warn_of_exports()
    words = serving.arguments
    options = words[1:] if words[:1] == ["serve"] else words
    address = derive_address(options, serving.environment, os.getpid())
    return PromptSocket(serving.library, address, options)


def _warn_of_exports() -> None:
    """Log the folders by which an agent may see each skill twice."""
    from skills_mcp.features.hosts.host import describe_exports

    with suppress(OSError):  # the working directory may be gone
        for warning in describe_exports(Path.home(), Path.cwd()):
            logger.warning("%s", warning)
