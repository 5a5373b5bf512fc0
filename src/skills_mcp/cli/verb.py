"""Help of the commands, and messages for wrong ones.

Libraries for option groups in Click take 25 to 50 milliseconds to import, with each
start
of a server; Click's own formatter does it, too.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from skills_mcp.cli.examples import FIRST_EXAMPLES, SECTIONS, find_examples
from skills_mcp.cli.failures import (
    INTERRUPTED,
    USAGE,
    print_failure_object,
    store_command_line,
    stored_command_line,
)
from skills_mcp.errors import OutOfMemoryError
from skills_mcp.processes.memory import translate_out_of_memory

OWN = "Options"
OVER_HTTP = "Over HTTP"
WHERE = "Where the skills are"
GENERAL = "General"
_OPTION_SECTIONS = (OWN, OVER_HTTP, WHERE, GENERAL)

_NAME_WIDTH = 30  # the widest first column, as Click has it
_WHOLE = 1000  # no sentence about a command is cut

_PROGRAM = "skills-mcp"
_INTERRUPTED_EXIT = 130  # as shells have it: 128 and the number of the signal
_KEPT = "What was served before is unchanged; run it again to start over."

# The names that other programs give to what these commands do.
_MEANT = {
    "browse": "open",
    "check": "validate",
    "connect": "install",
    "create": "new",
    "diagnose": "doctor",
    "eval": "test",
    "fetch": "sync",
    "find": "search",
    "get": "show",
    "import": "add",
    "info": "status",
    "init": "new",
    "lint": "validate",
    "list": "tree",
    "ls": "tree",
    "match": "ask",
    "pull": "sync",
    "query": "ask",
    "restore": "rollback",
    "revert": "rollback",
    "route": "ask",
    "run": "serve",
    "setup": "install",
    "start": "serve",
    "stats": "report",
    "undo": "rollback",
    "uninstall": "install --remove",
    "update": "sync",
    "view": "show",
    "why": "explain",
}
_ALIKE = 0.6  # two letters of five

Rows = list[tuple[str, str]]


class SectionOption(click.Option):
    """An option below its own title in the help."""

    def __init__(self, *args: Any, section: str = OWN, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class Verb(click.Command):
    """A command with sections and examples in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, Rows] = {title: [] for title in _OPTION_SECTIONS}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                sections[self._find_section(ctx, option)].append(record)
        _write_sections(formatter, sections)

    def _find_section(self, ctx: click.Context, option: click.Parameter) -> str:
        if option is self.get_help_option(ctx):
            return GENERAL
        return getattr(option, "section", OWN)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(formatter, find_examples(ctx.info_name or ""))


class VerbGroup(click.Group):
    """The commands; `serve` is the default."""

    command_class = Verb

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `serve`, unless a command or an option of the program comes first."""
        store_command_line(ctx, args)
        own = {"--help", "-h", "--version"}
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
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise click.UsageError(self.describe_unknown(args), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; report Ctrl-C and a lack of memory."""
        try:
            with translate_out_of_memory():
                return super().invoke(ctx)
        except click.UsageError as error:
            usage_error = self._hint_at_order(stored_command_line(ctx), error)
            print_failure_object(USAGE, usage_error.format_message())
            raise usage_error from error
        except click.ClickException as error:
            print_failure_object(USAGE, error.format_message())
            raise
        except (KeyboardInterrupt, click.Abort):
            message = f"{ctx.invoked_subcommand or _PROGRAM} was interrupted. {_KEPT}"
            print_failure_object(INTERRUPTED, message)
            click.echo(f"\nskills-mcp: {message}", err=True)
            ctx.exit(_INTERRUPTED_EXIT)
        except OutOfMemoryError as error:
            print_failure_object(error.code, str(error))
            click.echo(f"skills-mcp: {error}", err=True)
            ctx.exit(1)

    def describe_unknown(self, words: Sequence[str]) -> str:
        """Message for an unknown command; `words` begin with the command."""
        meant = self._suggest(*words)
        more = f"Did you mean: {meant}" if meant else f"See: {_PROGRAM} --help"
        return f"There is no command {words[0]!r}. {more}"

    def _suggest(self, name: str, *others: str) -> str:
        """A correction of a mistyped command line; empty if there is none."""
        typed = name.lower()
        if typed == "help":
            named = [word for word in others if word in self.commands]
            return shlex.join([_PROGRAM, *named[:1], "--help"])
        if typed == "version":
            return f"{_PROGRAM} --version"
        meant = _MEANT.get(typed, "").split()
        if not meant or meant[0] not in self.commands:
            from difflib import get_close_matches

            meant = get_close_matches(typed, self.commands, n=1, cutoff=_ALIKE)
        return shlex.join([_PROGRAM, *meant, *others]) if meant else ""

    def _hint_at_order(self, words: Sequence[str], error: click.UsageError) -> click.UsageError:
        """Message for options before the command, or the error itself."""
        if not words or not words[0].startswith("-"):
            return error
        for index, word in enumerate(words):
            if word in self.commands and not self._is_value(words, index):
                rest = [*words[:index], *words[index + 1 :]]
                line = shlex.join([_PROGRAM, word, *rest])
                message = f"Options come after the command: {line}"
                return click.UsageError(message, error.ctx)
        return error

    def _is_value(self, words: Sequence[str], index: int) -> bool:
        """Whether a word is the value of the preceding option of `serve`."""
        return any(
            isinstance(option, click.Option)
            and words[index - 1] in option.opts
            and not option.is_flag
            for option in self.commands["serve"].params
        )

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click passes it
        formatter: click.HelpFormatter,
    ) -> None:
        placed = {name for names in SECTIONS.values() for name in names}
        sections = {**SECTIONS, "Other": [n for n in self.commands if n not in placed]}
        _write_sections(
            formatter,
            {title: self._list_rows(names) for title, names in sections.items()},
        )

    def _list_rows(self, names: Iterable[str]) -> Rows:
        return [
            (name, self.commands[name].get_short_help_str(_WHOLE))
            for name in names
            if name in self.commands
        ]

    def format_epilog(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click passes it
        formatter: click.HelpFormatter,
    ) -> None:
        _write_examples(formatter, FIRST_EXAMPLES)
        formatter.write_paragraph()
        formatter.write_text(f"More about a command: {_PROGRAM} COMMAND --help")


def _write_sections(formatter: click.HelpFormatter, sections: dict[str, Rows]) -> None:
    """Write rows below titles, with one width of the first column."""
    names = [name for rows in sections.values() for name, _ in rows]
    width = max((len(name) for name in names if len(name) <= _NAME_WIDTH), default=0)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl([*_pad(rows, width)], col_max=width)


def _pad(rows: Rows, width: int) -> Iterator[tuple[str, str]]:
    return ((f"{name:{width}}", text) for name, text in rows)


def _write_examples(formatter: click.HelpFormatter, lines: Sequence[str]) -> None:
    """Write lines unwrapped, to be copied."""
    if lines:
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
