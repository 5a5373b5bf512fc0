"""The composition root: what the operator asks for in, wired objects out.

The only module that chooses implementations.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skills_mcp.analytics.events import derive_server_id
from skills_mcp.analytics.publisher import Publisher
from skills_mcp.analytics.spool import Spool
from skills_mcp.analytics.tracker import Tracker
from skills_mcp.config import (
    Config,
    Layer,
    Settings,
    Source,
    environment_layer,
    load_file,
)
from skills_mcp.config.values import Algorithm
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.local import LocalFolder
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.project import derive_mounts, find_project_root
from skills_mcp.content.remote import Remote
from skills_mcp.content.source import ContentSource, Mount
from skills_mcp.embeddings import open_embedding
from skills_mcp.errors import ConfigError
from skills_mcp.library import SkillLibrary
from skills_mcp.scripts.runner import ScriptRunner
from skills_mcp.shelf import Shelf

DEFAULT_BRANCH = "main"

_HERE = Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Where the skills are, and where the operator's own file is (001 §11.1)."""

    skills_dir: str | None = None
    repo: str | None = None
    branch: str = DEFAULT_BRANCH
    pin: str = ""
    """A tag, or a commit in full, of `repo` instead of the branch."""
    config_file: Path | None = None
    toolsets: tuple[str, ...] | None = None
    """As the configuration has them; None leaves the choice to it."""
    discover: bool | None = None
    """The same."""
    algorithm: Algorithm | None = None
    """The same, of `matching.algorithm`."""
    keeps_index: bool = True
    """Whether another process will want the index of this content."""


@dataclass(frozen=True, slots=True)
class Application:
    """Everything that runs."""

    library: SkillLibrary
    publisher: Publisher
    mounts: Mounts


def build(options: Options, environment: Mapping[str, str]) -> Application:
    """Wire everything up.  Reads the operator's file, and looks for the project.

    Raises:
        ConfigError: The operator has to change something before this can run.
    """
    home = _home(environment)
    file = _operator_file(options, home)
    layers = (environment_layer(environment), _command_line(options))
    settings = Settings((load_file(file), *layers) if file else layers)
    folder = file.absolute().parent if file else home
    config = settings.resolve()
    mounts = _mounts(options, config, environment, folder)
    cache = home / "cache"
    spool = Spool(home / "spool")
    tracker = Tracker(
        spool, lambda: library.config.analytics, derive_server_id(environment)
    )
    library = SkillLibrary(
        shelf=Shelf(
            mounts,
            settings,
            cache / "index" if options.keeps_index else None,
            open_embedding(config.embedding, environment, cache),
        ),
        tracker=tracker,
        runner=ScriptRunner(),
        environment=environment,
    )
    publisher = Publisher(spool, lambda: library.config.analytics)
    return Application(library, publisher, mounts)


def _home(environment: Mapping[str, str]) -> Path:
    """Return where everything of ours lies (DESIGN §3.8)."""
    moved = environment.get("SKILLS_MCP_HOME")
    return Path(moved).expanduser() if moved else Path.home() / ".skills-mcp"


def _operator_file(options: Options, home: Path) -> Path | None:
    if options.config_file:
        return options.config_file
    default = home / "config.yaml"
    return default if default.is_file() else None


def _command_line(options: Options) -> Layer:
    matching = {"algorithm": options.algorithm} if options.algorithm else None
    given = {
        "toolsets": options.toolsets,
        "discover": options.discover,
        "matching": matching,
    }
    typed = {name: value for name, value in given.items() if value is not None}
    return Layer("command line", typed)


def _mounts(
    options: Options, config: Config, environment: Mapping[str, str], folder: Path
) -> Mounts:
    """Choose the sources; the short form wins over those of the file."""
    token = environment.get("GITHUB_TOKEN") or None
    cache = _home(environment) / "cache"
    named = _short_form(options, token, cache)
    named = named or tuple(_listed(config.sources, folder, token, cache))
    found = _discovered(environment) if config.discover else ()
    if not named and not found:
        raise ConfigError(
            "No skills to serve. Set SKILLS_REPO to the URL of a Git repository, or "
            "SKILLS_DIR to a folder (or pass --repo or --skills-dir). Several of them "
            "go into sources in config.yaml, and --discover serves the .agents/skills "
            "of the project that you start in."
        )
    return Mounts((*named, *found))


def _short_form(options: Options, token: str | None, cache: Path) -> tuple[Mount, ...]:
    """Return the one source; a folder wins over a repository (001 §3.1)."""
    if options.skills_dir:
        return (Mount(source=LocalFolder(_absolute(options.skills_dir))),)
    if options.repo:
        address = _address(options.repo, "SKILLS_REPO")
        remote = Remote.parse(address, options.branch, token, pin=options.pin)
        return (Mount(source=RemoteBranch(remote, cache)),)
    return ()


def _listed(
    sources: Sequence[Source], folder: Path, token: str | None, cache: Path
) -> Iterator[Mount]:
    """Yield the sources of the operator's file, relative to its `folder`."""
    remotes = _remotes(sources, folder, token)
    # The same repository twice is the same source, or its halves could differ.
    branches = {remote: RemoteBranch(remote, cache) for remote in remotes.values()}
    for number, source in enumerate(sources):
        chosen: ContentSource
        if number in remotes:
            chosen = branches[remotes[number]]
        else:
            key = f"sources[{number}].folder"
            chosen = LocalFolder(_absolute(source.folder, folder), key)
        yield Mount(source=chosen, at=source.mount, subfolder=source.subfolder)


def _remotes(
    sources: Sequence[Source], folder: Path, token: str | None
) -> dict[int, Remote]:
    """Return the repositories by their position in the list.

    The token goes to one host, that of the first repository without a secret of its
    own: a source that is added later never gets what was meant for another.
    """
    remotes: dict[int, Remote] = {}
    host = ""
    for number, source in enumerate(sources):
        if not source.repo:
            continue
        address = _address(source.repo, f"sources[{number}].repo", folder)
        remote = Remote.parse(address, source.branch, pin=source.ref)
        if token and not remote.token:
            with_token = replace(remote, token=token)
            host = host or with_token.host
            # Without a host it is never sent, and the message says why.
            remote = with_token if with_token.host in {"", host} else remote
        remotes[number] = remote
    return remotes


def _discovered(environment: Mapping[str, str]) -> tuple[Mount, ...]:
    """Return the places of the project that we were started in (002 §5.2)."""
    try:
        working = Path.cwd()
    except OSError as error:
        raise ConfigError(
            "discover: the working directory is gone. Start in one that exists."
        ) from error
    ours = environment.get("SKILLS_MCP_PROJECT_ROOT")
    named = ours or environment.get("CODELIA_AGENTS_ROOT")
    # Resolved, as the working directory is: a link in the middle parts the two.
    root = Path(named).expanduser().resolve() if named else find_project_root(working)
    if not root.is_dir():
        raise ConfigError(
            f"environment: the project's root {named!r} is no folder. Correct "
            "SKILLS_MCP_PROJECT_ROOT or CODELIA_AGENTS_ROOT, or leave it out."
        )
    return derive_mounts(root, working, Path.home())


def _absolute(path: str, folder: Path = _HERE) -> Path:
    # Not resolved: a link that is moved to another folder is followed later.
    return Path(os.path.abspath(folder / os.path.expanduser(path)))  # noqa: PTH100, PTH111


def _address(repo: str, key: str, folder: Path = _HERE) -> str:
    """Return the URL as Git may have it, which does not run where we do."""
    repo = repo.strip()
    if "${" in repo:
        raise ConfigError(
            f"{key} is {repo!r}: nobody has put the variable's value in. Write the URL "
            "itself."
        )
    is_path = Remote(repo, "").scheme == "file" and "://" not in repo
    return os.fspath(_absolute(repo, folder)) if is_path else repo
