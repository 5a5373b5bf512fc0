"""Connect your coding agent: add this server to the file that it reads.

What changes is shown, and you are asked first. For yourself, the source goes into your
settings, so that every command serves it; in a project it becomes part of the entry.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast, get_args
from urllib.parse import urlsplit

import click

from skills_mcp import errors
from skills_mcp.about import DISTRIBUTION, __version__, compose_requirement, is_passing
from skills_mcp.bootstrap import Application, Options, build, find_settings_file, find_url_secret
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import content_options, json_option, read_options
from skills_mcp.cli.terminal import confirm, print_json, sync_and_load
from skills_mcp.features.hosts.client_checks import find_host_entries
from skills_mcp.features.hosts.config_edits import set_yaml_block
from skills_mcp.features.hosts.host import (
    DEFAULT_NAME,
    HOSTS,
    HookHost,
    HostName,
    HostScope,
    PluginHost,
    find_host,
)
from skills_mcp.features.hosts.installation import (
    FileChange,
    HookFile,
    HostFile,
    Plugin,
    RemoteServer,
    Server,
    SettingsFile,
    StartedServer,
    find_forwarded_variables,
    find_hook_files,
    list_install_commands,
    plan_installation,
    plan_removal,
    plan_settings,
    plan_settings_removal,
    render_hooks,
    render_plugin,
    render_snippet,
    write_plugin,
)
from skills_mcp.files.paths import expand_home_folder
from skills_mcp.library import LibraryView, Match
from skills_mcp.skills.skill_index import INDEX, ROOT

_PROGRAM = "skills-mcp"

# Enough to find a task, also where most skills have a near-copy.
_SAMPLED_SKILLS = 100
_SAMPLED_KEYWORDS = 3
_CLAUSE_END = re.compile(r"[,.;:(]")
_MAX_SAMPLE_CHARACTERS = 100  # of one line of a terminal

# A person waits for it; a server that is asleep may take longer, and is only named.
_ADDRESS_SECONDS = 5.0

_WITHOUT_HOOK = (
    "--hook excludes --http, as a hook asks a server on this machine, --plugin, which has the "
    "hooks already, and --remove, which takes them out by itself."
)

_COLOURS = {"+": "green", "-": "red"}


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp install --repo https://github.com/acme/skills.git",
        "skills-mcp install --client claude-code --skills-dir ./skills --print",
        "skills-mcp install --client cursor --http https://skills.acme.com/mcp",
        "skills-mcp install --remove",
    ),
)
@click.option(
    "--client",
    "clients",
    type=click.Choice(get_args(HostName)),
    multiple=True,
    help="Which host; may be repeated.  [default: all that are found here]",
)
@click.option(
    "--scope",
    type=click.Choice(get_args(HostScope)),
    default="user",
    show_default=True,
    help="For you, or for everyone who works in this folder.",
)
@click.option("--print", "--dry-run", "is_printed", is_flag=True, help="Only show what to add.")
@click.option("--remove", "is_removed", is_flag=True, help="Take the entry out again.")
@click.option("--http", "url", metavar="URL", help="Connect to a server at this URL.")
@click.option(
    "--name",
    metavar="NAME",
    default=DEFAULT_NAME,
    show_default=True,
    help="What the server is called there.",
)
@click.option("--hook", "has_hooks", is_flag=True, help="Add its hooks to the host, too.")
@click.option(
    "--plugin",
    type=click.Choice(get_args(PluginHost)),
    help="Make a plugin of the server, a hook and a command.",
)
@click.option(
    "--to",
    "folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the plugin.",
)
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask.")
@json_option
@content_options(log_level="error")
def command(
    *,
    clients: tuple[HostName, ...],
    scope: HostScope,
    is_printed: bool,
    is_removed: bool,
    url: str | None,
    name: str,
    has_hooks: bool,
    plugin: PluginHost | None,
    folder: Path | None,
    is_confirmed: bool,
    as_json: bool,
    **values: Any,
) -> None:
    options, environment = read_options(**values)
    if is_removed and (is_printed or url):
        raise click.UsageError("--remove excludes --print and --http.")
    if has_hooks and (is_removed or url or plugin):
        raise click.UsageError(_WITHOUT_HOOK)
    if plugin or folder:
        if plugin is None or folder is None:
            raise click.UsageError("--plugin and --to go together.")
        if clients or is_printed or is_removed:
            raise click.UsageError("--plugin excludes --client, --print and --remove.")
        # Other people install it, each on a machine of their own.
        server = _compose_server(options, environment, url, is_shared=True)
        made = Plugin(name, server)
        _make_plugin(made, plugin, folder, may_replace=is_confirmed, as_json=as_json)
        return
    entries = _find_entries(clients, scope, environment)
    edit = _Edit(name, environment, is_confirmed=is_confirmed, as_json=as_json, has_hooks=has_hooks)
    if is_removed:
        edit.remove(entries)
        return
    is_shared = scope == "project"
    keeps_source = not is_shared and url is None and options.config_file is None
    how = {"is_shared": is_shared, "keeps_source": keeps_source}
    server = _compose_server(options, environment, url, **how)
    settings = compose_settings(options) if keeps_source else {}
    if is_printed:
        edit.print_snippets(entries, server, settings)
        return
    edit.install(entries, server, settings)
    application = _fetch(options, environment) if url is None else None
    edit.print_end(application)


def _name_hosts_without_hooks(entries: Sequence[HostFile]) -> None:
    for file in entries:
        if not file.host.hook_files:
            reason = "has no hook that can add to its context, and gets the entry alone"
            click.echo(f"{file.title} {reason}.", err=True)


def _make_plugin(
    plugin: Plugin, host: PluginHost, folder: Path, *, may_replace: bool, as_json: bool
) -> None:
    rendered = render_plugin(plugin, host)
    write_plugin(folder, host, rendered, may_replace=may_replace)
    files = [str(folder / file) for file in sorted(rendered)]
    commands = list_install_commands(host, plugin.name, folder)
    if as_json:
        print_json({"files": files, "commands": commands})
        return
    for line in (*files, "To use it:", *(f"  {command}" for command in commands)):
        click.echo(line)


def find_own_program() -> tuple[str, ...]:
    """A command to start this program again, independent of PATH."""
    started = Path(sys.argv[0])
    if is_passing(sys.argv[0]):
        requirement = compose_requirement()
        if requirement == DISTRIBUTION:
            return ("uvx", f"{DISTRIBUTION}@{__version__}")
        return ("uvx", "--from", requirement, _PROGRAM)
    if started.stem in {_PROGRAM, DISTRIBUTION} and started.is_file():
        return (os.path.abspath(started),)  # noqa: PTH100 - a link stays one
    sibling = Path(sys.executable).with_name(_PROGRAM)
    found = os.fspath(sibling) if sibling.is_file() else shutil.which(_PROGRAM)
    return (found,) if found else (sys.executable, "-m", "skills_mcp")


def compose_arguments(options: Options, *, is_shared: bool) -> tuple[str, ...]:
    """Arguments for the sources of an entry.

    Args:
        options: From the command line or the environment.
        is_shared: Whether other people start the server, each in a copy of the folder.
    """
    selection = options.selection
    settings = os.fspath(options.config_file) if options.config_file else None
    switches = {
        "--discover": options.discover is True,
        "--no-discover": options.discover is False,
        "--offline": options.offline is True,
        "--online": options.offline is False,
        "--everywhere": selection.everywhere,
    }
    values = {
        "--skills-dir": _locate(options.skills_dir, is_shared=is_shared),
        "--repo": None if options.skills_dir else _locate_repository(options.repo),
        "--branch": options.branch,
        "--ref": options.pin,
        "--subfolder": selection.subfolder,
        "--plugins": ",".join(selection.plugins),
        "--config": _locate(settings, is_shared=is_shared),
    }
    typed = [word for name, value in values.items() if value for word in (name, value)]
    return (*typed, *(name for name, is_on in switches.items() if is_on))


def compose_settings(options: Options) -> dict[str, Any]:
    """Settings that serve the same as these options, in any folder."""
    selection = options.selection
    source = {
        "folder": _locate(options.skills_dir, is_shared=False),
        "repo": None if options.skills_dir else _locate_repository(options.repo),
        "branch": options.branch,
        "ref": options.pin,
        "subfolder": selection.subfolder,
        "plugins": [*selection.plugins],
        "everywhere": selection.everywhere,
    }
    is_named = options.skills_dir or options.repo
    found = {"sources": [{key: value for key, value in source.items() if value}]}
    discovered = {"discover": options.discover} if options.discover is not None else {}
    return {**discovered, **(found if is_named else {})}


def _compose_server(
    options: Options,
    environment: Mapping[str, str],
    url: str | None,
    *,
    is_shared: bool,
    keeps_source: bool = False,
) -> Server:
    """Compose the server of an entry; with `keeps_source`, the settings have its source."""
    if url is not None:
        if urlsplit(url).scheme not in {"http", "https"}:
            raise click.UsageError("--http takes a URL, such as https://host/mcp.")
        if not options.offline:
            _check_address(url)
        return RemoteServer(url)
    if find_url_secret(options.repo):
        raise errors.ConfigError(
            "The URL of the repository holds a token, which would stand in the file. "
            "Leave it out of the URL, and set GITHUB_TOKEN: the entry names that "
            "variable, never its value"
        )
    _check_sources(options, environment)
    program = (_PROGRAM,) if is_shared else find_own_program()
    typed = Options(offline=options.offline) if keeps_source else options
    return StartedServer(
        (*program, *compose_arguments(typed, is_shared=is_shared)),
        find_forwarded_variables(environment, is_shared=is_shared),
    )


def _check_sources(options: Options, environment: Mapping[str, str]) -> None:
    """Refuse a source that is not there; one that cannot be reached may be.

    Raises:
        SyncError: A repository or a folder is missing, or not for this user.
    """
    for check in build(options, environment).library.check_sources():
        error = check.git_error or check.error
        is_missing = isinstance(error, errors.AccessRefusedError | errors.RemoteMissingError)
        if error and (is_missing or check.git_error or check.mode == "local"):
            raise error
        if error:
            click.echo(f"Not checked: {error}", err=True)


def _check_address(url: str) -> None:
    """Refuse an address that answers, but not to clients of MCP; name an unreachable one."""
    from skills_mcp.features.hosts.client_checks import ask_url  # HTTP, for this option only

    try:
        answer = ask_url(url, _ADDRESS_SECONDS)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        click.echo(f"{url} cannot be reached from here, so it was not checked: {reason}", err=True)
        return
    if answer.is_elsewhere:
        found = f"{answer.status} {answer.reason}".strip()
        raise errors.ConfigError(f"MCP is not served at {url}, which answers {found}")


def _locate(path: str | None, *, is_shared: bool) -> str | None:
    """An absolute path: the host may start the server in any folder."""
    if not path or is_shared:
        return path
    return os.path.abspath(expand_home_folder(path))  # noqa: PTH100 - a link stays one


def _locate_repository(repo: str | None) -> str | None:
    if repo and "://" not in repo and expand_home_folder(repo).exists():
        return _locate(repo, is_shared=False)
    return repo


def _find_entries(
    names: Sequence[HostName], scope: HostScope, environment: Mapping[str, str]
) -> Sequence[HostFile]:
    """The file of each named host; of those on this machine without a name."""
    hosts = [find_host(name) for name in dict.fromkeys(names)]
    hosts = hosts or [host for host in HOSTS if host.is_installed(environment)]
    if not hosts:
        known = ", ".join(host.name for host in HOSTS)
        raise errors.HostFileError(
            f"No client was found on this machine. Name one with --client: {known}"
        )
    project = Path.cwd()
    return [HostFile(host, host.find_file(scope, environment, project), scope) for host in hosts]


@dataclass(slots=True)
class _Edit:
    """The changes of files, shown and confirmed."""

    name: str
    environment: Mapping[str, str]
    is_confirmed: bool
    as_json: bool
    has_hooks: bool = False
    changes: Sequence[FileChange] = ()

    @property
    def settings_file(self) -> SettingsFile:
        return SettingsFile(find_settings_file(self.environment))

    def install(
        self, files: Sequence[HostFile], server: Server, settings: Mapping[str, Any]
    ) -> None:
        own = [plan_settings(self.settings_file, settings)] if settings else []
        planned = [plan_installation(file, self.name, server) for file in files]
        if self.has_hooks:
            _name_hosts_without_hooks(files)
            planned = self._plan_hooks(planned, files, server)
        self._apply([*own, *planned], is_removed=False)

    def _plan_hooks(
        self, planned: Sequence[FileChange], files: Sequence[HostFile], server: Server | None
    ) -> list[FileChange]:
        """Add the changes of hooks; without a server, their removal."""
        changes = {change.file.path: change for change in planned}
        for file in find_hook_files(files, self.environment, Path.cwd()):
            change = file.plan(changes.get(file.path), self._render_hooks(file, server))
            if server or change.is_needed:
                changes[file.path] = change
        return [*changes.values()]

    def _render_hooks(self, file: HookFile, server: Server | None) -> dict[str, dict[str, Any]]:
        name = cast("HookHost", file.host.name)
        return render_hooks(name, server, self.name) if server else {}

    def remove(self, files: Sequence[HostFile]) -> None:
        removed = [plan_removal(file, self.name) for file in files]
        planned = self._plan_hooks(removed, files, None)
        own = plan_settings_removal(self.settings_file)
        is_removed = own.is_needed and not self._is_source_used(planned)
        self._apply([*([own] if is_removed else []), *planned], is_removed=True)
        if self.as_json:
            self._print_json()

    def _is_source_used(self, removals: Sequence[FileChange]) -> bool:
        """Whether another entry of this machine needs the source of the settings."""
        removed = {change.file.path for change in removals if change.is_needed}
        entries, _ = find_host_entries(self.environment, Path.cwd())
        return any(
            entry.entry.command and not entry.names_source and entry.file.path not in removed
            for entry in entries
        )

    def _apply(self, changes: Sequence[FileChange], *, is_removed: bool) -> None:
        self.changes = changes
        needed = [change for change in changes if change.is_needed]
        if not self.as_json:
            _announce(changes, is_removed=is_removed)
        if needed and not self.is_confirmed:
            confirm(
                "Change this file?" if len(needed) == 1 else f"Change these {len(needed)} files?",
                errors.HostFileError,
                done="changed",
                preview="the entry with --print",
                listing="lines",
                as_json=self.as_json,
            )
        for change in needed:
            change.apply()
            if not self.as_json:
                said = _describe(change, self.name, is_removed=is_removed)
                click.echo(" ".join(filter(None, said)))

    def print_snippets(
        self, files: Sequence[HostFile], server: Server, settings: Mapping[str, Any]
    ) -> None:
        own = self.settings_file
        snippets = [(file, render_snippet(file.host, self.name, server)) for file in files]
        hook_files = find_hook_files(files, self.environment, Path.cwd())
        for each in hook_files if self.has_hooks else ():
            change = each.plan(FileChange(each, None, None), self._render_hooks(each, server))
            snippets.append((each, change.after or ""))
        if self.as_json:
            entries = [{**_render(file), "entry": snippet} for file, snippet in snippets]
            values = {"file": str(own.path), "values": settings} if settings else None
            print_json({"name": self.name, "settings": values, "entries": entries})
            return
        above = [(own, set_yaml_block("", settings))] if settings else []
        shown: Sequence[tuple[HostFile | SettingsFile, str]] = [*above, *snippets]
        for number, (file, snippet) in enumerate(shown):
            click.echo("\n" * bool(number), nl=False)
            click.echo(f"{file.title}: add to {file.path}", err=True)
            click.echo(snippet, nl=False)

    def print_end(self, application: Application | None) -> None:
        """Print the number of skills, and a task to try."""
        view = application.library.view() if application else None
        count = len(view.snapshot.index) if view else 0
        if self.as_json:
            self._print_json(count if view else None)
            return
        if view and count:
            sources = ", ".join(state.name for state in view.states())
            ready = "1 skill is" if count == 1 else f"{count} skills are"
            click.echo(f"{ready} ready, from {sources}.")
        if view and (task := find_sample_task(view)):
            click.echo(f"Try it in your agent, or here: skills-mcp ask {shlex.quote(task)}")
        else:
            click.echo("To see whether it works: skills-mcp doctor")

    def _print_json(self, count: int | None = None) -> None:
        rendered = [_render_change(change) for change in self.changes]
        own = next((each for each in rendered if each["client"] is None), None)
        hosts = [each for each in rendered if each is not own]
        print_json({"name": self.name, "settings": own, "changes": hosts, "skills": count})


def _announce(changes: Sequence[FileChange], *, is_removed: bool) -> None:
    """Print the unchanged files, then the changes in the others."""
    for change in changes:
        if not change.is_needed:
            known = "source" if isinstance(change.file, SettingsFile) else "entry"
            known = "hooks" if isinstance(change.file, HookFile) else known
            state = f"has no {known}" if is_removed else f"has the {known} already"
            click.echo(f"{change.file.title}: {change.file.path} {state}.")
    for change in changes:
        if change.is_needed:
            click.secho(f"{change.file.title}:", bold=True)
        for line in change.compare().splitlines() if change.is_needed else ():
            click.secho(line, fg=_COLOURS.get(line[:1]))


def _fetch(options: Options, environment: Mapping[str, str]) -> Application | None:
    """Fetch the skills with progress; None if that failed, which is said."""
    unrecorded = replace(options, settings={"analytics": {"enabled": False}})
    application = build(unrecorded, environment)
    try:
        sync_and_load(application.library)
    except errors.SyncError as error:
        click.echo(f"No skills have been fetched yet: {error}", err=True)
        return None
    return application


def find_sample_task(view: LibraryView) -> str:
    """A task that one skill answers; empty if there is none among the first skills."""
    # Rules of a folder come last: a task for them shows none of those below.
    sampled = islice(view.snapshot.index, _SAMPLED_SKILLS)
    skills = sorted(sampled, key=lambda skill: skill.path.rpartition("/")[2] in {INDEX, ROOT})
    examples = (task for skill in skills for task in skill.examples)
    described = (_CLAUSE_END.split(skill.description)[0].strip() for skill in skills)
    named = (" ".join(skill.keywords[:_SAMPLED_KEYWORDS]) for skill in skills)
    tasks = (task for task in chain(examples, described, named) if task)
    short = (task for task in tasks if len(task) <= _MAX_SAMPLE_CHARACTERS)
    return next((task for task in short if isinstance(view.route(task), Match)), "")


def _render(file: HostFile | SettingsFile) -> dict[str, Any]:
    client = file.host.name if isinstance(file, HostFile) else None
    return {"client": client, "file": str(file.path)}


def _render_change(change: FileChange) -> dict[str, Any]:
    return {
        **_render(change.file),
        "changed": change.is_needed,
        "deleted": change.is_needed and change.after is None,
    }


def _describe(change: FileChange, name: str, *, is_removed: bool) -> Iterator[str]:
    file = change.file
    what = f"the entry {name}" if isinstance(file, HostFile) else "the source"
    if isinstance(file, HookFile):
        what = "the hooks"
    elif isinstance(file, HostFile) and f" hook {file.host.name}" in (change.after or ""):
        what += " and the hooks"
    yield f"{file.title}:"
    if change.after is None:
        yield f"{file.path} was deleted, as nothing else was in it."
    elif is_removed:
        yield f"{what} was taken out of {file.path}."
    else:
        yield f"{file.path} has {what}."
        if isinstance(file, HookFile):
            yield file.host.hook_step
        elif isinstance(file, HostFile):
            yield file.host.manual_steps.get(file.scope, "Restart it to load the tools.")
