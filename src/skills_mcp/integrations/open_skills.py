"""How a program opens skills: `open` for `async` code, `open_sync` for other code."""

import os
from collections.abc import Mapping, Sequence
from itertools import chain, count
from os import PathLike
from pathlib import Path
from typing import Any

from skills_mcp.bootstrap import Options, build
from skills_mcp.errors import ConfigError
from skills_mcp.integrations.background import Session
from skills_mcp.integrations.in_process import Skills, SyncSkills
from skills_mcp.skills.homes import SKILLS
from skills_mcp.skills.package import derive_slug

FIRST_CONTENT_SECONDS = 55.0
"""A clone of a large repository over a slow line takes about this long."""

Place = str | PathLike[str]
"""A path on this machine."""


def open(  # noqa: A001, PLR0913 - `skills_mcp.open` reads well; each is a keyword
    *,
    directory: Place | Sequence[Place] | None = None,
    repo: str | None = None,
    branch: str = "",
    ref: str = "",
    token: str | None = None,
    config: Place | Mapping[str, Any] | None = None,
    home: Place | None = None,
    offline: bool | None = None,
    environment: Mapping[str, str] | None = None,
    wait_seconds: float = FIRST_CONTENT_SECONDS,
) -> "Skills":
    """Return the skills of folders or of a repository, for `async with`.

    Without `directory` and `repo`, the sources are those of `config`, or what
    `SKILLS_DIR` and `SKILLS_REPO` name. See `docs/how-to/python.md`.

    Args:
        directory: A folder with skills, or several; then each is served below its
            own name, such as `codex/pdf` for a skill of `~/.codex/skills`.
        repo: The URL of a Git repository with skills.
        branch: The branch to follow; empty for `main`, or else the default branch.
        ref: A tag or full commit SHA to stay at, instead of the branch.
        token: For a private repository; it is never written to a disk.
        config: A settings file, or settings as a mapping, on top of the operator's
            file. See `docs/reference/configuration.md`.
        home: Where settings, cache and events are; without it `SKILLS_MCP_HOME`, or
            `~/.skills-mcp`.
        offline: Whether to make no network request.
        environment: Instead of `os.environ`.
        wait_seconds: How long opening waits for the first content.

    Raises:
        ConfigError: A setting is wrong, or there is nothing to serve.
    """
    return Skills(
        open_sync(
            directory=directory,
            repo=repo,
            branch=branch,
            ref=ref,
            token=token,
            config=config,
            home=home,
            offline=offline,
            environment=environment,
            wait_seconds=wait_seconds,
        )
    )


def open_sync(  # noqa: PLR0913 - each is a keyword
    *,
    directory: Place | Sequence[Place] | None = None,
    repo: str | None = None,
    branch: str = "",
    ref: str = "",
    token: str | None = None,
    config: Place | Mapping[str, Any] | None = None,
    home: Place | None = None,
    offline: bool | None = None,
    environment: Mapping[str, str] | None = None,
    wait_seconds: float = FIRST_CONTENT_SECONDS,
) -> "SyncSkills":
    """Return the skills of folders or of a repository, for `with`.

    Arguments and errors are those of `open`.
    """
    given = dict(os.environ if environment is None else environment)
    if token is not None:
        given["GITHUB_TOKEN"] = token
        given.pop("SKILLS_MCP_TOKEN_FILE", None)
    if home is not None:
        given["SKILLS_MCP_HOME"] = os.fspath(home)
    if directory is not None and repo is not None:
        raise ConfigError(
            "directory and repo: only one of them can be given. To serve both, write "
            'them into sources: config={"sources": [{"folder": …}, {"repo": …}]}'
        )
    settings: dict[str, Any] = {}
    if isinstance(config, Mapping):
        settings, config = dict(config), None
    folders = list_folders(directory)
    if len(folders) > 1:
        settings["sources"] = derive_sources(folders)
    is_named = bool(folders or repo or settings.get("sources"))
    chosen = {} if is_named or config else _read_sources(given)
    if len(folders) == 1:
        chosen["skills_dir"] = folders[0]
    if repo:
        chosen = {"repo": repo, "branch": branch, "pin": ref}
    options = Options(
        **chosen,
        offline=offline,
        config_file=Path(config) if config is not None else None,
        settings=settings,
    )
    return SyncSkills(Session(build(options, given), wait_seconds))


def derive_sources(folders: Sequence[Place], **keys: object) -> list[dict[str, Any]]:
    """Return the settings of several folders: each is served below its own name.

    The name is that of the folder; of one called `skills`, that of the folder around
    it. So `~/.codex/skills` and `work/shop/skills` are served as `codex` and `shop`.
    One folder alone is served at the top of the tree.

    Args:
        folders: Absolute paths, in the order of their names where two are the same.
        keys: More settings of each source.
    """
    sources: list[dict[str, Any]] = [
        {"folder": os.fspath(folder), **keys} for folder in folders
    ]
    if len(sources) < 2:  # noqa: PLR2004 - several of them share one tree
        return sources
    taken: set[str] = set()
    for source, folder in zip(sources, folders, strict=True):
        name = _name_folder(Path(folder))
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        source["mount"] = next(each for each in names if each not in taken)
        taken.add(source["mount"])
    return sources


def _name_folder(folder: Path) -> str:
    parts = folder.relative_to(folder.anchor).parts
    named = (part for part in reversed(parts) if part.casefold() != SKILLS)
    return derive_slug(next(named, SKILLS))


def list_folders(directory: Place | Sequence[Place] | None) -> list[str]:
    """Return the folders that are named, each once.

    They are absolute: settings are relative to another folder.
    """
    if directory is None:
        return []
    is_one = isinstance(directory, str | PathLike)
    places: Sequence[Place] = [directory] if is_one else directory  # type: ignore[list-item,assignment]
    folders = [os.path.abspath(os.path.expanduser(place)) for place in places]  # noqa: PTH100, PTH111 - a link is followed later
    once: dict[str, str] = {}
    for folder in folders:
        once.setdefault(os.path.realpath(folder), folder)
    return list(once.values())


def _read_sources(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the source that the environment names, as for the program."""
    names = {
        "skills_dir": "SKILLS_DIR",
        "repo": "SKILLS_REPO",
        "branch": "SKILLS_BRANCH",
        "pin": "SKILLS_REF",
    }
    return {
        option: environment[name]
        for option, name in names.items()
        if environment.get(name)
    }
