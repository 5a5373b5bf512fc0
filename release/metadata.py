"""What a package says about where it comes from; the build of each package runs this.

The repository names no address of its own: who releases sets `RELEASE_REPOSITORY`, and
gets the project's URLs, a README whose links work anywhere, and the mark by which the
MCP Registry knows the owner. Without it a package has none of them.

It is a hook of Hatch (https://hatch.pypa.io/latest/plugins/metadata-hook/custom/) and
runs alone, so it imports nothing of the project.
"""

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "RELEASE_REPOSITORY"
"""The variable with the address, such as `https://github.com/acme/skills-mcp`."""

# A link of Markdown to a file of the repository: no address, and no part of the page.
_LINK = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:|#|/)(?P<target>[^)\s]+)")

_PICTURE = re.compile(r'(?<= )(?P<name>src|srcset)="(?![a-z]+:)(?P<target>[^"]+)"')


class PublishedMetadata(MetadataHookInterface):
    """Fills in the README and the URLs that `pyproject.toml` leaves open."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` and `urls`."""
        repository = os.environ.get(VARIABLE, "").rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": render_readme(text, repository),
        }
        metadata["urls"] = derive_urls(repository)


def render_readme(text: str, repository: str) -> str:
    """Return the README as it is read outside of the repository.

    >>> text = "[How](docs/how.md#so) [it](#it) [is](https://example.com)"
    >>> print(render_readme(text, "https://github.com/acme/skills-mcp"))
    <!-- mcp-name: io.github.acme/skills-mcp -->
    [How](https://github.com/acme/skills-mcp/blob/main/docs/how.md#so) [it](#it) \
[is](https://example.com)

    Args:
        text: The README of the repository, in Markdown.
        repository: Its address; empty leaves the text as it is.
    """
    if not repository:
        return text
    absolute = _LINK.sub(rf"{repository}/blob/main/\g<target>", text)
    absolute = _PICTURE.sub(rf'\g<name>="{repository}/raw/main/\g<target>"', absolute)
    name = derive_registry_name(repository)
    return f"<!-- mcp-name: {name} -->\n{absolute}" if name else absolute


def derive_registry_name(repository: str) -> str:
    """Return the name in the MCP Registry; empty for a host that it does not verify.

    >>> derive_registry_name("https://github.com/Acme/skills-mcp")
    'io.github.Acme/skills-mcp'
    """
    parts = urlsplit(repository)
    owner, _, name = parts.path.strip("/").partition("/")
    is_known = parts.hostname == "github.com" and owner and name and "/" not in name
    return f"io.github.{owner}/{name}" if is_known else ""


def derive_urls(repository: str) -> dict[str, str]:
    """Return the URLs of the project, by their labels; none without a repository."""
    if not repository:
        return {}
    return {
        "Repository": repository,
        "Documentation": f"{repository}/tree/main/docs",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
