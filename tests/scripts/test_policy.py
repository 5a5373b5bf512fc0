import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Commands, Scripts
from skills_mcp.errors import (
    AgentScriptError,
    CommandError,
    CommandsDisabledError,
    ExtensionError,
    InvalidArgumentsError,
    MissingArgumentsError,
    NoEntryError,
    RunnerError,
    ScriptsDisabledError,
    UndeclaredScriptError,
)
from skills_mcp.scripts import policy
from skills_mcp.scripts.policy import CommandRequest, EntryRequest
from skills_mcp.skills.inheritance import LocatedEntry
from skills_mcp.skills.model import Argument, Asset, Execution, Script
from tests.support import make_skill

RULES = Scripts()


def a_script(*arguments: Argument, execution: Execution = "server") -> Script:
    return Script("scripts/check.sh", "Checks", execution, arguments)


def located(entry: Asset | Script) -> LocatedEntry:
    return LocatedEntry(entry, make_skill("ui/auth"), None)


@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
def test_scripts_are_on_by_default() -> None:
    policy.require_scripts_enabled(Scripts())


@pytest.mark.spec("12.2")
@pytest.mark.spec("13")
def test_the_global_switch_refuses_every_script() -> None:
    with pytest.raises(ScriptsDisabledError, match="get_asset"):
        policy.require_scripts_enabled(Scripts(enabled=False))


@pytest.mark.spec("8.4")
def test_what_is_declared_is_returned() -> None:
    script = a_script()

    assert policy.require_declared_script("ui/auth", script.file, located(script)) is script


@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
@pytest.mark.parametrize("found", [None, located(Asset("scripts/check.sh", "An asset", "other"))])
def test_what_is_not_declared_as_a_script_is_refused(
    found: LocatedEntry | None,
) -> None:
    with pytest.raises(UndeclaredScriptError, match=r"ui/auth declares no script 'x'"):
        policy.require_declared_script("ui/auth", "x", found)


@pytest.mark.spec("8.4")
@pytest.mark.spec("13")
def test_a_script_for_the_agent_is_refused_with_the_way_to_run_it() -> None:
    policy.require_server_execution("ui/auth", a_script())

    with pytest.raises(AgentScriptError, match=r"get_asset\(.*bash"):
        policy.require_server_execution("ui/auth", a_script(execution="claude"))


@pytest.mark.spec("8.4")
@pytest.mark.spec("13")
def test_all_missing_arguments_are_listed() -> None:
    script = a_script(
        Argument("client_id", "The client", required=True),
        Argument("redirect", "", required=True),
        Argument("given", "", required=True),
        Argument("verbose", "", required=False),
    )

    with pytest.raises(MissingArgumentsError) as error:
        policy.require_arguments(script, {"given": ""})

    assert "client_id (The client), redirect." in str(error.value)
    assert "verbose" not in str(error.value)


@pytest.mark.spec("8.4")
def test_an_optional_argument_may_be_left_out() -> None:
    script = a_script(Argument("verbose", "", required=False))

    policy.require_arguments(script, {})


def takes(*names: str) -> Script:
    return a_script(*(Argument(name, "", required=False) for name in names))


@pytest.mark.parametrize("value", ["x\0y", "\ud800x"])
def test_what_no_environment_can_carry_is_refused(value: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"'a' holds .* Remove it"):
        policy.require_arguments(takes("a"), {"a": value})


@pytest.mark.spec("8.4")
def test_an_argument_that_the_script_does_not_declare_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"no 'b'\. It takes 'a', 'c'\."):
        policy.require_arguments(takes("a", "c"), {"a": "1", "b": "2"})


def test_a_script_without_arguments_says_so() -> None:
    with pytest.raises(InvalidArgumentsError, match="It takes no arguments"):
        policy.require_arguments(takes(), {"PATH": "/bin"})


@pytest.mark.parametrize(
    "name", ["", "9", "a b", "a=b", "ä", "_x", "-x", "a.b", "a\n", "a\0", "a" * 65]
)
def test_a_name_that_is_no_plain_word_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="Tell the skill's author"):
        policy.require_arguments(takes(name), {name: "x"})


@pytest.mark.parametrize("name", ["a", "client-id", "client_id", "A9", "a" * 64])
def test_a_plain_word_is_a_name(name: str) -> None:
    policy.require_arguments(takes(name), {name: "x"})


def test_two_arguments_that_would_be_one_variable_are_refused() -> None:
    script = takes("client-id", "client_id", "CLIENT-ID")

    with pytest.raises(InvalidArgumentsError, match="same variable"):
        policy.require_arguments(script, {"client-id": "1", "client_id": "2"})
    with pytest.raises(InvalidArgumentsError, match="same variable"):
        policy.require_arguments(script, {"client-id": "1", "CLIENT-ID": "2"})


def test_a_value_is_counted_in_bytes() -> None:
    longest = "ä" * (policy.MAX_VALUE_BYTES // 2)

    policy.require_arguments(takes("a"), {"a": longest})

    with pytest.raises(InvalidArgumentsError, match=r"args: too long: a\..* 32,768 bytes"):
        policy.require_arguments(takes("a"), {"a": longest + "a"})


def test_all_values_together_are_limited_too() -> None:
    names = [f"a{number}" for number in range(9)]
    given = dict.fromkeys(names, "x" * policy.MAX_VALUE_BYTES)

    with pytest.raises(InvalidArgumentsError, match="too long: all values together"):
        policy.require_arguments(takes(*names), given)

    policy.require_arguments(takes(*names), {n: given[n] for n in names[:8]})


@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
@pytest.mark.parametrize("file", ["a.sh", "a.ts", "a.js", "a.py", "deep/a.min.js"])
def test_the_extensions_of_the_default_may_run(file: str) -> None:
    policy.require_allowed_extension(RULES, file)


@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
@pytest.mark.parametrize("file", ["a.exe", "a.SH", "a", ".sh", "a.sh.txt", "sh"])
def test_any_other_extension_is_refused(file: str) -> None:
    with pytest.raises(ExtensionError, match=r"\.sh, \.ts, \.js, \.py"):
        policy.require_allowed_extension(RULES, file)


def test_a_refusal_says_when_nothing_at_all_is_allowed() -> None:
    with pytest.raises(ExtensionError, match="allows no extension"):
        policy.require_allowed_extension(Scripts(allowed_extensions=()), "a.sh")


@pytest.mark.spec("8.4")
@pytest.mark.parametrize(
    "file, words",
    [
        ("a.sh", ("bash",)),
        ("a.ts", ("npx", "tsx")),
        ("a.js", ("node",)),
        ("a.py", ("python3",)),
    ],
)
def test_the_extension_picks_the_runner(file: str, words: tuple[str, ...]) -> None:
    assert policy.derive_runner(RULES, file) == words


def test_a_runner_is_split_into_words_as_a_shell_would() -> None:
    rules = Scripts(runners={".py": "'/opt/my python/bin/python' -I"})

    words = policy.derive_runner(rules, "a.py")

    assert words == ("/opt/my python/bin/python", "-I")


@pytest.mark.spec("8.4")
@pytest.mark.parametrize("runners", [{}, {".sh": ""}, {".sh": "  "}, {".py": "x"}])
def test_an_extension_without_a_runner_is_refused(runners: dict[str, str]) -> None:
    with pytest.raises(RunnerError, match=r"scripts\.runners"):
        policy.derive_runner(Scripts(runners=runners), "a.sh")


@pytest.mark.spec("8.4")
@pytest.mark.parametrize(
    "argument, variable",
    [
        ("component_name", "SKILL_ARG_COMPONENT_NAME"),
        ("client-id", "SKILL_ARG_CLIENT_ID"),
        ("a b=c", "SKILL_ARG_A_B_C"),
        ("9", "SKILL_ARG_9"),
    ],
)
def test_an_argument_becomes_a_variable(argument: str, variable: str) -> None:
    assert policy.argument_variable(argument) == variable


@pytest.mark.spec("12.2")
@given(st.text())
def test_no_argument_can_name_a_variable_that_is_not_one_of_ours(name: str) -> None:
    variable = policy.argument_variable(name)

    assert variable.startswith("SKILL_ARG_")
    assert variable.isascii()
    assert "=" not in variable


SECRETS = (
    *("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "ANTHROPIC_API_KEY", "SSH_AUTH_SOCK"),
    *("LD_PRELOAD", "BASH_ENV", "PYTHONPATH", "NODE_OPTIONS", "HOME", "TMPDIR", "LC"),
)
ALLOWED = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME")


@pytest.mark.spec("12.2")
@given(
    st.dictionaries(st.sampled_from([*ALLOWED, *SECRETS]), st.text()),
    st.dictionaries(st.text(), st.text()),
)
def test_a_script_sees_the_allowed_variables_and_its_arguments_and_nothing_else(
    ours: dict[str, str], args: dict[str, str]
) -> None:
    environment = policy.derive_run_variables(ours, args, Scripts(network=True))

    inherited = {n: v for n, v in environment.items() if not n.startswith("SKILL_ARG_")}
    assert inherited.pop("PATH") == os.defpath
    assert inherited == {name: ours[name] for name in ALLOWED if name in ours}
    assert {n for n in environment if n.startswith("SKILL_ARG_")} == set(
        map(policy.argument_variable, args)
    )


def test_the_operator_lets_more_variables_through() -> None:
    ours = {"PATH": "/bin", "HTTPS_PROXY": "http://proxy", "TOKEN": "secret"}
    rules = Scripts(environment=("HTTPS_PROXY", "NOT_SET"), network=True)

    environment = policy.derive_run_variables(ours, {}, rules)

    assert environment == {"PATH": "/bin", "HTTPS_PROXY": "http://proxy"}


def test_without_a_network_what_would_wait_for_one_is_told() -> None:
    environment = policy.derive_run_variables({"PATH": "/bin"}, {}, Scripts())

    offline = {"UV_OFFLINE": "1", "NPM_CONFIG_OFFLINE": "true"}
    assert environment == {"PATH": "/bin", **offline}


@pytest.mark.skipif(os.pathsep != ":", reason="paths of POSIX")
@pytest.mark.parametrize(
    "path, kept",
    [
        ("/usr/bin:/bin", "/usr/bin:/bin"),
        (":/bin:", "/bin"),
        (".:/bin:node_modules/.bin:../x", "/bin"),
        ("", ""),
    ],
)
def test_a_program_is_never_looked_for_where_a_script_happens_to_run(path: str, kept: str) -> None:
    assert policy.keep_absolute_folders(path) == kept


# --- commands ---------------------------------------------------------------------


def a_request(command: str = "cat", *args: str) -> CommandRequest:
    return CommandRequest(skill_name="pdf", command=command, args=args)


def test_commands_are_switched_off_until_the_operator_switches_them_on() -> None:
    with pytest.raises(CommandsDisabledError, match=r"your own shell.*load_skill"):
        policy.require_commands_enabled(Commands())

    policy.require_commands_enabled(Commands(enabled=True))


@pytest.mark.parametrize("command", ["python", "python3", "uv", "node", "cat", "ls", "grep"])
def test_the_programs_of_skillhub_are_allowed_by_default(command: str) -> None:
    policy.require_allowed_command(a_request(command), Commands())


@pytest.mark.parametrize(
    "command",
    ["bash", "", "cat ", "/bin/cat", "./cat", "../bin/cat", "Cat", "cat\0", "cat;ls"],
)
def test_any_other_program_is_refused_and_those_that_may_run_are_named(
    command: str,
) -> None:
    with pytest.raises(CommandError) as raised:
        policy.require_allowed_command(a_request(command), Commands(allowed=("cat", "ls")))

    assert f"{command!r} may not run here" in str(raised.value)
    assert "cat, ls (commands.allowed)" in str(raised.value)


def test_a_whole_line_is_refused_with_what_to_write_instead() -> None:
    with pytest.raises(CommandError) as raised:
        policy.require_allowed_command(
            a_request("ls -la 'my docs'"), Commands(allowed=("cat", "ls"))
        )

    assert str(raised.value).endswith("command='ls', args=['-la', 'my docs']")


def test_a_long_command_is_shortened_in_the_message() -> None:
    with pytest.raises(CommandError) as raised:
        policy.require_allowed_command(a_request("x" * 9000), Commands())

    assert len(str(raised.value)) < 250


def test_an_operator_may_allow_nothing() -> None:
    with pytest.raises(CommandError, match="allows: nothing"):
        policy.require_allowed_command(a_request(), Commands(allowed=()))


@pytest.mark.parametrize("argument", ["\0", "a\0b", "\ud800", "a\udfffb"])
def test_an_argument_that_no_process_can_be_given_is_refused(argument: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="NUL character or half"):
        policy.require_allowed_command(a_request("cat", "fine", argument), Commands())


@pytest.mark.parametrize(
    "arguments, fits",
    [
        (["x" * 32_768], True),
        (["x" * 32_769], False),
        (["\N{SNOWMAN}" * 10_923], False),
        (["x" * 32_768] * 8, True),
        (["x" * 32_768] * 8 + ["y"], False),
    ],
)
def test_arguments_are_bounded_one_by_one_and_together(arguments: list[str], *, fits: bool) -> None:
    request = a_request("cat", *arguments)

    if fits:
        policy.require_allowed_command(request, Commands())
    else:
        with pytest.raises(InvalidArgumentsError, match=r"32,768 bytes.*262,144"):
            policy.require_allowed_command(request, Commands())


# --- entries ----------------------------------------------------------------------

ENTERED = make_skill("pdf", entry=("python3", "run.py", "two words"))


@pytest.mark.parametrize(
    "more, args",
    [
        ("", ()),
        ("in.pdf --page 2", ("in.pdf", "--page", "2")),
        ("'a b' \"c d\" e\\ f", ("a b", "c d", "e f")),
        ("$HOME `id` *.md ; rm -rf ~ | cat #", None),
    ],
)
def test_the_words_of_a_caller_come_behind_those_of_the_entry(
    more: str, args: tuple[str, ...] | None
) -> None:
    args = args if args is not None else tuple(more.split())

    request = policy.derive_command(EntryRequest(skill_name="pdf", args=more), ENTERED)

    assert request == CommandRequest(
        skill_name="pdf", command="python3", args=("run.py", "two words", *args)
    )


@pytest.mark.parametrize("more", ["'", '"a', "a\\"])
def test_words_that_cannot_be_split_are_refused(more: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="never closed"):
        policy.derive_command(EntryRequest(skill_name="pdf", args=more), ENTERED)


@given(st.text())
def test_whatever_words_a_caller_sends_the_program_stays(more: str) -> None:
    try:
        request = policy.derive_command(EntryRequest(skill_name="pdf", args=more), ENTERED)
    except InvalidArgumentsError:
        return

    assert (request.command, request.args[:2]) == ("python3", ("run.py", "two words"))


def test_a_skill_without_an_entry_says_what_to_do_instead() -> None:
    with pytest.raises(NoEntryError, match=r"pdf declares no entry.*load_skill"):
        policy.derive_command(EntryRequest(skill_name="pdf"), make_skill("pdf"))
