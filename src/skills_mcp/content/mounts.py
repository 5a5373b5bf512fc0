"""Several sources served as one tree.

Rule 1: a source that fails keeps its previous content, and takes nothing from the
others.
Rule 2: each source syncs once, even if it is mounted several times, so two folders of
one repository are always of the same commit.
Rule 3: a secret goes to one host, and no policy is weaker than configured.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from math import inf, nextafter
from pathlib import Path
from typing import NamedTuple

from skills_mcp.config import Config, Refresh, Source
from skills_mcp.config.variables import find_unknown_variables
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Push, Remote
from skills_mcp.content.source import (
    Checkout,
    CommitCheck,
    Content,
    ContentPart,
    ContentSource,
    DiscoveredFolder,
    Failure,
    Freshness,
    LocalFolder,
    Mode,
    Mount,
    Progress,
    Signers,
    SourceState,
    SyncAttempt,
    SyncPolicy,
    derive_last_error,
    derive_longest_pause,
    derive_state,
)
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.files.paths import expand_home_folder, find_marked_folder, find_user_home
from skills_mcp.files.user_folders import find_hidden_settings
from skills_mcp.skills.source_layout import (
    DEFAULT_SELECTION,
    SKILLS_FOLDER,
    TOP_SUBFOLDER,
    Selection,
)
from skills_mcp.text.redaction import redact

logger = logging.getLogger(__name__)

# A fetch mostly waits, so the limit spares the remotes, and the memory of a laptop:
# each fetch is a process of Git.
_MAX_PARALLEL_SYNCS = 16


class _SyncOutcome(NamedTuple):
    checkout: Checkout | None
    error: SyncError | None = None


_Work = Callable[[ContentSource], _SyncOutcome]


class Mounts:
    """Sources, each with a distinct path in the tree.  Blocking.

    A single source raises its error, instead of listing it in `failures`.
    """

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.mounts = tuple(mounts)
        self._sources = tuple(dict.fromkeys(mount.source for mount in self.mounts))
        self._repositories = tuple(
            source for source in self._sources if isinstance(source, RemoteBranch)
        )
        self.progress = Progress()
        """How far the reading of what was synced has got."""
        self._last = Content(())
        """The result of the last sync: failures that are on no disk, too."""
        self._failed_syncs: Counter[ContentSource] = Counter()

    @property
    def mode(self) -> Mode:
        """`git` if any source is a repository; only those need a timer."""
        return "git" if self._repositories else "local"

    @property
    def name(self) -> str:
        first, *others = [source.name for source in self._sources]
        return f"{first} and {len(others)} more" if others else first

    def interval_minutes(self, rules: Refresh) -> float | None:
        """Pause between syncs; None for folders alone, read on request."""
        return rules.interval_minutes if rules.enabled and self._repositories else None

    def find(self, at: str) -> Mount | None:
        return next((mount for mount in self.mounts if mount.at == at), None)

    def find_folders(self) -> tuple[Path, ...]:
        return tuple(
            mount.source.directory / mount.selection.subfolder
            for mount in self.mounts
            if isinstance(mount.source, LocalFolder)
        )

    def open_published(self) -> Content | None:
        """Open content of earlier processes; None unless all repositories have some."""
        if not self._repositories:
            return None
        outcomes = {source: self._open(source) for source in self._sources}
        if not all(outcomes[repository].checkout for repository in self._repositories):
            return None
        return self._compose_content(outcomes)

    def open(self) -> Content | None:
        """Open all content of this machine, without network; None if there is none."""
        content = self._compose_content({source: self._open(source) for source in self._sources})
        return content if content.parts else None

    def open_update(self) -> Content | None:
        served = self._newest
        content = self.open()
        return content if self._newest != served else None

    def is_check_due(self) -> bool:
        """Whether the served files of a repository must be compared with Git."""
        return any(repository.is_check_due() for repository in self._repositories)

    def check(self) -> Content | None:
        for source in self._repositories:
            if source.is_check_due():
                source.check()
        return self.open()

    @property
    def doing(self) -> str:
        """Step of the running sync; empty if none runs."""
        return str(self.progress) or next(
            filter(None, (repository.doing for repository in self._repositories)), ""
        )

    def has_update(self) -> bool:
        """Whether another process has published since the last `open`."""
        return any(repository.has_update() for repository in self._repositories)

    def may_move(self, push: Push) -> bool:
        """Whether a push could have changed any source; always for folders alone."""
        repositories = self._repositories
        return not repositories or any(repository.may_move(push) for repository in repositories)

    def next_sync_at(self, interval_seconds: float | None) -> float:
        """Time of the next due sync, in seconds since the epoch; infinity for never."""
        times = (repository.next_sync_at(interval_seconds) for repository in self._repositories)
        return min(times, default=inf)

    def sync(self, freshness: Freshness, accept: CommitCheck) -> Content:
        """Sync all sources concurrently.

        A failed source adds its error to `failures`, and its last good checkout to
        `parts`.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """
        return self._require_content(
            self._map_sources(lambda source: self._sync(source, freshness, accept))
        )

    def sync_due(self, interval_seconds: float | None, accept: CommitCheck) -> Content:
        """Sync the due sources, and open the others.

        A remote recently queried by another process is not queried again.

        Raises:
            SyncError: There is nothing at all, or the only source has failed.
        """

        def work(source: ContentSource) -> _SyncOutcome:
            if not isinstance(source, RemoteBranch):
                return self._open(source)
            attempt = source.attempt()
            if source.next_sync_at(interval_seconds) > time.time():
                return _SyncOutcome(self._open_newest(source), derive_last_error(attempt))
            freshness = Freshness(
                nextafter(attempt.attempted_at, inf),
                longest_pause_seconds=derive_longest_pause(interval_seconds),
            )
            return self._sync(source, freshness, accept)

        return self._require_content(self._map_sources(work))

    def count_changes(self, before: Content | None, after: Content) -> int:
        old = _checkouts(before) if before else {}
        return sum(
            _count_changes(source, old.get(source), new)
            for source, new in _checkouts(after).items()
            if isinstance(source, RemoteBranch) and not _has_same_revision(old.get(source), new)
        )

    def states(
        self, content: Content | None, interval_seconds: float | None
    ) -> tuple[SourceState, ...]:
        """Derive the state of each source, except missing discovered folders."""
        parts = {p.mount: p.checkout for p in content.parts} if content else {}
        errors = {failure.mount: failure.error for failure in self._last.failures}
        return tuple(
            self._derive_state(mount, parts.get(mount), errors.get(mount), interval_seconds)
            for mount in self.mounts
            if mount.scope == "org" or mount in parts or mount in errors
        )

    def close(self) -> None:
        for source in self._repositories:
            source.close()

    @property
    def _newest(self) -> dict[ContentSource, Checkout]:
        checkouts = _checkouts(self._last).items()
        return {s: checkout for s, checkout in checkouts if isinstance(s, RemoteBranch)}

    def _derive_state(
        self,
        mount: Mount,
        checkout: Checkout | None,
        error: SyncError | None,
        interval_seconds: float | None,
    ) -> SourceState:
        source = mount.source
        attempt, next_sync_at = SyncAttempt(), inf
        if isinstance(source, RemoteBranch):
            attempt = source.attempt()
            next_sync_at = source.next_sync_at(interval_seconds)
        return derive_state(
            mount,
            checkout,
            attempt,
            next_sync_at=next_sync_at,
            interval_seconds=interval_seconds,
            now=time.time(),
            error=error,
            failed_syncs=self._failed_syncs[source],
        )

    def _map_sources(self, work: _Work) -> dict[ContentSource, _SyncOutcome]:
        if len(self._sources) == 1:
            return {source: work(source) for source in self._sources}
        workers = min(_MAX_PARALLEL_SYNCS, len(self._sources))
        # A log line belongs to the window or the command that has caused it.
        contexts = [copy_context() for _ in self._sources]
        with ThreadPoolExecutor(workers, thread_name_prefix="sync") as pool:
            try:
                outcomes = list(
                    pool.map(
                        lambda context, source: context.run(work, source), contexts, self._sources
                    )
                )
            except KeyboardInterrupt:
                self.close()  # or the pool would wait for every fetch
                raise
        return dict(zip(self._sources, outcomes, strict=True))

    def _require_content(self, outcomes: Mapping[ContentSource, _SyncOutcome]) -> Content:
        content = self._compose_content(outcomes)
        if content.error and (len(self._sources) == 1 or not content.parts):
            raise content.error
        return content

    def _sync(
        self, source: ContentSource, freshness: Freshness, accept: CommitCheck
    ) -> _SyncOutcome:
        if not isinstance(source, RemoteBranch):
            return self._open(source)
        try:
            return _SyncOutcome(source.sync(freshness, accept))
        except SyncError as error:
            if not error.is_recalled:
                self._failed_syncs[source] += 1
            # What is served comes before what another process has published
            # meanwhile: a sync that fails changes nothing.
            return _SyncOutcome(self._newest.get(source) or self._open(source).checkout, error)

    def _open(self, source: ContentSource) -> _SyncOutcome:
        newest = self._newest.get(source)
        try:
            return _SyncOutcome(source.open() or newest)
        except SyncError as error:
            if isinstance(source, RemoteBranch):
                logger.warning("Cannot serve the cache of %s: %s", source.name, error)
            return _SyncOutcome(newest, error)

    def _open_newest(self, source: RemoteBranch) -> Checkout | None:
        newest = self._newest.get(source)
        return newest if newest and not source.has_update() else self._open(source).checkout

    def _compose_content(self, outcomes: Mapping[ContentSource, _SyncOutcome]) -> Content:
        failures = (
            Failure(mount, error)
            for mount in self.mounts
            if (error := outcomes[mount.source].error)
        )
        self._last = Content(tuple(_derive_parts(self.mounts, outcomes)), tuple(failures))
        return self._last


def _derive_parts(
    mounts: Sequence[Mount], outcomes: Mapping[ContentSource, _SyncOutcome]
) -> Iterator[ContentPart]:
    """Yield the parts, without repetitions of a discovered folder."""
    served = set()
    for mount in mounts:
        checkout = outcomes[mount.source].checkout
        if checkout is None:
            continue
        folder = os.path.realpath(checkout.directory / mount.selection.subfolder)
        if mount.scope == "org" or folder not in served:
            yield ContentPart(mount, checkout)
        served.add(folder)


def _checkouts(content: Content) -> dict[ContentSource, Checkout]:
    return {part.mount.source: part.checkout for part in content.parts}


def _count_changes(source: RemoteBranch, before: Checkout | None, after: Checkout) -> int:
    old = source.content_ids(before) if before else {}
    return len(dict(old.items() ^ source.content_ids(after).items()))


def _has_same_revision(old: Checkout | None, new: Checkout) -> bool:
    return old is not None and old.revision == new.revision is not None


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
    own: a source added later never gets the secret of another.
    """
    remotes: dict[int, Remote] = {}
    host = ""
    for number, source in enumerate(sources):
        if not source.repo:
            continue
        address = _resolve_address(source.repo, f"sources[{number}].repo", folder)
        remote = Remote.parse(address, source.branch, pin=source.ref)
        if not remote.token and secret.is_set:
            # A file wins, and is read again for every sync.
            with_secret = replace(remote, token=secret.token, token_file=secret.file)
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
    return find_marked_folder(working, *MARKERS) or working


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
