"""The group of all commands: finds their files, and reports failures.

A command is a file `NAME.py` in `commands` here or in a feature. Its `command` is a
`SectionedCommand`, and its docstring is the help, so that the list of all commands
imports none of them.

Libraries for option groups in Click take 25 to 50 milliseconds to import, with each
start of a server; Click's own formatter does it, too.
"""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from skills_mcp.cli.invocation import read_environment
from skills_mcp.errors import AGENTS_STEP, ConfigError, ContentError, InvalidPathError, SkillsError
from skills_mcp.hooks import find_modules
from skills_mcp.text.redaction import redact_registered

_FOLDER = "--skills-dir"

OWN = "Options"
OVER_HTTP = "Over HTTP"
WHERE = "Where the skills are"
GENERAL = "General"
_OPTION_SECTIONS = (OWN, OVER_HTTP, WHERE, GENERAL)

SECTIONS: Mapping[str, Sequence[str]] = {
    "Agents": ("install", "doctor", "serve", "stop", "catalog", "hook"),
    "Content": (
        *("tree", "open", "sync", "export", "status", "log", "diff", "rollback", "report"),
    ),
    "Authoring": (
        *("new", "show", "ask", "search", "explain", "validate", "powers", "test", "effect"),
        *("add", "import"),
    ),
    "Shell": ("completion",),
}
"""Titles in the help, and the commands below each that are installed."""

FIRST_EXAMPLES = (
    "skills-mcp install --repo https://github.com/acme/skills.git",
    "skills-mcp tree --skills-dir ./skills",
    'skills-mcp ask "add a login page" --skills-dir ./skills',
    "skills-mcp validate ./skills --strict",
    "skills-mcp doctor",
)
"""For the help of the program itself."""

_NAME_WIDTH = 30  # the widest first column, as Click has it
_SHORT_HELP_CHARACTERS = 45  # of a command in the completion of a shell, as Click has it

_PROGRAM = "skills-mcp"
_INTERRUPTED_EXIT = 130  # as shells have it: 128 and the number of the signal
_KEPT = "What was served before is unchanged; run it again to start over."

_ALIKE = 0.6  # two letters of five

_WORDS = "skills_mcp.words"
_GIVEN = "skills_mcp.given"

USAGE = "WRONG_USAGE"
INTERRUPTED = "INTERRUPTED"
PROMPTS_INVALID = "PROMPTS_INVALID"

CONFIG_EXIT = 3
SYNC_EXIT = 4

Rows = list[tuple[str, str]]
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def add_options(*options: Decorator) -> Decorator:
    """Join options into one decorator, in the sequence of the help."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def format_options(formats: Sequence[str], purpose: str) -> Decorator:
    """`--format` with text as its default, and `--json` as its short form."""
    return add_options(
        click.option(
            "--format",
            "report_format",
            type=click.Choice(formats),
            default="text",
            show_default=True,
            help=purpose,
        ),
        click.option("--json", "as_json", is_flag=True, help="As --format json."),
    )


class SectionOption(click.Option):
    """An option below its own title in the help."""

    def __init__(self, *args: Any, section: str = OWN, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:  # noqa: ARG002 - Click passes it
        """The text of the variable; in Click 8.2, any value of a flag's means true."""
        found = read_environment().get(self.envvar) if isinstance(self.envvar, str) else None
        return found or None


class SectionedCommand(click.Command):
    """A command with sections and examples in its help.

    With `reports_variables`, it says itself which variables are mistyped, or prints
    nothing.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        reports_variables: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.reports_variables = reports_variables

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; of a folder in the wrong place, say where it belongs."""
        words = tuple(args)  # Click empties the list
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if meant := self._place_folder(error, words):
                line = shlex.join([_PROGRAM, ctx.info_name or "", *meant])
                message = f"{error.format_message().rstrip('.')}. Did you mean: {line}"
                raise click.UsageError(message, ctx) from error
            raise

    def _place_folder(self, error: click.UsageError, words: Sequence[str]) -> Sequence[str]:
        """The words with the folder where this command takes it; none if it is elsewhere."""
        names = [word.partition("=")[0] for word in words]
        if isinstance(error, click.NoSuchOption):
            if error.option_name != _FOLDER or all(p.name != "paths" for p in self.params):
                return ()
            at = names.index(_FOLDER)
            return [*words[:at], *words[at].split("=", 1)[1:], *words[at + 1 :]]
        is_of_argument = isinstance(getattr(error, "param", None), click.Argument)
        takes_option = _FOLDER not in names and any(_FOLDER in p.opts for p in self.params)
        if not takes_option or not (is_of_argument or type(error) is click.UsageError):
            return ()
        values = [number + 1 for number, name in enumerate(names) if name.startswith("-")]
        folders = (n for n, word in enumerate(words) if n not in values and Path(word).is_dir())
        return next(([*words[:at], _FOLDER, *words[at:]] for at in folders), ())

    def invoke(self, ctx: click.Context) -> Any:
        ctx.meta[_GIVEN] = dict(_given_options(ctx))  # an error is reported without this context
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, Rows] = {title: [] for title in _OPTION_SECTIONS}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                is_help = option is self.get_help_option(ctx)
                section = GENERAL if is_help else getattr(option, "section", OWN)
                sections[section].append(record)
        _write_sections(formatter, sections)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - Click passes it
        _write_examples(formatter, self.examples)


class CommandGroup(click.Group):
    """The commands, each loaded when it is called; `serve` is the default."""

    @cached_property
    def _modules(self) -> Mapping[str, tuple[str, Path]]:
        """Name and file of the module of each command."""
        package = __package__
        folder = Path(__file__).with_name("commands")
        own = ((f"{package}.commands.{file.stem}", file) for file in folder.glob("[!_]*.py"))
        return {file.stem: (name, file) for name, file in (*own, *find_modules("commands"))}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click passes it
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - Click passes it
        if cmd_name not in self._modules:
            return None
        from skills_mcp.processes.memory import gc_frozen

        name = self._modules[cmd_name][0]
        with nullcontext() if name in sys.modules else gc_frozen():
            module = import_module(name)
        found: click.Command = module.command
        found.name, found.help = cmd_name, module.__doc__
        return found

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> "list[click.shell_completion.CompletionItem]":
        """Complete the name of a command without loading any."""
        from textwrap import shorten

        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=shorten(text, _SHORT_HELP_CHARACTERS, placeholder="..."))
            for name, text in self._list_rows(self.list_commands(ctx))
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `serve`, unless a command, `help` or an option of the program comes first."""
        ctx.meta[_WORDS] = tuple(args)  # wrong usage is reported before it is parsed
        if args[:1] == ["help"]:
            args = [*args[1:2], "--help"]
        own = {"--help", "-h", "--version", "-v"}
        is_completed = ctx.resilient_parsing  # then a command may be what comes next
        if (not args and not is_completed) or (
            args and args[0].startswith("-") and args[0] not in own
        ):
            args = ["serve", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, with a suggestion for an unknown one.

        Raises:
            UsageError: There is no such command.
        """
        if args[0] not in self._modules and not ctx.resilient_parsing:
            raise click.UsageError(self.describe_unknown(args), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; report errors, Ctrl-C, a lack of memory or of a working directory."""
        from skills_mcp.processes.memory import translate_out_of_memory

        try:
            with translate_out_of_memory():
                if ctx.obj is KeyboardInterrupt:  # before the program was imported
                    ctx.invoked_subcommand = stored_command_line(ctx)[0]
                    raise click.Abort  # noqa: TRY301 - reported below
                _clear_placeholders()  # before the options of the command read them
                return super().invoke(ctx)
        except click.ClickException as error:
            reported = self._hint_at_order(ctx, error)
            print_failure_object(USAGE, reported.format_message())
            raise reported from error
        except (KeyboardInterrupt, click.Abort):
            message = f"{ctx.invoked_subcommand or _PROGRAM} was interrupted. {_KEPT}"
            print_failure_object(INTERRUPTED, message)
            click.echo(f"\nskills-mcp: {message}", err=True)
            ctx.exit(_INTERRUPTED_EXIT)
        except SkillsError as error:
            ctx.exit(print_error(error))
        except FileNotFoundError as error:
            if error.filename is not None:  # as of every call but `os.getcwd`
                raise
            gone = "The working directory is gone. Change to a folder that exists."
            ctx.exit(print_error(InvalidPathError(gone)))

    def describe_unknown(self, words: Sequence[str]) -> str:
        """Message for an unknown command; `words` begin with the command."""
        meant = self._suggest(*words)
        more = f"Did you mean: {meant}" if meant else f"See: {_PROGRAM} --help"
        return f"There is no command {words[0]!r}. {more}"

    def _suggest(self, name: str, *others: str) -> str:
        """A correction of a mistyped command line; empty if there is none."""
        typed = name.lower()
        if typed == "version":
            return f"{_PROGRAM} --version"
        meant = _load_synonyms().get(typed, "").split()
        if not meant or meant[0] not in self._modules:
            from difflib import get_close_matches

            meant = get_close_matches(typed, self._modules, n=1, cutoff=_ALIKE)
        return shlex.join([_PROGRAM, *meant, *others]) if meant else ""

    def _hint_at_order(
        self, ctx: click.Context, error: click.ClickException
    ) -> click.ClickException:
        """Message for options before the command, or the error itself."""
        words = stored_command_line(ctx)
        if not isinstance(error, click.UsageError) or not "".join(words[:1]).startswith("-"):
            return error
        for index, word in enumerate(words):
            if word in self._modules and not self._is_value(ctx, words, index):
                rest = [*words[:index], *words[index + 1 :]]
                line = shlex.join([_PROGRAM, word, *rest])
                message = f"Options come after the command: {line}"
                return click.UsageError(message, error.ctx)
        return error

    def _is_value(self, ctx: click.Context, words: Sequence[str], index: int) -> bool:
        """Whether a word is the value of the preceding option of `serve`."""
        serve = self.get_command(ctx, "serve")
        return any(
            isinstance(option, click.Option)
            and words[index - 1] in option.opts
            and not option.is_flag
            for option in (serve.params if serve else ())
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        placed = {name for names in SECTIONS.values() for name in names}
        others = [name for name in self.list_commands(ctx) if name not in placed]
        sections = {**SECTIONS, "Other": others}
        _write_sections(
            formatter, {title: self._list_rows(names) for title, names in sections.items()}
        )

    def _list_rows(self, names: Iterable[str]) -> Rows:
        return [
            (name, _read_short_help(self._modules[name][1]))
            for name in names
            if name in self._modules
        ]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - Click passes it
        examples = [line for line in FIRST_EXAMPLES if line.split()[1] in self._modules]
        _write_examples(formatter, examples)
        formatter.write_paragraph()
        formatter.write_text(f"More about a command: {_PROGRAM} COMMAND --help")


def _load_synonyms() -> Mapping[str, str]:
    """Synonyms of commands, and the commands that they stand for."""
    import tomllib

    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def _clear_placeholders() -> None:
    from skills_mcp.processes.memory import gc_frozen

    with gc_frozen():
        from skills_mcp.config.variables import clear_placeholders

    for message in clear_placeholders(os.environ):
        click.echo(f"skills-mcp: {message}", err=True)


def _read_short_help(file: Path) -> str:
    """The first line of the docstring of a module."""
    with file.open(encoding="utf-8") as lines:
        return lines.readline().strip().strip('"')


def _write_sections(formatter: click.HelpFormatter, sections: Mapping[str, Rows]) -> None:
    """Write rows below titles, with one width of the first column."""
    names = [name for rows in sections.values() for name, _ in rows]
    width = max((len(name) for name in names if len(name) <= _NAME_WIDTH), default=0)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:{width}}", text) for name, text in rows], col_max=width
                )


def _write_examples(formatter: click.HelpFormatter, lines: Sequence[str]) -> None:
    """Write lines unwrapped, to be copied."""
    if lines:
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def stored_command_line(context: click.Context) -> tuple[str, ...]:
    words: tuple[str, ...] = context.meta.get(_WORDS, ())
    return words


# The commands that read sources by these options, and do something to them.
_HINTED = re.compile(
    rf"(?<![\w/]){_PROGRAM} "
    r"(ask|doctor|explain|open|report|rollback|status|sync|test|tree)(?![\w-])"
)
_NOT_REPEATED = frozenset({"log_level"})

_PERSONS_STEP = f"{_PROGRAM} tree shows what there is."


def repeat_options(text: str) -> str:
    """Repeat the given options of sources and settings in the commands of a hint.

    Without them, a hint would be about other sources than its command line.
    """
    context = click.get_current_context(silent=True)
    given: Mapping[str, Sequence[str]] = context.meta.get(_GIVEN, {}) if context else {}

    def complete(hint: re.Match[str]) -> str:
        # Nothing can be fetched offline.
        left_out = {"offline"} if hint[1] == "sync" else ()
        words = (word for name, words in given.items() if name not in left_out for word in words)
        return redact_registered(" ".join((hint[0], *words)))

    return _HINTED.sub(complete, text)


def _given_options(context: click.Context) -> Iterator[tuple[str, Sequence[str]]]:
    """Name and quoted words of each typed option of sources and settings."""
    for option in context.command.params:
        name = option.name or ""
        is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        is_repeated = getattr(option, "section", OWN) in {WHERE, GENERAL}
        if not is_typed or not is_repeated or name in _NOT_REPEATED:
            continue
        value = context.params.get(name)
        if isinstance(value, bool):
            yield name, (option.opts if value else option.secondary_opts)[:1]
        else:
            yield name, (option.opts[0], shlex.quote(str(value)))


def print_error(error: SkillsError) -> int:
    """Print an error on standard error, and as JSON if requested.

    Returns:
        The exit code.
    """
    message = repeat_options(str(error).replace(AGENTS_STEP, _PERSONS_STEP))
    print_failure_object(error.code, message)
    click.echo(f"skills-mcp: {message}", err=True)
    match error:
        case ConfigError():
            return CONFIG_EXIT
        case ContentError():
            return SYNC_EXIT
        case _:
            return 1


def print_failure_object(code: str, message: str, **more: Any) -> None:
    """Print an error as JSON to standard output, if JSON was requested.

    Args:
        code: A stable name, in capitals.
        message: The error, and what to do next.
        more: Further fields of the object.
    """
    context = click.get_current_context(silent=True)
    if context is None or not _is_json_wanted(stored_command_line(context)):
        return
    from skills_mcp.cli.terminal import print_json

    print_json({"error": {"code": code, "message": message}, **more})


def _is_json_wanted(words: Sequence[str]) -> bool:
    pairs = pairwise(words)
    is_long = "--format=json" in words or ("--format", "json") in pairs
    return is_long or "--json" in words
