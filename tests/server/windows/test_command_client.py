import click
import pytest

from skills_mcp import __main__
from skills_mcp.cli import program
from skills_mcp.server.windows.command_client import OPTIONS, select_content_words

COMMANDS = __main__._ANSWERED


def load(name: str) -> click.Command:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    return command


def test_every_option_of_these_commands_is_known() -> None:
    options = {
        name
        for command in map(load, COMMANDS)
        for each in command.params
        if isinstance(each, click.Option)
        for name in (*each.opts, *each.secondary_opts)
    }

    assert options - {"--log-level"} == OPTIONS


def test_an_option_takes_a_word_here_if_it_does_so_in_a_command() -> None:
    for command in map(load, COMMANDS):
        for option in command.params:
            for name in (*option.opts, *option.secondary_opts):
                if isinstance(option, click.Option) and name != "--log-level":
                    is_complete = select_content_words([name]) is not None
                    assert is_complete == option.is_flag, name


@pytest.mark.parametrize(
    "words, content",
    [
        (["add a page", "--json", "--within", "ui"], []),
        (["--skills-dir", "a", "x"], ["--skills-dir", "a"]),
        (["--skills-dir=a=b", "x"], ["--skills-dir", "a=b"]),
        (["--skill", "--repo", "x"], []),
        (["x", "--offline", "--", "--repo", "y"], ["--offline"]),
        (["-"], []),
        (["--json=1"], None),
        (["--offline=1"], None),
        (["--repo"], None),
        (["--help"], None),
        (["-h"], None),
        (["--log-level", "info"], None),
        (["--nonsense"], None),
    ],
    ids=str,
)
def test_the_words_are_chosen_that_a_window_would_have(
    words: list[str], content: list[str] | None
) -> None:
    assert select_content_words(words) == content
