"""Entry points."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count
from os import PathLike
from pathlib import Path
from typing import Any

from skills_mcp.api.background import Session
from skills_mcp.api.in_process import Skills, SyncSkills
from skills_mcp.bootstrap import Options, build
from skills_mcp.errors import ConfigError
from skills_mcp.skills.homes import SKILLS_FOLDER
from skills_mcp.skills.package import derive_slug

FIRST_CONTENT_SECONDS = 55.0
"""Enough to clone a large repository over a slow line."""

Place = str | PathLike[str]


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
    """Open the skills of folders or of a repository, for `async with`.

    Without `directory` and `repo`, the sources are those of `config`, or of
    `SKILLS_DIR`
    and `SKILLS_REPO`. See `docs/how-to/python.md`.

    Args:
        directory: A folder with skills, or several; then each is served below its own
            name, such as `codex/pdf` for a skill of `~/.codex/skills`.
        repo: URL of a Git repository with skills.
        branch: Branch to follow; default `main`, else the default branch.
        ref: Tag or full commit SHA to pin, instead of the branch.
        token: For a private repository; never written to a disk.
        config: A settings file, or settings as a mapping, on top of the operator's
        file.
            See `docs/reference/configuration.md`.
        home: Folder of settings, cache and events; default `SKILLS_MCP_HOME` or
            `~/.skills-mcp`.
        offline: Whether to make no network request.
        environment: Instead of `os.environ`.
        wait_seconds: Timeout for the first content.

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
    """Synchronous `open`.

    Raises:
        ConfigError: A setting is wrong, or there is nothing to serve.
    """
    variables = dict(os.environ if environment is None else environment)
    if token is not None:
        variables["GITHUB_TOKEN"] = token
        variables.pop("SKILLS_MCP_TOKEN_FILE", None)
    if home is not None:
        variables["SKILLS_MCP_HOME"] = os.fspath(home)
    settings: dict[str, Any] = {}
    if isinstance(config, Mapping):
        settings, config = dict(config), None
    if directory is not None and not _is_complete(directory):
        raise ConfigError(
            'directory: is empty. Give the path of a folder with skills; "." is the '
            "working directory."
        )
    named_sources = _NamedSources(resolve_folders(directory), repo, branch, ref)
    named_sources.check(is_private=token is not None)
    if len(named_sources.folders) > 1:
        settings["sources"] = derive_mounted_sources(named_sources.folders)
    options = Options(
        **named_sources.derive_source(settings, variables, has_file=config is not None),
        offline=offline,
        config_file=Path(config) if config is not None else None,
        settings=settings,
    )
    # A library that waits for nothing yet must not be tied to the caller's event loop.
    with ThreadPoolExecutor(1, "skills-mcp-open") as executor:
        application = executor.submit(build, options, variables).result()
    return SyncSkills(Session(application, wait_seconds))


@dataclass(frozen=True, slots=True)
class _NamedSources:
    folders: list[str]
    repo: str | None
    branch: str
    ref: str

    def check(self, *, is_private: bool) -> None:
        """Refuse contradicting or ineffective arguments with a `ConfigError`."""
        if self.folders and self.repo is not None:
            raise ConfigError(
                "directory and repo: only one of them can be given. To serve both, "
                'write them into sources: config={"sources": [{"folder": …}, '
                '{"repo": …}]}'
            )
        if self.repo is not None and not self.repo.strip():
            raise ConfigError("repo: is empty. Give the URL of a Git repository.")
        if (self.branch or self.ref) and self.repo is None:
            raise ConfigError(
                "branch and ref belong to repo, which is not given. Of a source in "
                "config, they are keys of that source."
            )
        if is_private and self.folders:
            raise ConfigError(
                "token belongs to a repository, and directory names a folder. Give "
                "only one of them."
            )

    def derive_source(
        self,
        settings: Mapping[str, Any],
        variables: Mapping[str, str],
        *,
        has_file: bool,
    ) -> dict[str, Any]:
        if self.repo:
            return {"repo": self.repo, "branch": self.branch, "pin": self.ref}
        if len(self.folders) == 1:
            return {"skills_dir": self.folders[0], "folder_setting": "directory"}
        if has_file or settings.get("sources"):
            return {}
        return _read_sources(variables)


def derive_mounted_sources(folders: Sequence[Place], **keys: object) -> list[dict[str, Any]]:
    """Settings of several folders, each mounted below its own name.

    The name is the folder's; for one called `skills`, its parent's. So
    `~/.codex/skills`
    and `work/shop/skills` are served as `codex` and `shop`. A single folder is served
    at
    the top of the tree. `keys` are further settings of each source.
    """
    sources: list[dict[str, Any]] = [{"folder": os.fspath(folder), **keys} for folder in folders]
    if len(sources) < 2:  # noqa: PLR2004 - several of them share one tree
        return sources
    used_names: set[str] = set()
    for source, folder in zip(sources, folders, strict=True):
        name = _derive_mount(Path(folder))
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        source["mount"] = next(candidate for candidate in names if candidate not in used_names)
        used_names.add(source["mount"])
    return sources


def _derive_mount(folder: Path) -> str:
    parts = folder.relative_to(folder.anchor).parts
    named = (part for part in reversed(parts) if part.casefold() != SKILLS_FOLDER)
    return derive_slug(next(named, SKILLS_FOLDER))


def resolve_folders(directory: Place | Sequence[Place] | None) -> list[str]:
    """Absolute paths without duplicates: settings are relative to another folder."""
    if directory is None:
        return []
    is_one = isinstance(directory, str | PathLike)
    locations: Sequence[Place] = [directory] if is_one else directory  # type: ignore[list-item,assignment]
    folders = [os.path.abspath(os.path.expanduser(location)) for location in locations]  # noqa: PTH100, PTH111 - a link is followed later
    unique: dict[str, str] = {}
    for folder in folders:
        unique.setdefault(os.path.realpath(folder), folder)
    return list(unique.values())


def _is_complete(directory: Place | Sequence[Place]) -> bool:
    if isinstance(directory, str | PathLike):
        return bool(os.fspath(directory))
    return bool(directory) and all(map(os.fspath, directory))


def _read_sources(environment: Mapping[str, str]) -> dict[str, Any]:
    names = {
        "skills_dir": "SKILLS_DIR",
        "repo": "SKILLS_REPO",
        "branch": "SKILLS_BRANCH",
        "pin": "SKILLS_REF",
    }
    return {option: environment[name] for option, name in names.items() if environment.get(name)}
