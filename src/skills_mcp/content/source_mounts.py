"""Builds mounted sources from the operator's options and settings.

Rule: a secret goes to one host, and no policy is weaker than configured.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skills_mcp.config import Config, Source
from skills_mcp.config.variables import find_unknown_variables
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import (
    ContentSource,
    DiscoveredFolder,
    LocalFolder,
    Mount,
    Signers,
    SyncPolicy,
)
from skills_mcp.errors import ConfigError
from skills_mcp.files.paths import expand_home_folder, find_user_home
from skills_mcp.files.user_folders import find_hidden_settings
from skills_mcp.skills.source_layout import (
    DEFAULT_SELECTION,
    SKILLS_FOLDER,
    TOP_SUBFOLDER,
    Selection,
)
from skills_mcp.text.redaction import redact

_WORKING_FOLDER = Path()

FOLDER = ".agents/skills"
MARKERS = (".git", ".jj", ".codelia")
"""Markers of a project's root: a folder, or a file as in a Git worktree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleSource:
    """The single source of the command line or the environment."""

    skills_dir: str | None = None
    repo: str | None = None
    branch: str = ""
    """Empty for `main`, or the repository's default branch if it has none."""
    pin: str = ""
    """A tag or full commit SHA of `repo`, instead of the branch."""
    allows_rewrite: bool = False
    """Whether a rewritten history is followed, even if the settings refuse it."""
    selection: Selection = DEFAULT_SELECTION


def find_url_secret(repo: str | None) -> str | None:
    """The credentials in a repository URL, if any."""
    return Remote.parse(repo, "").token if repo else None


def parse_remote(repo: str, environment: Mapping[str, str]) -> Remote:
    """The repository of a command, with the token of the environment."""
    secret = _RepositoryToken.of(environment)
    return Remote.parse(_resolve_address(repo, "REPO"), "", secret.token, token_file=secret.file)


def choose_mounts(
    options: SingleSource,
    config: Config,
    environment: Mapping[str, str],
    *,
    folder: Path,
    cache: Path,
) -> Mounts:
    """Choose the sources; the short form wins over those of the file.

    Relative paths in the settings start at `folder`; repositories are cached in
    `cache`.

    Raises:
        ConfigError: There is nothing to serve, or a policy cannot be met.
    """
    policies = _PolicyBuilder(config, folder, options.allows_rewrite)
    secret = _RepositoryToken.of(environment)
    named = _mount_single_source(options, policies, secret, cache)
    named = named or tuple(_mount_listed_sources(config.sources, policies, secret, cache))
    found = _discover_project_skills(environment) if config.discover else ()
    if not named and not found:
        raise ConfigError(
            f"{_find_mistakes(environment)}No skills to serve. Set SKILLS_REPO to the URL "
            "of a Git repository, or SKILLS_DIR to a folder (or pass --repo or "
            "--skills-dir). Several of them go into sources in config.yaml, and "
            "--discover serves the .agents/skills of the project that you start in."
        )
    return Mounts((*named, *found))


def _find_mistakes(environment: Mapping[str, str]) -> str:
    """Name the variables and settings that were probably meant, in front of a message."""
    empty = (name for name in ("SKILLS_REPO", "SKILLS_DIR") if environment.get(name) == "")
    folder, hidden = find_hidden_settings(environment)
    mistakes = (
        *map(str, find_unknown_variables(environment)),
        *(f"{name} is empty, or was a placeholder." for name in empty),
        *((f"{hidden} is not read, as {folder} exists: keep one of the two.",) if hidden else ()),
        *(("--skills-dir skills serves the folder here.",) if Path(SKILLS_FOLDER).is_dir() else ()),
    )
    return "".join(f"{mistake} " for mistake in mistakes)


@dataclass(frozen=True, slots=True)
class _RepositoryToken:
    """The token for private repositories; without one, Git's credential helper is used."""

    token: str | None = field(repr=False)
    file: Path | None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "_RepositoryToken":
        file = environment.get("SKILLS_MCP_TOKEN_FILE")
        token = environment.get("GITHUB_TOKEN") or None
        return cls(token, _absolute_path(file) if file else None)

    def add_to(self, remote: Remote) -> Remote:
        """Add the token; a file wins, and is read again for every sync."""
        return replace(remote, token=self.token, token_file=self.file)

    @property
    def is_set(self) -> bool:
        return bool(self.token or self.file)


@dataclass(frozen=True, slots=True)
class _PolicyBuilder:
    """Builds the sync policy of each repository from `config.yaml`."""

    config: Config
    folder: Path
    allows_rewrite: bool

    def derive_policy(
        self, source: Source, selections: tuple[Selection, ...] = (DEFAULT_SELECTION,)
    ) -> SyncPolicy:
        sync, limits = self.config.sync, self.config.limits
        return SyncPolicy(
            selections=selections,
            max_files=limits.max_files,
            max_file_bytes=limits.max_file_bytes,
            max_total_bytes=limits.max_total_bytes,
            max_download_bytes=2 * limits.max_total_bytes,
            timeout_seconds=sync.timeout_seconds,
            allow_non_fast_forward=sync.allow_non_fast_forward or self.allows_rewrite,
            signers=self._derive_signers(source),
            is_offline=sync.offline,
        )

    def _derive_signers(self, source: Source) -> Signers | None:
        sync, own = self.config.sync, source.allowed_signers
        allowed = sync.allowed_signers if own is None else own
        if not allowed:
            return None
        revoked = sync.revoked_signers
        return Signers(
            allowed=_absolute_path(allowed, self.folder),
            revoked=_absolute_path(revoked, self.folder) if revoked else None,
            verify=source.verify or sync.verify,
        )


def _open_branch(remote: Remote, policy: SyncPolicy, cache: Path, pin_key: str) -> RemoteBranch:
    """Open a branch, unless it can never meet its policy, such as a signed tag without a tag."""
    signers = policy.signers
    if signers:
        from skills_mcp.content.git.signatures import check_signers

        check_signers(signers, cache)
        if signers.verify != "commit" and (remote.commit or not remote.pin):
            what = "stays at a commit" if remote.commit else "follows a branch"
            raise ConfigError(
                f"{remote} {what}, and has no tag that could be signed (verify: "
                f"{signers.verify}). Set {pin_key} to a tag, or verify to commit"
            )
    return RemoteBranch(remote, cache, policy)


# Not `Source()`: nothing is to be checked, and a checker takes long to build.
_DEFAULT_SOURCE = Source.model_construct()


def _mount_single_source(
    options: SingleSource,
    policies: _PolicyBuilder,
    secret: _RepositoryToken,
    cache: Path,
) -> tuple[Mount, ...]:
    if options.skills_dir:
        local = LocalFolder(_absolute_path(options.skills_dir))
        return (Mount(source=local, selection=options.selection),)
    if options.repo:
        remote = Remote.parse(
            _resolve_address(options.repo, "SKILLS_REPO"),
            options.branch,
            secret.token,
            pin=options.pin,
            token_file=secret.file,
        )
        policy = policies.derive_policy(_DEFAULT_SOURCE, (options.selection,))
        branch = _open_branch(remote, policy, cache, "SKILLS_REF")
        return (Mount(source=branch, selection=options.selection),)
    if options.selection != DEFAULT_SELECTION and policies.config.sources:
        raise ConfigError(
            "SKILLS_SUBFOLDER, SKILLS_PLUGINS and SKILLS_EVERYWHERE belong to "
            "SKILLS_REPO or SKILLS_DIR, and there is none. Write subfolder, plugins or "
            "everywhere into the sources of config.yaml"
        )
    if options.pin and policies.config.sources:
        # A pin must not be lost because another variable is missing.
        raise ConfigError(
            "SKILLS_REF says where SKILLS_REPO stays, and there is none. Write ref "
            "into the sources of config.yaml, or set SKILLS_REPO"
        )
    return ()


def _mount_listed_sources(
    sources: Sequence[Source],
    policies: _PolicyBuilder,
    secret: _RepositoryToken,
    cache: Path,
) -> Iterator[Mount]:
    pinned = [*_split_pins(sources)]
    only: list[tuple[str, ...]] = [*([()] * len(sources)), *(pins for _, pins in pinned)]
    sources = (*sources, *(source for source, _ in pinned))
    remotes = _parse_remotes(sources, policies.folder, secret)
    branches: dict[int, RemoteBranch] = {}
    for numbers in _group_by_repository(remotes):
        alike = [remotes[number] for number in numbers]
        # Of two addresses that differ in a secret or a user, one without would be refused.
        remote = max(alike, key=lambda each: (each.sends_token, bool(each.user_settings())))
        policy = _common_policy(remote, [sources[number] for number in numbers], policies)
        pin_key = "pins" if only[numbers[0]] else f"sources[{numbers[0]}].ref"
        branches |= dict.fromkeys(numbers, _open_branch(remote, policy, cache, pin_key))
    for number, source in enumerate(sources):
        chosen: ContentSource
        if number in branches:
            chosen = branches[number]
        elif source.archive:
            chosen = _open_archive(source, number, policies, cache)
        else:
            key = f"sources[{number}].folder"
            chosen = LocalFolder(_absolute_path(source.folder, policies.folder), key)
        yield Mount(
            source=chosen,
            at=source.mount,
            selection=_select(source),
            pins=tuple(sorted(source.pins)),
            only=only[number],
            rollout=source.rollout.describe() if source.rollout else "",
        )


def _split_pins(sources: Sequence[Source]) -> Iterator[tuple[Source, tuple[str, ...]]]:
    """Yield a source for each pinned commit, with its pins."""
    for source in sources:
        for commit in dict.fromkeys(source.pins.values()):
            pins = (path for path, at in source.pins.items() if at == commit)
            pinned = source.model_copy(update={"branch": "", "ref": commit, "rollout": None})
            yield pinned, tuple(sorted(pins))


def _open_archive(
    source: Source, number: int, policies: _PolicyBuilder, cache: Path
) -> RemoteBranch:
    from skills_mcp.content.released_archive import Archive, ReleasedArchive, is_fetchable

    address = _resolve_address(source.archive, f"sources[{number}].archive", policies.folder)
    if not is_fetchable(address):
        raise ConfigError(
            f"sources[{number}].archive is {redact(address)!r}. Write an https URL "
            "without a password, or a path"
        )
    policy = policies.derive_policy(source, (_select(source),))
    if policy.signers:
        from skills_mcp.content.git.signatures import check_signers

        check_signers(policy.signers, cache)
    return ReleasedArchive(Archive(address, source.sha256.lower()), cache, policy)


def _select(source: Source) -> Selection:
    return Selection(source.subfolder, source.everywhere, source.plugins)


def _group_by_repository(remotes: Mapping[int, Remote]) -> Iterable[list[int]]:
    """Group the positions of equal repositories.

    A repository listed twice is one source, or its halves could differ.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for number, remote in remotes.items():
        groups.setdefault((remote.url, remote.requested_ref), []).append(number)
    return groups.values()


def _common_policy(
    remote: Remote, sources: Sequence[Source], policies: _PolicyBuilder
) -> SyncPolicy:
    """The common policy of a repository with several mounts."""
    selections = tuple(dict.fromkeys(map(_select, sources)))
    first, *others = {policies.derive_policy(source, selections) for source in sources}
    if others:
        raise ConfigError(
            f"sources: {remote} is listed several times, with different demands. Write "
            "allowed_signers and verify alike for each of them"
        )
    return first


def _parse_remotes(
    sources: Sequence[Source], folder: Path, secret: _RepositoryToken
) -> dict[int, Remote]:
    """The repositories by their position in the list.

    The secret goes to one host, that of the first repository without a secret of its
    own: a
    source added later never gets the secret of another.
    """
    remotes: dict[int, Remote] = {}
    host = ""
    for number, source in enumerate(sources):
        if not source.repo:
            continue
        address = _resolve_address(source.repo, f"sources[{number}].repo", folder)
        remote = Remote.parse(address, source.branch, pin=source.ref)
        if not remote.token and secret.is_set:
            with_secret = secret.add_to(remote)
            host = host or with_secret.host
            # Without a host it is never sent, and the message says why.
            remote = with_secret if with_secret.host in {"", host} else remote
        remotes[number] = remote
    return remotes


def _discover_project_skills(environment: Mapping[str, str]) -> tuple[Mount, ...]:
    try:
        working = Path.cwd()
    except OSError as error:
        raise ConfigError(
            "discover: the working directory is gone. Start in one that exists."
        ) from error
    ours = environment.get("SKILLS_MCP_PROJECT_ROOT")
    named = ours or environment.get("CODELIA_AGENTS_ROOT")
    # Resolved, as the working directory is: a link in the middle parts the two.
    root = expand_home_folder(named).resolve() if named else find_project_root(working)
    if not root.is_dir():
        raise ConfigError(
            f"environment: the project's root {named!r} is no folder. Correct "
            "SKILLS_MCP_PROJECT_ROOT or CODELIA_AGENTS_ROOT, or leave it out."
        )
    return derive_mounts(root, working, find_user_home())


def find_project_root(working: Path) -> Path:
    """Find the nearest folder with a marker, upwards; `working` itself without one."""
    return next(filter(_has_marker, (working, *working.parents)), working)


def derive_folders(root: Path, working: Path) -> tuple[Path, ...]:
    """List the folders from the project's root down to the working directory.

    A working directory outside of the project adds nothing.

    >>> [f.as_posix() for f in derive_folders(Path("/home/a"), Path("/home/a/b/c"))]
    ['/home/a', '/home/a/b', '/home/a/b/c']
    """
    chain = (working, *working.parents)
    if root not in chain:
        return (root,)
    return tuple(reversed(chain[: chain.index(root) + 1]))


def derive_mounts(root: Path, working: Path, home: Path) -> tuple[Mount, ...]:
    """Mount every potential skills folder of the project and the user."""
    # 002 §5.1, §5.2
    project = [
        Mount(
            source=DiscoveredFolder(folder / FOLDER),
            at=(folder / FOLDER).relative_to(root).as_posix(),
            selection=Selection(TOP_SUBFOLDER),
            scope="repo",
        )
        for folder in derive_folders(root, working)
    ]
    own = Mount(
        source=DiscoveredFolder(home / FOLDER),
        at=f"~/{FOLDER}",
        selection=Selection(TOP_SUBFOLDER),
        scope="user",
    )
    return (*project, own)


def _has_marker(folder: Path) -> bool:
    # Unlike the method, this function does not fail in a folder without permission.
    return any(os.path.exists(folder / marker) for marker in MARKERS)  # noqa: PTH110


def _absolute_path(path: str, folder: Path = _WORKING_FOLDER) -> Path:
    # Not resolved: a link that is moved to another folder is followed later.
    return Path(os.path.abspath(folder / expand_home_folder(path)))  # noqa: PTH100


def _resolve_address(repo: str, key: str, folder: Path = _WORKING_FOLDER) -> str:
    """The URL, with an absolute path for a local one: Git runs elsewhere."""
    repo = repo.strip()
    if "${" in repo:
        raise ConfigError(
            f"{key} is {redact(repo)!r}: the variable has no value. Write the URL itself."
        )
    is_path = Remote(repo, "").scheme == "file" and "://" not in repo
    return os.fspath(_absolute_path(repo, folder)) if is_path else repo
