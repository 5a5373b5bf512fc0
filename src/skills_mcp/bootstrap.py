"""The composition root: builds an application from options and environment.

Rule: only this module chooses implementations.
"""

import logging
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from skills_mcp.about import __version__
from skills_mcp.config import (
    Analytics,
    Config,
    Embedding,
    Layer,
    Settings,
    Source,
    is_tracking_refused,
    load_file,
    parse_environment,
)
from skills_mcp.config.rollouts import apply_rollouts, find_groups, is_for_groups, is_in_share
from skills_mcp.config.values import AlgorithmSetting
from skills_mcp.config.variables import find_unknown_variables
from skills_mcp.content.mounts import (
    SingleSource,
    choose_mounts,
    find_url_secret,  # noqa: F401 - for commands
    parse_remote,
)
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.events.heartbeat import (
    Heartbeat,
    HeartbeatTimer,
    ServedSource,
    Transport,
)
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.publisher import DatabasePublisher, Publisher
from skills_mcp.events.received_event import MAX_FIELD_LENGTH
from skills_mcp.events.spool import LocalEvents, Outbox
from skills_mcp.events.tracker import Tracker
from skills_mcp.files.durable import read_regular
from skills_mcp.files.paths import expand_home_folder
from skills_mcp.files.user_folders import find_user_folders
from skills_mcp.hooks import load_hooks
from skills_mcp.library import SkillLibrary, SourceState
from skills_mcp.snapshots.current import CurrentSnapshot
from skills_mcp.snapshots.skill_snapshot import Embedder
from skills_mcp.text.redaction import register_secret

if TYPE_CHECKING:
    from skills_mcp.events.collector.event_store import EventStore
    from skills_mcp.library.runs import Runs


_MINUTE_SECONDS = 60.0


def open_heartbeat_timer(
    library: SkillLibrary, environment: Mapping[str, str], transport: Transport
) -> HeartbeatTimer | None:
    """Schedule the heartbeats of a library; None if `DO_NOT_TRACK` forbids them."""
    if is_tracking_refused(environment):
        return None
    privacy = Privacy(find_state_folder(environment) / "analytics.key", environment)
    return HeartbeatTimer(
        partial(read_heartbeat, library, privacy, transport),
        lambda: library.config.refresh.interval_minutes * _MINUTE_SECONDS,
    )


def read_heartbeat(
    library: SkillLibrary, privacy: Privacy, transport: Transport
) -> Heartbeat | None:
    """The current heartbeat; None before the first content.  Blocking.

    It has commits and sync states, and nothing of a person, of a path or of a task.
    """
    if not library.is_ready:
        return None
    states = library.view().states()
    # Windows of one machine with the same sources are one server of the fleet; replicas
    # on it listen at addresses of their own.
    served = (f"{state.mount}={state.name}" for state in states)
    http = library.config.http
    address = f"http {http.host}:{http.port}" if transport == "http" else transport
    distinction = "\0".join((platform.node(), address, *served))
    return Heartbeat(
        server_id=privacy.server_pseudonym(library.config.analytics, distinction),
        happened_at=datetime.now(UTC),
        version=__version__,
        transport=transport,
        sources=tuple(map(_describe_source, states)),
    )


def _describe_source(state: SourceState) -> ServedSource:
    return ServedSource(
        mount=state.mount[:MAX_FIELD_LENGTH],
        repository=derive_repository(state.name) if state.mode == "git" else "",
        commit=state.commit,
        age_seconds=state.age_seconds,
        last_error=state.error.code if state.error else None,
        lost_skills=state.loss.removed if state.loss else None,
    )


def derive_repository(name: str) -> str:
    """Host and path of a repository, without credentials.

    >>> derive_repository("https://ada:1234@git.example.com/team/skills.git (main)")
    'git.example.com/team/skills'
    >>> derive_repository("file:///home/ada/skills")
    ''
    """
    address = name.split(maxsplit=1)[0] if name else ""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return ""
    if not host or parts.scheme == "file":
        return ""
    path = parts.path.removesuffix("/").removesuffix(".git")
    return f"{host}{path}"[:MAX_FIELD_LENGTH] if path.isprintable() else host


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(SingleSource):
    offline: bool | None = None
    """None leaves it to the configuration, as with each option below."""
    config_file: Path | None = None
    """The operator's file; None for `config.yaml` in the folder of settings."""
    toolsets: tuple[str, ...] | None = None
    discover: bool | None = None
    algorithm: AlgorithmSetting | None = None
    http: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of a program, above the operator's file and the environment."""
    serves_groups: bool = False
    """Whether callers of several groups are served, each with the version for it."""
    keeps_index: bool = True
    """Whether the index of this content is cached for other processes."""


@dataclass(frozen=True, slots=True)
class Application:
    """The library and the publisher of its events."""

    library: SkillLibrary
    publisher: Publisher
    store: "EventStore | None" = None
    """Only of a server over HTTP that collects events."""
    early: SkillLibrary | None = None
    """The sources at the version of a rollout to groups, if there is one."""


def build(options: Options, environment: Mapping[str, str]) -> Application:
    """Build the application: read the operator's file, and find the project's skills.

    Raises:
        ConfigError: The operator has to change something before this can run.
    """
    for unknown in find_unknown_variables(environment):
        logger.warning("%s", unknown)
    state, cache = find_state_folder(environment), find_cache_folder(environment)
    file = _find_operator_file(options, environment)
    settings = _open_settings(file, options, environment)
    folder = (file or find_settings_file(environment)).absolute().parent
    config = settings.resolve()
    if is_tracking_refused(environment):
        logger.info("DO_NOT_TRACK is set: no event is written or sent")
    outbox = Outbox(state)
    privacy = Privacy(state / "analytics.key", environment)
    tracker = Tracker(outbox.spool, lambda: library.config.analytics, privacy)

    def open_library(is_early: Callable[[Source], bool]) -> SkillLibrary:
        rolled_out = apply_rollouts(config, is_early)
        mounts = choose_mounts(options, rolled_out, environment, folder=folder, cache=cache)
        current = CurrentSnapshot(
            mounts,
            settings,
            cache / "index" if options.keeps_index else None,
            _open_embedder(config, environment, cache),
        )
        return SkillLibrary(
            mounts=mounts,
            current=current,
            tracker=tracker,
            open_runs=partial(_open_runs, tracker, state, dict(environment)),
        )

    early = open_library(is_for_groups) if find_groups(config) else None
    if options.serves_groups:
        library = open_library(lambda _: False)
        library.early = early
    else:
        library = open_library(partial(is_in_share, privacy.machine_share))
    publisher = Publisher(
        outbox,
        lambda: library.config.analytics,
        is_offline=lambda: library.config.sync.offline,
        read_token=partial(_read_token, config.analytics, environment),
        heartbeat_timer=open_heartbeat_timer(library, environment, "stdio"),
    )
    return Application(library, publisher, early=early)


def for_http(
    application: Application, environment: Mapping[str, str], *, is_local: bool = False
) -> Application:
    """The application of an HTTP server, with the event database, not connected to yet.

    A server for the local user alone makes none: its report is of the events of this
    machine, unless a database exists.

    Raises:
        ConfigError: `events.database` cannot be used.
    """
    library, state = application.library, find_state_folder(environment)
    timer = open_heartbeat_timer(library, environment, "http")
    publisher = replace(application.publisher, heartbeat_timer=timer)
    without_store = replace(application, publisher=publisher)
    events = library.config.events
    if not events.enabled:
        return without_store
    from skills_mcp.events.collector.event_store import DEFAULT_FILE, open_event_store

    if is_local and not events.database and not (state / DEFAULT_FILE).exists():
        return without_store
    reserve_bytes = library.config.limits.max_total_bytes
    store = open_event_store(events.database, state, reserve_bytes=reserve_bytes)
    stored = DatabasePublisher(
        publisher.outbox,
        publisher.rules,
        store,
        is_offline=publisher.is_offline,
        read_token=publisher.read_token,
        heartbeat_timer=timer,
    )
    return replace(application, publisher=stored, store=store)


def _open_runs(
    tracker: Tracker,
    state: Path,
    own: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> "Runs":
    """Wire the script runner; its modules are imported for the first script.

    Args:
        tracker: Counts the runs.
        state: Folder of the audit.
        own: Variables of this process.
        environment: Those of another process, for which scripts run.
        folder: The working directory of that process.
    """
    from skills_mcp.library.runs import Runs
    from skills_mcp.scripts.execution import AuditFile
    from skills_mcp.scripts.prepared_runs import ScriptEnvironment
    from skills_mcp.scripts.script_runner import ScriptRunner

    audit = AuditFile(state / "audit.jsonl")
    if environment is None:
        script_environment = ScriptEnvironment.of(own)
    else:
        script_environment = replace(ScriptEnvironment.of(environment), started_in=folder)
    return Runs(tracker, ScriptRunner(), audit, script_environment)


@contextmanager
def opened_baseline(
    options: Options, environment: Mapping[str, str], ref: str
) -> Iterator[SkillLibrary]:
    """Serve the same content at a branch, tag, commit, or in a folder.

    Raises:
        SyncError: There is no such commit. An earlier checkout is not a substitute.
    """
    if options.skills_dir or is_folder(ref):
        with opened_revision(expand_home_folder(options.skills_dir or "."), ref) as folder:
            yield _load_folder(options, environment, folder)
        return
    yield _sync_baseline(options, environment, ref)


def opened_revision(folder: Path, ref: str) -> AbstractContextManager[Path]:
    """The files of a folder at a commit, or the folder that the baseline names.

    Raises:
        SyncError: There is no such commit, or no such baseline.
    """
    if is_folder(ref):
        baseline = expand_home_folder(ref)
        if not baseline.is_dir():
            raise SyncError(f"There is no folder {ref}. Correct the path, or name a commit.")
        return nullcontext(baseline)
    from skills_mcp.content.exported_files import exported_revision

    return exported_revision(folder, ref)


def fetched_files(
    repo: str, environment: Mapping[str, str], select: Callable[[str], bool]
) -> AbstractContextManager[Path]:
    """Fetch the selected files of a repository into a temporary folder.

    Raises:
        SyncError: It cannot be fetched.
    """
    from skills_mcp.content.exported_files import exported_remote

    return exported_remote(parse_remote(repo, environment), select)


def is_folder(ref: str) -> bool:
    """Whether a baseline is a folder: no branch name begins like one."""
    return ref.startswith(("./", "../", "~/")) or Path(ref).is_absolute()


def _load_folder(options: Options, environment: Mapping[str, str], folder: Path) -> SkillLibrary:
    folder_options = replace(options, skills_dir=str(folder), repo=None, keeps_index=False)
    library = build(folder_options, environment).library
    library.sync()
    return library


def _sync_baseline(options: Options, environment: Mapping[str, str], ref: str) -> SkillLibrary:
    """Fetch a branch, tag or commit; only trying tells the kind of a ref."""
    pinned = build(replace(options, pin=ref), environment).library
    try:
        pinned.sync()
    except SyncError as error:
        branch = build(replace(options, branch=ref, pin=""), environment).library
        try:
            branch.sync()
        except SyncError:
            raise SyncError(f"{ref}: {error}") from error
        return branch
    return pinned


def load_operator_config(options: Options, environment: Mapping[str, str]) -> Config:
    """The operator's settings, without those of the content.

    Raises:
        ConfigError: They cannot be used.
    """
    file = _find_operator_file(options, environment)
    return _open_settings(file, options, environment).resolve()


def open_local_events(environment: Mapping[str, str]) -> LocalEvents:
    return LocalEvents(find_state_folder(environment), find_settings_file(environment))


def _read_token(rules: Analytics, environment: Mapping[str, str], endpoint: str) -> str:
    """The token for an endpoint; empty if there is none.

    Only the operator's endpoint gets it, never one named by content.
    """
    if endpoint != rules.endpoint:
        return ""
    token = environment.get("ANALYTICS_TOKEN", "")
    if rules.token_file:
        raw = read_regular(expand_home_folder(rules.token_file))
        if raw is None:
            logger.warning("analytics.token_file: %s cannot be read", rules.token_file)
            return ""
        token = raw.decode("utf-8", "replace")
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        logger.warning("The token for analytics.endpoint holds odd characters")
        return ""
    register_secret(token)
    return token


def _open_settings(file: Path | None, options: Options, environment: Mapping[str, str]) -> Settings:
    layers = (
        parse_environment(environment),
        Layer("config", options.settings),
        _command_line_layer(options),
    )
    return Settings((load_file(file), *layers) if file else layers)


def find_settings_file(environment: Mapping[str, str]) -> Path:
    """The operator's `config.yaml`; may not exist."""
    return Path(find_user_folders(environment)[0], "config.yaml")


def find_cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder of repositories and indexes, which a sync brings again."""
    return Path(find_user_folders(environment)[1])


def find_state_folder(environment: Mapping[str, str]) -> Path:
    """The folder of events, keys and logs, which nothing brings again."""
    return Path(find_user_folders(environment)[2])


def _find_operator_file(options: Options, environment: Mapping[str, str]) -> Path | None:
    if options.config_file:
        return options.config_file
    default = find_settings_file(environment)
    try:
        return default if default.is_file() else None
    except OSError as error:
        raise ConfigError(
            f"{default.parent} cannot be looked into: {error.strerror}. Repair its permissions, "
            "or set SKILLS_MCP_HOME to a folder of your own."
        ) from error


def _command_line_layer(options: Options) -> Layer:
    matching = {"algorithm": options.algorithm} if options.algorithm else None
    offline = {"offline": options.offline} if options.offline is not None else None
    values = {
        "toolsets": options.toolsets,
        "discover": options.discover,
        "matching": matching,
        "sync": offline,
        "http": options.http or None,
    }
    typed = {name: value for name, value in values.items() if value is not None}
    return Layer("command line", typed)


def _open_embedder(config: Config, environment: Mapping[str, str], cache: Path) -> Embedder | None:
    rules = Embedding() if config.sync.offline else config.embedding
    if rules.provider == "none":
        return None  # hooks import what only a server needs
    opened = (hook(rules, environment, cache) for hook in load_hooks("open_embedder"))
    return next(filter(None, opened), None)
