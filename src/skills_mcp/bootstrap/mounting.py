"""Makes mounted sources from the operator's options and settings.

Rule: a secret goes to one host, and no policy is weaker than it was written.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path

from skills_mcp.config import Config, Source
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.local import LocalFolder, derive_mounts, find_project_root
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.released_archive import Archive, ReleasedArchive, is_fetchable
from skills_mcp.content.source import ContentSource, Mount
from skills_mcp.content.sync_policy import Signers, SyncPolicy
from skills_mcp.errors import ConfigError
from skills_mcp.skills.homes import WHOLE, Selection
from skills_mcp.text.redaction import redact

_HERE = Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortForm:
    """The one source that the command line or the environment names."""

    skills_dir: str | None = None
    folder_setting: str = "SKILLS_DIR"
    """The setting that names `skills_dir`, for messages."""
    repo: str | None = None
    branch: str = ""
    """Empty for `main`, or the repository's default branch if it has none."""
    pin: str = ""
    """A tag or full commit SHA of `repo`, instead of the branch."""
    allows_rewrite: bool = False
    """Whether a rewritten history is followed, even if the settings refuse it."""
    selection: Selection = WHOLE
    """Which part of the source is served."""


def find_secret(repo: str | None) -> str | None:
    """Return the secret that a person wrote into a URL, if any."""
    return Remote.parse(repo, "").token if repo else None


def choose_mounts(
    options: ShortForm,
    config: Config,
    environment: Mapping[str, str],
    *,
    folder: Path,
    cache: Path,
) -> Mounts:
    """Choose the sources; the short form wins over those of the file.

    Args:
        options: The short form, if there is one.
        config: The operator's settings.
        environment: Where secrets and the project's root are.
        folder: What paths in the settings are relative to.
        cache: Where repositories are kept.

    Raises:
        ConfigError: There is nothing to serve, or a demand cannot be met.
    """
    demands = _Demands(config, folder, options.allows_rewrite)
    secret = _Secret.of(environment)
    named = _short_form(options, demands, secret, cache)
    named = named or tuple(_listed(config.sources, demands, secret, cache))
    found = _discovered(environment) if config.discover else ()
    if not named and not found:
        raise ConfigError(
            "No skills to serve. Set SKILLS_REPO to the URL of a Git repository, or "
            "SKILLS_DIR to a folder (or pass --repo or --skills-dir). Several of them "
            "go into sources in config.yaml, and --discover serves the .agents/skills "
            "of the project that you start in."
        )
    return Mounts((*named, *found))


@dataclass(frozen=True, slots=True)
class _Secret:
    """The token for private repositories; without it, Git asks its own helper."""

    token: str | None = field(repr=False)
    file: Path | None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "_Secret":
        file = environment.get("SKILLS_MCP_TOKEN_FILE")
        token = environment.get("GITHUB_TOKEN") or None
        return cls(token, _absolute(file) if file else None)

    def give(self, remote: Remote) -> Remote:
        """Return the remote with the token; a file wins: every sync reads it anew."""
        return replace(remote, token=self.token, token_file=self.file)

    @property
    def is_there(self) -> bool:
        return bool(self.token or self.file)


@dataclass(frozen=True, slots=True)
class _Demands:
    """Makes the sync policy of each repository from `config.yaml`."""

    config: Config
    folder: Path
    """The folder that paths in the file are relative to."""
    allows_rewrite: bool

    def derive_policy(
        self, source: Source, selections: tuple[Selection, ...] = (WHOLE,)
    ) -> SyncPolicy:
        """Return the policy of one repository; the settings of its source win."""
        sync, limits = self.config.sync, self.config.limits
        own = source.allow_non_fast_forward
        is_rewrite_allowed = sync.allow_non_fast_forward if own is None else own
        return SyncPolicy(
            selections=selections,
            max_files=limits.max_files,
            max_file_bytes=limits.max_file_bytes,
            max_total_bytes=limits.max_total_bytes,
            max_download_bytes=limits.max_download_bytes,
            timeout_seconds=sync.timeout_seconds,
            allow_non_fast_forward=is_rewrite_allowed or self.allows_rewrite,
            signers=self._derive_signers(source),
            is_offline=sync.offline,
        )

    def _derive_signers(self, source: Source) -> Signers | None:
        sync = self.config.sync
        allowed = _first(source.allowed_signers, sync.allowed_signers)
        if not allowed:
            return None
        revoked = _first(source.revoked_signers, sync.revoked_signers)
        return Signers(
            allowed=_absolute(allowed, self.folder),
            revoked=_absolute(revoked, self.folder) if revoked else None,
            verify=source.verify or sync.verify,
        )


def _first(own: str | None, shared: str) -> str:
    return shared if own is None else own


def _open_branch(
    remote: Remote, policy: SyncPolicy, cache: Path, pin_key: str
) -> RemoteBranch:
    """Return the source, unless its policy can never be met.

    Raises:
        ConfigError: A tag has to be signed, and none was named; or content could
            write the keys that may sign it.
    """
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


def _short_form(
    options: ShortForm, demands: _Demands, secret: _Secret, cache: Path
) -> tuple[Mount, ...]:
    """Return the source of the short form; a folder wins over a repository."""
    if options.skills_dir:
        local = LocalFolder(_absolute(options.skills_dir), options.folder_setting)
        return (Mount(source=local, selection=options.selection),)
    if options.repo:
        remote = Remote.parse(
            _address(options.repo, "SKILLS_REPO"),
            options.branch,
            secret.token,
            pin=options.pin,
            token_file=secret.file,
        )
        policy = demands.derive_policy(Source(), (options.selection,))
        branch = _open_branch(remote, policy, cache, "SKILLS_REF")
        return (Mount(source=branch, selection=options.selection),)
    if options.selection != WHOLE and demands.config.sources:
        raise ConfigError(
            "SKILLS_SUBFOLDER, SKILLS_PLUGINS and SKILLS_EVERYWHERE belong to "
            "SKILLS_REPO or SKILLS_DIR, and there is none. Write subfolder, plugins or "
            "everywhere into the sources of config.yaml"
        )
    if options.pin and demands.config.sources:
        # A pin must not be lost because another variable is missing.
        raise ConfigError(
            "SKILLS_REF says where SKILLS_REPO stays, and there is none. Write ref "
            "into the sources of config.yaml, or set SKILLS_REPO"
        )
    return ()


def _listed(
    sources: Sequence[Source], demands: _Demands, secret: _Secret, cache: Path
) -> Iterator[Mount]:
    """Yield the sources of the operator's file, relative to its `folder`."""
    remotes = _remotes(sources, demands.folder, secret)
    branches: dict[int, RemoteBranch] = {}
    for numbers in _group(remotes):
        alike = [remotes[number] for number in numbers]
        # Of two addresses that differ in a secret, one without would be refused.
        remote = next(filter(attrgetter("sends_token"), alike), alike[0])
        policy = _share(remote, [sources[number] for number in numbers], demands)
        pin_key = f"sources[{numbers[0]}].ref"
        branch = _open_branch(remote, policy, cache, pin_key)
        branches |= dict.fromkeys(numbers, branch)
    for number, source in enumerate(sources):
        chosen: ContentSource
        if number in branches:
            chosen = branches[number]
        elif source.archive:
            chosen = _open_archive(source, number, demands, cache)
        else:
            key = f"sources[{number}].folder"
            chosen = LocalFolder(_absolute(source.folder, demands.folder), key)
        yield Mount(source=chosen, at=source.mount, selection=_select(source))


def _open_archive(
    source: Source, number: int, demands: _Demands, cache: Path
) -> ReleasedArchive:
    """Return an archive of the operator's file.

    Raises:
        ConfigError: Its address is not fetched from, or its signers cannot be used.
    """
    address = _address(source.archive, f"sources[{number}].archive", demands.folder)
    if not is_fetchable(address):
        raise ConfigError(
            f"sources[{number}].archive is {redact(address)!r}. Write an https URL "
            "without a password, or a path"
        )
    policy = demands.derive_policy(source, (_select(source),))
    if policy.signers:
        from skills_mcp.content.git.signatures import check_signers

        check_signers(policy.signers, cache)
    return ReleasedArchive(Archive(address, source.sha256.lower()), cache, policy)


def _select(source: Source) -> Selection:
    return Selection(source.subfolder, source.everywhere, source.plugins)


def _group(remotes: Mapping[int, Remote]) -> Iterable[list[int]]:
    """Return the positions of each repository, which may be listed several times.

    The same one twice is the same source, or its halves could differ.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for number, remote in remotes.items():
        groups.setdefault((remote.url, remote.wanted), []).append(number)
    return groups.values()


def _share(remote: Remote, sources: Sequence[Source], demands: _Demands) -> SyncPolicy:
    """Return the policy of a repository that is served at several places.

    Raises:
        ConfigError: Its sources demand different things of it.
    """
    selections = tuple(dict.fromkeys(map(_select, sources)))
    first, *others = {demands.derive_policy(each, selections) for each in sources}
    if others:
        raise ConfigError(
            f"sources: {remote} is listed several times, with different demands. Write "
            "allowed_signers, revoked_signers, verify and allow_non_fast_forward alike "
            "for each of them"
        )
    return first


def _remotes(
    sources: Sequence[Source], folder: Path, secret: _Secret
) -> dict[int, Remote]:
    """Return the repositories by their position in the list.

    The secret goes to one host, that of the first repository without one of its
    own: a source that is added later never gets what was meant for another.
    """
    remotes: dict[int, Remote] = {}
    host = ""
    for number, source in enumerate(sources):
        if not source.repo:
            continue
        address = _address(source.repo, f"sources[{number}].repo", folder)
        remote = Remote.parse(address, source.branch, pin=source.ref)
        if not remote.token and secret.is_there:
            with_secret = secret.give(remote)
            host = host or with_secret.host
            # Without a host it is never sent, and the message says why.
            remote = with_secret if with_secret.host in {"", host} else remote
        remotes[number] = remote
    return remotes


def _discovered(environment: Mapping[str, str]) -> tuple[Mount, ...]:
    """Return the skill folders of the project around the working directory."""
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
    """Return the URL, with an absolute path for a local one: Git runs elsewhere."""
    repo = repo.strip()
    if "${" in repo:
        raise ConfigError(
            f"{key} is {redact(repo)!r}: the variable has no value. Write "
            "the URL itself."
        )
    is_path = Remote(repo, "").scheme == "file" and "://" not in repo
    return os.fspath(_absolute(repo, folder)) if is_path else repo
