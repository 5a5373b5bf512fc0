"""The composition root: builds an application from options and environment.

Rule: only this room chooses implementations.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skills_mcp.bootstrap.fleet_reports import open_pulse
from skills_mcp.bootstrap.mounting import (
    ShortForm,
    choose_mounts,
    find_secret,
)
from skills_mcp.config import (
    Analytics,
    Config,
    Embedding,
    Layer,
    Settings,
    environment_layer,
    load_file,
    refuses_tracking,
)
from skills_mcp.config.unknown_variables import find_unknown_variables
from skills_mcp.config.values import AlgorithmSetting
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.events.outbox import Outbox, Record
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.publisher import Publisher
from skills_mcp.events.tracker import Tracker
from skills_mcp.files.durable import read_regular
from skills_mcp.hooks import load_hooks
from skills_mcp.library import SkillLibrary
from skills_mcp.snapshots.current import CurrentSnapshot
from skills_mcp.snapshots.embedding import Embedder
from skills_mcp.text.redaction import remember_secret

if TYPE_CHECKING:
    from skills_mcp.events.collector.event_store import EventStore
    from skills_mcp.library.runs import Runs

logger = logging.getLogger(__name__)

__all__ = [
    "Application",
    "EventCollection",
    "Options",
    "build",
    "collect_events",
    "find_home",
    "find_secret",
    "is_folder",
    "load_rules",
    "open_record",
    "opened_baseline",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(ShortForm):
    """The options of the command line, or of a program."""

    offline: bool | None = None
    """None leaves it to the configuration, as with each option below."""
    config_file: Path | None = None
    """The operator's file; None for `config.yaml` in the home of skills-mcp."""
    toolsets: tuple[str, ...] | None = None
    discover: bool | None = None
    algorithm: AlgorithmSetting | None = None
    """Instead of `matching.algorithm`."""
    http: Mapping[str, object] = field(default_factory=dict)
    """Keys of `http`."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Of a program, on top of the operator's file and the environment."""
    keeps_index: bool = True
    """Whether the index of this content is kept for other processes."""


@dataclass(frozen=True, slots=True)
class Application:
    """The objects that run: the library, and what sends its events."""

    library: SkillLibrary
    publisher: Publisher


def build(options: Options, environment: Mapping[str, str]) -> Application:
    """Build the application.  Reads the operator's file, and looks for a project.

    Raises:
        ConfigError: The operator has to change something before this can run.
    """
    for unknown in find_unknown_variables(environment):
        logger.warning("%s", unknown)
    home = find_home(environment)
    file = _operator_file(options, home)
    settings = _open_settings(file, options, environment)
    folder = file.absolute().parent if file else home
    config = settings.resolve()
    if refuses_tracking(environment):
        logger.info("DO_NOT_TRACK is set: no event is written or sent")
    cache = home / "cache"
    mounts = choose_mounts(options, config, environment, folder=folder, cache=cache)
    outbox = Outbox(home)
    tracker = Tracker(
        outbox.spool,
        lambda: library.config.analytics,
        Privacy(home / "analytics.key", environment),
    )
    library = SkillLibrary(
        mounts=mounts,
        current=CurrentSnapshot(
            mounts,
            settings,
            cache / "index" if options.keeps_index else None,
            _open_embedder(config, environment, cache),
        ),
        tracker=tracker,
        open_runs=partial(_open_runs, tracker, home, dict(environment)),
    )
    publisher = Publisher(
        outbox,
        lambda: library.config.analytics,
        is_offline=lambda: library.config.sync.offline,
        read_token=partial(_read_token, config.analytics, environment),
        pulse=open_pulse(library, home, environment, "stdio"),
    )
    return Application(library, publisher)


@dataclass(frozen=True, slots=True)
class EventCollection:
    """Where a server over HTTP puts events: its own, and those of other servers."""

    publisher: Publisher
    store: "EventStore | None"
    """None if `events.enabled` is false."""


def collect_events(
    application: Application, environment: Mapping[str, str]
) -> EventCollection:
    """Open the database of events of a server over HTTP, without connecting to it.

    Raises:
        ConfigError: `events.database` cannot be used.
    """
    library = application.library
    if not library.config.events.enabled:
        return EventCollection(application.publisher, None)
    from skills_mcp.events.collector.event_store import open_event_store
    from skills_mcp.events.collector.own_events import OwnEvents

    events = library.config.events
    home = find_home(environment)
    store = open_event_store(events.database, home, events.reserve_bytes)
    own = OwnEvents(
        application.publisher.outbox,
        lambda: library.config.analytics,
        store,
        is_offline=lambda: library.config.sync.offline,
        read_token=partial(_read_token, library.config.analytics, environment),
        pulse=open_pulse(library, home, environment, "http"),
    )
    return EventCollection(own, store)


def _open_runs(tracker: Tracker, home: Path, environment: Mapping[str, str]) -> "Runs":
    """Wire what runs scripts; its modules are imported for the first script."""
    from skills_mcp.library.runs import Runs
    from skills_mcp.scripts.audit import AuditFile
    from skills_mcp.scripts.script_environment import ScriptEnvironment
    from skills_mcp.scripts.script_runner import ScriptRunner

    audit = AuditFile(home / "audit.jsonl")
    return Runs(tracker, ScriptRunner(), audit, ScriptEnvironment.of(environment))


@contextmanager
def opened_baseline(
    options: Options, environment: Mapping[str, str], ref: str
) -> Iterator[SkillLibrary]:
    """Serve the same content at another commit, with the same settings.

    Args:
        options: With a folder in a work tree of Git, or with a repository.
        environment: As for `build`.
        ref: A branch, a tag or a commit; or a folder that holds the other state.

    Raises:
        SyncError: There is no such commit. What an earlier sync has left will not do.
    """
    if is_folder(ref):
        yield _load_folder(options, environment, Path(ref).expanduser())
        return
    if not options.skills_dir:
        yield _sync_baseline(options, environment, ref)
        return
    from skills_mcp.content.store.exported_files import checked_out

    with checked_out(Path(options.skills_dir).expanduser(), ref) as folder:
        yield _load_folder(options, environment, folder)


def is_folder(ref: str) -> bool:
    """Whether a baseline is a folder, and no name of Git: `./before` or `/tmp/before`.

    No name of a branch begins like that.
    """
    return ref.startswith(("./", "../", "~/")) or Path(ref).is_absolute()


def _load_folder(
    options: Options, environment: Mapping[str, str], folder: Path
) -> SkillLibrary:
    there = replace(options, skills_dir=str(folder), repo=None, keeps_index=False)
    library = build(there, environment).library
    library.sync()
    return library


def _sync_baseline(
    options: Options, environment: Mapping[str, str], ref: str
) -> SkillLibrary:
    """Fetch a branch, a tag or a commit; a remote says only by trying which it is."""
    pinned = build(replace(options, pin=ref), environment).library
    try:
        pinned.sync()
    except SyncError as error:
        branch = build(replace(options, branch=ref, pin=""), environment).library
        try:
            branch.sync()
        except SyncError:
            raise SyncError(f"--baseline {ref}: {error}") from error
        return branch
    return pinned


def load_rules(options: Options, environment: Mapping[str, str]) -> Config:
    """Return the operator's settings, without those of the content.

    Raises:
        ConfigError: It cannot be used.
    """
    file = _operator_file(options, find_home(environment))
    return _open_settings(file, options, environment).resolve()


def open_record(environment: Mapping[str, str]) -> Record:
    """Return the events that were written on this machine."""
    return Record(find_home(environment))


def _read_token(rules: Analytics, environment: Mapping[str, str], endpoint: str) -> str:
    """Return the token for an endpoint; empty if there is none.

    Only the endpoint that the operator has set gets it, and never one that content
    names.
    """
    if endpoint != rules.endpoint:
        return ""
    token = environment.get("ANALYTICS_TOKEN", "")
    if rules.token_file:
        raw = read_regular(Path(rules.token_file).expanduser())
        if raw is None:
            logger.warning("analytics.token_file: %s cannot be read", rules.token_file)
            return ""
        token = raw.decode("utf-8", "replace")
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        logger.warning("The token for analytics.endpoint holds odd characters")
        return ""
    remember_secret(token)
    return token


def _open_settings(
    file: Path | None, options: Options, environment: Mapping[str, str]
) -> Settings:
    layers = (
        environment_layer(environment),
        Layer("settings", options.settings),
        _command_line(options),
    )
    return Settings((load_file(file), *layers) if file else layers)


def find_home(environment: Mapping[str, str]) -> Path:
    """Return the folder of skills-mcp: settings, cache and events."""
    moved = environment.get("SKILLS_MCP_HOME")
    return Path(moved).expanduser() if moved else Path.home() / ".skills-mcp"


def _operator_file(options: Options, home: Path) -> Path | None:
    if options.config_file:
        return options.config_file
    default = home / "config.yaml"
    try:
        return default if default.is_file() else None
    except OSError as error:
        raise ConfigError(
            f"{home} cannot be looked into: {error.strerror}. Repair its permissions, "
            "or set SKILLS_MCP_HOME to a folder of your own."
        ) from error


def _command_line(options: Options) -> Layer:
    matching = {"algorithm": options.algorithm} if options.algorithm else None
    offline = {"offline": options.offline} if options.offline is not None else None
    given = {
        "toolsets": options.toolsets,
        "discover": options.discover,
        "matching": matching,
        "sync": offline,
        "http": options.http or None,
    }
    typed = {name: value for name, value in given.items() if value is not None}
    return Layer("command line", typed)


def _open_embedder(
    config: Config, environment: Mapping[str, str], cache: Path
) -> Embedder | None:
    rules = Embedding() if config.sync.offline else config.embedding
    opened = (hook(rules, environment, cache) for hook in load_hooks("open_embedder"))
    return next(filter(None, opened), None)
