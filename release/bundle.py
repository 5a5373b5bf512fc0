"""The MCP Bundle (MCPB): a file that a desktop host installs with a click.

It holds the wheel and says how `uv` runs it, so it is the same on every system. The
format: https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md
"""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skills_mcp.about import DISTRIBUTION, __version__

_NAME = "skills-mcp"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of each file: the same content gives the same bytes."""

# What a user is asked for, and the variable that the answer goes to.
_QUESTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "repository",
        "SKILLS_REPO",
        {
            "type": "string",
            "title": "Repository",
            "description": "The URL of the Git repository with the skills",
            "required": True,
        },
    ),
    (
        "branch",
        "SKILLS_BRANCH",
        {
            "type": "string",
            "title": "Branch",
            "description": "Empty: main, or the default branch of the repository",
            "required": False,
            "default": "",
        },
    ),
    (
        "token",
        "GITHUB_TOKEN",
        {
            "type": "string",
            "title": "Token",
            "description": "For a private repository over HTTPS; it is kept safe",
            "required": False,
            "sensitive": True,
            "default": "",
        },
    ),
)


def write_bundle(folder: Path, wheel: Path, urls: Mapping[str, str]) -> Path:
    """Write the bundle of a wheel, and return it.

    Args:
        folder: Where it goes.
        wheel: The package that it installs.
        urls: Those of the project.
    """
    bundle = folder / f"{_NAME}-{__version__}.mcpb"
    contents = {
        "manifest.json": json.dumps(compose_manifest(urls), indent=2) + "\n",
        "pyproject.toml": _compose_project(wheel.name),
        "server/main.py": _MAIN,
    }
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text)
        archive.writestr(zipfile.ZipInfo(wheel.name, _EPOCH), wheel.read_bytes())
    return bundle


def compose_manifest(urls: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of the bundle."""
    manifest: dict[str, Any] = {
        "manifest_version": "0.4",
        "name": _NAME,
        "display_name": "Skills",
        "version": __version__,
        "description": "Your organisation's skills, kept in Git, for this assistant",
        "author": {"name": "The skills-mcp project"},
        "license": "Apache-2.0",
        "keywords": ["skills", "git", "markdown"],
        "server": {
            "type": "uv",
            "entry_point": "server/main.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "server/main.py"],
                "env": {variable: f"${{user_config.{name}}}" for name, variable, _ in _QUESTIONS},
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {
            "platforms": ["darwin", "linux", "win32"],
            "runtimes": {"python": ">=3.11"},
        },
        "user_config": {name: asked for name, _, asked in _QUESTIONS},
    }
    if urls:
        manifest |= {
            "repository": {"type": "git", "url": urls["Repository"]},
            "documentation": urls["Documentation"],
            "support": urls["Issues"],
        }
    return manifest


def _compose_project(wheel: str) -> str:
    return f"""[project]
name = "{_NAME}-bundle"
version = "{__version__}"
requires-python = ">=3.11"
dependencies = ["{DISTRIBUTION}"]

[tool.uv.sources]
{DISTRIBUTION} = {{ path = "{wheel}" }}
"""


_MAIN = '''"""Starts the server that this bundle holds."""

from skills_mcp.__main__ import main

main()
'''
