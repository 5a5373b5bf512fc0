"""The composition root: what the operator asks for in, wired objects out.

The only module that chooses implementations.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.analytics.events import derive_server_id
from skills_mcp.analytics.publisher import Publisher
from skills_mcp.analytics.spool import Spool
from skills_mcp.analytics.tracker import Tracker
from skills_mcp.config import Layer, Settings, environment_layer, load_file
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.local import LocalFolder
from skills_mcp.content.remote import Remote
from skills_mcp.content.source import ContentSource
from skills_mcp.errors import ConfigError
from skills_mcp.library import SkillLibrary
from skills_mcp.scripts.runner import ScriptRunner

DEFAULT_BRANCH = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Where the skills are, and where the operator's own file is (001 §11.1)."""

    skills_dir: str | None = None
    repo: str | None = None
    branch: str = DEFAULT_BRANCH
    config_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Application:
    """Everything that runs."""

    library: SkillLibrary
    publisher: Publisher
    source: ContentSource


def build(options: Options, environment: Mapping[str, str]) -> Application:
    """Wire everything up.  Reads the operator's file and nothing else.

    Raises:
        ConfigError: The operator has to change something before this can run.
    """
    home = _home(environment)
    settings = Settings(
        (*_operator_file(options, home), environment_layer(environment))
    )
    settings.resolve()
    source = _source(options, environment, home)
    spool = Spool(home / "spool")
    tracker = Tracker(
        spool, lambda: library.config.analytics, derive_server_id(environment)
    )
    library = SkillLibrary(
        source=source,
        settings=settings,
        tracker=tracker,
        runner=ScriptRunner(),
        environment=environment,
    )
    publisher = Publisher(spool, lambda: library.config.analytics)
    return Application(library, publisher, source)


def _home(environment: Mapping[str, str]) -> Path:
    """Return where everything of ours lies (DESIGN §3.8)."""
    moved = environment.get("SKILLS_MCP_HOME")
    return Path(moved).expanduser() if moved else Path.home() / ".skills-mcp"


def _operator_file(options: Options, home: Path) -> tuple[Layer, ...]:
    if options.config_file:
        return (load_file(options.config_file),)
    default = home / "config.yaml"
    return (load_file(default),) if default.is_file() else ()


def _address(repo: str) -> str:
    """Return the URL as Git may have it, which does not run where we do."""
    repo = repo.strip()
    if "${" in repo:
        raise ConfigError(
            f"SKILLS_REPO is {repo!r}: the agent has not put the variable's value in. "
            "Write the URL itself into the agent's configuration."
        )
    is_path = Remote(repo, "").scheme == "file" and "://" not in repo
    return os.path.abspath(os.path.expanduser(repo)) if is_path else repo  # noqa: PTH100, PTH111


def _source(
    options: Options, environment: Mapping[str, str], home: Path
) -> ContentSource:
    """Choose the source; a folder wins over a repository (001 §3.1)."""
    if options.skills_dir:
        # Not resolved: a link that is moved to another folder is followed later.
        folder = os.path.abspath(os.path.expanduser(options.skills_dir))  # noqa: PTH100, PTH111
        return LocalFolder(Path(folder))
    if options.repo:
        token = environment.get("GITHUB_TOKEN") or None
        remote = Remote.parse(_address(options.repo), options.branch, token)
        return RemoteBranch(remote, home / "cache")
    raise ConfigError(
        "No skills to serve. Set SKILLS_REPO to the URL of a Git repository, or "
        "SKILLS_DIR to a folder (or pass --repo or --skills-dir)."
    )
