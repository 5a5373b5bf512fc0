"""The composition root: what the operator asks for in, wired objects out.

The only module that chooses implementations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.analytics.events import derive_server_id
from skills_mcp.analytics.publisher import Publisher
from skills_mcp.analytics.spool import Spool
from skills_mcp.analytics.tracker import Tracker
from skills_mcp.bootstrap.sources import DEFAULT_BRANCH, Origin, choose_mounts
from skills_mcp.config import (
    Analytics,
    Config,
    Embedding,
    Layer,
    Settings,
    environment_layer,
    load_file,
)
from skills_mcp.config.values import Algorithm
from skills_mcp.content.mounts import Mounts
from skills_mcp.embeddings import open_embedding
from skills_mcp.errors import ConfigError
from skills_mcp.library import SkillLibrary
from skills_mcp.scripts.runner import ScriptRunner
from skills_mcp.shelf import Shelf

__all__ = ["DEFAULT_BRANCH", "Application", "Options", "build"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Origin):
    """Where the skills are, and where the operator's own file is (001 §11.1)."""

    offline: bool | None = None
    """As the configuration has it; None leaves the choice to it."""
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
    cache = home / "cache"
    mounts = choose_mounts(options, config, environment, folder=folder, cache=cache)
    spool = Spool(home / "spool")
    tracker = Tracker(
        spool, lambda: library.config.analytics, derive_server_id(environment)
    )
    library = SkillLibrary(
        shelf=Shelf(
            mounts,
            settings,
            cache / "index" if options.keeps_index else None,
            open_embedding(_embedding(config), environment, cache),
        ),
        tracker=tracker,
        runner=ScriptRunner(),
        environment=environment,
    )
    publisher = Publisher(spool, lambda: _publishing(library.config))
    return Application(library, publisher, mounts)


def _home(environment: Mapping[str, str]) -> Path:
    """Return where everything of ours lies (DESIGN §3.8)."""
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
    }
    typed = {name: value for name, value in given.items() if value is not None}
    return Layer("command line", typed)


def _embedding(config: Config) -> Embedding:
    """Return whom to ask for meanings: nobody, if nothing may be asked."""
    return Embedding() if config.sync.offline else config.embedding


def _publishing(config: Config) -> Analytics:
    """Return whom to send events to; without a network they wait in the spool."""
    if not config.sync.offline:
        return config.analytics
    return config.analytics.model_copy(update={"endpoint": ""})
