"""The hook of hosts: a socket for prompts of this user."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skills_mcp.features.hosts.prompt_socket import PromptSocket
    from skills_mcp.server.parts import Serving


def open_part(serving: "Serving") -> "PromptSocket | None":
    """Open the socket at which the hooks of hosts ask a server on stdio."""
    if serving.transport != "pipe":
        return None
    from skills_mcp.features.hosts.early_commands.hook import derive_address
    from skills_mcp.features.hosts.prompt_socket import PromptSocket
    from skills_mcp.server import windows
    from skills_mcp.server.parts import Window

    words = serving.arguments
    options = words[1:] if words[:1] == ["serve"] else words
    address = derive_address(options, serving.environment, os.getpid())
    own = Window(
        library=serving.library,
        process_id=os.getpid(),
        folder=Path(os.curdir),
        environment=serving.environment,
    )
    return PromptSocket(own, address, options, has_windows=windows.claim is not None)
