"""Commands, options and exit codes in the pages are those of the program."""

from pathlib import Path

import click

from skills_mcp.cli import command_group, program
from tests.cli.conftest import COMMANDS
from tests.docs import man_page
from tests.docs.help_texts import PAGES, run
from tests.docs.pages import DOCS, REFERENCE, block, blocks, codes, section, table

CLI = REFERENCE / "cli" / "index.md"


def test_every_command_is_documented_with_its_help() -> None:
    shown = {
        " ".join(each.words[1:]): each.text
        for page in PAGES
        for each in blocks(page, "text", "help")
    }

    assert shown == {command: run(*command.split(), "--help").output for command in ("", *COMMANDS)}


def test_the_table_of_commands_has_each_with_its_sentence() -> None:
    rows = {
        codes(row["Command"])[0]: f"{row['What it does']}."
        for row in table(section(CLI, "## Commands"))
    }

    assert rows == {name: (command.help or "").split("\n")[0] for name, command in COMMANDS.items()}


def test_every_option_is_documented_with_its_variable_and_no_other() -> None:
    commands = [program, *COMMANDS.values()]
    every = [p for command in commands for p in command.params]
    options = [p for p in every if isinstance(p, click.Option)] + [
        program.get_help_option(program.make_context("skills-mcp", ["tree"]))
    ]
    rows = table(section(CLI, "## Options"))

    assert {(tuple(sorted(codes(row["Option"]))), *codes(row["Variable"])) for row in rows} == {
        (tuple(sorted(option.opts)), *([option.envvar] if option.envvar else []))
        for option in options
        if option
    }


def test_exit_codes_are_those_of_the_table(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    ended = {
        0: run("--version"),
        2: run("no-such-command"),
        3: run("tree"),
        4: run("tree", "--skills-dir", missing, "--log-level", "error"),
    }
    documented = {int(row["Code"]) for row in table(section(CLI, "## Exit codes"))}

    assert {code: result.exit_code for code, result in ended.items()} == {
        code: code for code in ended
    }
    assert documented == {1, 130, *ended}


def test_the_message_without_settings_is_the_real_one() -> None:
    shown = block(DOCS / "how-to" / "connect-your-agent.md", "text", "message")

    assert run("tree").stderr == shown


def test_the_codes_of_errors_as_json_are_those_of_the_table() -> None:
    rows = table(section(CLI, "## Errors as JSON"))

    named = {code for row in rows for code in codes(row["Code"])}
    assert named == {command_group.USAGE, command_group.PROMPTS_INVALID, command_group.INTERRUPTED}


def test_the_manual_page_is_that_of_the_program() -> None:
    assert man_page.PAGE.read_text(encoding="utf-8") == man_page.render()
