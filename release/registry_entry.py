"""`server.json`: what the MCP Registry lists, and how a client installs it.

The format: https://github.com/modelcontextprotocol/registry, its schema of 2025-12-11.
"""

from typing import Any

from release.metadata import derive_registry_name
from skills_mcp.about import DISTRIBUTION, __version__

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

_VARIABLES: tuple[dict[str, Any], ...] = (
    {
        "name": "SKILLS_REPO",
        "description": "The URL of the Git repository with the skills",
        "isRequired": True,
    },
    {
        "name": "SKILLS_BRANCH",
        "description": "The branch; without it main, or the default branch",
    },
    {
        "name": "GITHUB_TOKEN",
        "description": "A token for a private repository over HTTPS",
        "isSecret": True,
    },
)


def compose_entry(repository: str, bundle_sha256: str) -> dict[str, Any]:
    """Return the entry of this version.

    Args:
        repository: The address of the repository on GitHub.
        bundle_sha256: The digest of the MCP Bundle, in hex.
    """
    bundle = f"{repository}/releases/download/v{__version__}/skills-mcp-{__version__}"
    transport = {"type": "stdio"}
    return {
        "$schema": SCHEMA,
        "name": derive_registry_name(repository),
        "title": "skills-mcp",
        "description": "Your organisation's skills, kept in Git, for every agent",
        "version": __version__,
        "repository": {"url": repository, "source": "github"},
        "packages": [
            {
                "registryType": "pypi",
                "identifier": DISTRIBUTION,
                "version": __version__,
                "runtimeHint": "uvx",
                "transport": transport,
                "environmentVariables": list(_VARIABLES),
            },
            {
                "registryType": "mcpb",
                "identifier": f"{bundle}.mcpb",
                "fileSha256": bundle_sha256,
                "transport": transport,
            },
        ],
    }
