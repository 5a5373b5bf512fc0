import fcntl
import json
import os
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from skills_mcp import DISTRIBUTION, __version__
from skills_mcp.cli.logs import shared_level
from tests.cli.conftest import Run
from tests.clients import ServerProcess
from tests.packages import package_text
from tests.support import PATIENCE_SECONDS, SKILLS_CONTENT, Upstream, skill_text, wait_for, write


@pytest.mark.spec("3.1")
def test_without_content_it_says_what_to_set(run: Run) -> None:
    done = run()

    assert done.returncode == 3
    assert "Set SKILLS_REPO" in done.stderr
    assert "SKILLS_DIR" in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("started_anew")
@pytest.mark.parametrize("arguments", [(), ("serve",), ("--log-level", "warning")])
def test_without_a_verb_it_serves_until_its_input_ends(
    run: Run, arguments: tuple[str, ...]
) -> None:
    done = run(*arguments, SKILLS_DIR=str(SKILLS_CONTENT))

    assert done.returncode == 0
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--bogus",), "--bogus"),
        (("serve", "--bogus"), "--bogus"),
        (("tree", "--bogus"), "--bogus"),
        (("bogus",), "bogus"),
        (("tree", "surplus"), "surplus"),
        (
            ("--skills-dir", ".", "tree"),
            "Options come after the command: skills-mcp tree",
        ),
        (("--skills-dir", ".", "surplus"), "There is no command 'surplus'"),
        (("--log-level", "loud"), "debug"),
        (("--toolsets", "core,pakages"), "'pakages' is not one of core, packages"),
        (("--toolsets", " , "), "not one of core, packages"),
        (("tree", "--toolsets", "core"), "--toolsets"),
    ],
)
def test_wrong_usage_has_a_status_of_its_own(
    invoke: Run, arguments: tuple[str, ...], said: str
) -> None:
    done = invoke(*arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "command", ["catalog", "explain", "report", "rollback", "sync", "test", "tree"]
)
def test_help_lists_the_own_options_of_a_command_first(invoke: Run, command: str) -> None:
    done = invoke(command, "--help")

    first = done.stdout.partition("Options:\n")[2].split()[0]
    assert first not in {"--skills-dir", "--help"}


def test_a_name_as_on_github_is_answered_with_its_url(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme" / "here").mkdir(parents=True)

    missing = invoke("status", "--repo", "acme/skills")
    there = invoke("status", "--repo", "acme/here")

    assert "Did you mean https://github.com/acme/skills.git?" in missing.stderr
    assert "Did you mean" not in there.stderr


def test_an_interrupt_says_what_was_stopped(invoke: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("skills_mcp.cli.commands.sync.build_application", stop)

    done = invoke("sync", "--repo", "https://git.invalid/skills.git")

    assert done.returncode == 130
    assert done.stderr.strip() == (
        "skills-mcp: sync was interrupted. What was served before is unchanged; run "
        "it again to start over."
    )


def test_it_says_its_version(run: Run) -> None:
    done = run("-v")

    assert done.returncode == 0
    assert done.stdout.split() == [f"{DISTRIBUTION},", "version", __version__]


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_the_verbs(invoke: Run, option: str) -> None:
    done = invoke(option)

    assert done.returncode == 0
    assert "serve" in done.stdout
    assert "tree" in done.stdout


@pytest.mark.spec("11.1")
def test_help_names_what_can_be_set(invoke: Run) -> None:
    done = invoke("serve", "--help")

    for option in ("--skills-dir", "--repo", "--branch", "--config", "--log-level"):
        assert option in done.stdout
    assert "--toolsets" in done.stdout
    assert "--discover / --no-discover" in done.stdout


@pytest.mark.parametrize(
    "text, said",
    [
        ("matching: {min_scroe: 0.3}", "did you mean min_score?"),
        (
            "matching: {min_score: 3}",
            "matching.min_score: must be a number from 0 to 1",
        ),
        ("scripts: {enabled: sometimes}", "scripts.enabled: must be true or false"),
        ("responses: {format: html}", "'json' or 'markdown'"),
        ("[1, 2]", "must hold"),
        ("a: [", "cannot be read"),
    ],
)
@pytest.mark.spec("11.2")
def test_a_wrong_setting_is_named_with_its_file_and_what_is_allowed(
    invoke: Run, home: Path, text: str, said: str
) -> None:
    file = write(home / ".skills-mcp/config.yaml", text)

    done = invoke("tree", SKILLS_DIR=str(SKILLS_CONTENT))

    assert done.returncode == 3
    assert str(file) in done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_every_wrong_setting_is_named_at_once(invoke: Run, tmp_path: Path) -> None:
    text = "a: 1\nassets: {max_size_bytes: -1}\nsources: [{}]"
    file = write(tmp_path / "mine.yaml", text)

    done = invoke("tree", "--config", str(file), SKILLS_DIR=str(SKILLS_CONTENT))

    assert done.returncode == 3
    assert "unknown key a" in done.stderr
    assert "assets.max_size_bytes" in done.stderr
    assert "sources[0] needs a folder" in done.stderr


def test_a_configuration_file_that_is_not_there_is_an_error(invoke: Run, tmp_path: Path) -> None:
    file = tmp_path / "nothing.yaml"

    done = invoke("tree", "--config", str(file), SKILLS_DIR=str(SKILLS_CONTENT))

    assert done.returncode == 3
    assert str(file) in done.stderr


def test_a_wrong_environment_variable_is_named(invoke: Run) -> None:
    environment = {"REFRESH_INTERVAL_MINUTES": "soon"}
    done = invoke("tree", SKILLS_DIR=str(SKILLS_CONTENT), **environment)

    assert done.returncode == 3
    assert "REFRESH_INTERVAL_MINUTES" in done.stderr
    assert "'soon'" in done.stderr


@pytest.mark.parametrize(
    "variable, value, said",
    [
        ("SKILLS_MCP_TOOLSETS", "hammers", "'hammers' is not one of core, packages"),
        ("SKILLS_MCP_DISCOVER", "perhaps", "'perhaps' is not a valid boolean"),
        ("SKILLS_MCP_LOG_LEVEL", "loud", "debug"),
    ],
)
def test_a_wrong_variable_of_an_option_is_wrong_usage(
    invoke: Run, variable: str, value: str, said: str
) -> None:
    done = invoke(SKILLS_DIR=str(SKILLS_CONTENT), **{variable: value})

    assert done.returncode == 2
    assert said in done.stderr


def offered(*arguments: str, log: Path, **environment: str) -> set[str]:
    """Return the names of the tools that a server with these settings has."""
    environment = {"SKILLS_DIR": str(SKILLS_CONTENT), **environment}
    server = ServerProcess(*arguments, environment=environment, log=log)
    try:
        answer = server.request("tools/list")
    finally:
        server.close()
    return {tool["name"] for tool in answer["result"]["tools"]}


@pytest.mark.parametrize(
    "arguments, variables, core, packages",
    [
        ((), {}, False, True),
        ((), {"SKILLS_MCP_TOOLSETS": ""}, False, True),
        ((), {"SKILLS_MCP_TOOLSETS": "core"}, True, False),
        (("--toolsets", "core"), {}, True, False),
        (("--toolsets", "core, packages"), {"SKILLS_MCP_TOOLSETS": "core"}, True, True),
    ],
)
def test_tool_sets_on_the_command_line_win_over_those_of_the_file(
    arguments: tuple[str, ...],
    variables: dict[str, str],
    core: bool,  # noqa: FBT001
    packages: bool,  # noqa: FBT001
    home: Path,
) -> None:
    write(home / ".skills-mcp/config.yaml", "toolsets: [packages]")

    tools = offered(*arguments, log=home / "log", **variables)

    assert ("get_skill" in tools) is core
    assert ("search_skills" in tools) is packages


@pytest.mark.parametrize(
    "arguments, variable, found",
    [
        ((), None, True),
        ((), "", True),
        ((), "1", True),
        ((), "false", False),
        (("--no-discover",), None, False),
        (("--no-discover",), "true", False),
        (("--discover",), "false", True),
    ],
)
def test_discovery_on_the_command_line_wins_over_that_of_the_file(
    invoke: Run,
    home: Path,
    arguments: tuple[str, ...],
    variable: str | None,
    found: bool,  # noqa: FBT001
) -> None:
    write(home / ".skills-mcp/config.yaml", "discover: true")
    text = "---\nname: pdf\ndescription: About forms\n---\nRules."
    write(home / ".agents/skills/pdf/SKILL.md", text)
    variables = {} if variable is None else {"SKILLS_MCP_DISCOVER": variable}

    done = invoke("tree", *arguments, SKILLS_DIR=str(SKILLS_CONTENT), **variables)

    assert done.returncode == 0
    assert ("About forms" in done.stdout) is found


@pytest.mark.parametrize(
    "value, level",
    [
        ("DEBUG", "debug"),
        ("INFO", "info"),
        ("WARN", "warning"),
        ("Warning", "warning"),
        (" error ", "error"),
        ("", None),
        ("10", None),
        ("trace", None),
        ("CRITICAL", None),
    ],
)
def test_a_log_level_for_everybody_is_read_if_we_know_it(value: str, level: str | None) -> None:
    assert shared_level({"LOG_LEVEL": value}) == level
    assert shared_level({}) is None


@pytest.mark.parametrize(
    "arguments, variables, said",
    [
        ((), {"LOG_LEVEL": "ERROR"}, False),
        ((), {"LOG_LEVEL": "trace"}, True),
        ((), {"LOG_LEVEL": "ERROR", "SKILLS_MCP_LOG_LEVEL": "info"}, True),
        ((), {"LOG_LEVEL": "ERROR", "SKILLS_MCP_LOG_LEVEL": ""}, False),
        (("--log-level", "info"), {"LOG_LEVEL": "ERROR"}, True),
    ],
)
def test_a_log_level_for_everybody_counts_if_ours_is_not_set(
    arguments: tuple[str, ...],
    variables: dict[str, str],
    said: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    environment = {"SKILLS_DIR": str(SKILLS_CONTENT), **variables}
    server = ServerProcess(*arguments, environment=environment, log=tmp_path / "log")
    try:
        server.call("get_skill", context="react login")
    finally:
        server.close()

    assert ("INFO snapshots: Serving" in server.log) is said


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    listing = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import skills_mcp.cli.commands.serve"],
        check=True,
        capture_output=True,
        text=True,
    )

    imported = {line.rpartition("|")[2].strip() for line in listing.stderr.splitlines()}
    heavy = {"git", "httpx", "rich", "yaml", "frontmatter", "mcp", "mcp_types"}
    assert "skills_mcp.cli.commands.serve" in imported
    assert imported & heavy == set()


@pytest.mark.spec("11.3")
def test_a_repository_on_the_command_line_beats_a_folder_in_the_environment(
    invoke: Run, upstream: Upstream
) -> None:
    upstream.commit({"skills/from-git.md": skill_text()})

    done = invoke("tree", "--repo", upstream.url, SKILLS_DIR=str(SKILLS_CONTENT))

    assert done.returncode == 0
    assert "from-git" in done.stdout


@pytest.mark.parametrize("command", ["tree", "sync", "test"])
@pytest.mark.parametrize("address", ["ext::touch alarm", "git://x.invalid/a"])
def test_an_address_that_is_never_fetched_is_a_wrong_setting(
    invoke: Run, command: str, address: str
) -> None:
    done = invoke(command, SKILLS_REPO=address)

    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith(f"skills-mcp: '{address}' would ")
    assert "Write https://host/path" in done.stderr


def test_two_sources_on_the_command_line_are_wrong_usage(invoke: Run) -> None:
    done = invoke("tree", "--repo", "x", "--skills-dir", "y")

    assert done.returncode == 2
    assert "give one of the two" in done.stderr


def test_a_folder_that_shall_stay_at_a_commit_is_wrong_usage(invoke: Run, tmp_path: Path) -> None:
    typed = invoke("sync", "--skills-dir", str(tmp_path), "--ref", "v1")
    inherited = invoke("sync", "--skills-dir", str(tmp_path), SKILLS_REF="v1")

    assert (typed.returncode, inherited.returncode) == (2, 0)
    assert "a folder has no commits to pin" in typed.stderr


def test_a_part_of_a_source_is_chosen_by_option_or_variable(invoke: Run, tmp_path: Path) -> None:
    for place in ("skills/a", "plugins/p/skills/b", "extra/c"):
        write(tmp_path / place / "SKILL.md", package_text())
    where = ("tree", "--json", "--skills-dir", str(tmp_path))

    def served(*options: str, **variables: str) -> list[str]:
        found = json.loads(invoke(*where, *options, **variables).stdout)
        return re.findall(r'"path": "([^"]*/?[abc])"', json.dumps(found["tree"]))

    assert served("--subfolder", "extra") == served(SKILLS_SUBFOLDER="extra/") == ["c"]
    assert served("--plugins", "p, q") == served(SKILLS_PLUGINS="p") == ["p/b"]
    assert sorted(served("--everywhere")) == sorted(served(SKILLS_EVERYWHERE="true"))
    assert "extra/c" in served("--everywhere")
    assert "extra/c" not in served("--usual-folders", SKILLS_EVERYWHERE="true")


def test_a_subfolder_that_leaves_the_source_is_refused(invoke: Run) -> None:
    done = invoke("tree", "--skills-dir", ".", "--subfolder", "../secrets")

    assert done.returncode == 3
    assert "SKILLS_SUBFOLDER is '../secrets', which is no folder inside" in done.stderr


def test_a_part_without_its_source_is_not_lost_in_silence(invoke: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "config.yaml", f"sources: [{{folder: {tmp_path}}}]")

    done = invoke("tree", "--config", str(file), SKILLS_PLUGINS="office")

    assert done.returncode == 3
    assert "everywhere into the sources of config.yaml" in done.stderr


def test_a_token_inside_the_address_is_never_shown(invoke: Run) -> None:
    address = "http://ada:ghp_canary@127.0.0.1:1/skills.git"

    done = invoke("tree", SKILLS_REPO=address)

    assert done.returncode == 4
    assert "127.0.0.1:1/skills.git" in done.stderr
    assert "ghp_canary" not in done.stderr + done.stdout


_LIMIT = 80_000  # KiB of addresses: enough for Python, and too little for NumPy


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no limit is kept")
def test_a_command_without_enough_memory_says_so_as_an_object() -> None:
    line = [sys.executable, "-m", "skills_mcp", "tree", "--json"]
    folder = ["--skills-dir", str(SKILLS_CONTENT)]

    done = subprocess.run(
        ["sh", "-c", f'ulimit -v {_LIMIT} && exec "$@"', "sh", *line, *folder],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "OUT_OF_MEMORY"
    assert "ulimit -v" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "variables",
    [
        {"SKILLS_MCP_HOME": "state"},
        {"SKILLS_MCP_HOME": "./state/../state"},
        {"SKILLS_MCP_HOME": "", "HOME": "state"},
    ],
)
def test_a_relative_home_begins_at_the_working_directory(
    invoke: Run,
    upstream: Upstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
) -> None:
    commit = upstream.commit({"skills/one.md": skill_text()})
    monkeypatch.chdir(tmp_path)

    synced = invoke("sync", "--repo", upstream.url, **variables)
    shown = invoke("status", "--repo", upstream.url, **variables)

    assert (synced.returncode, shown.returncode) == (0, 0)
    assert commit in shown.stdout
    assert list(tmp_path.glob("state/**/objects.git"))


_WITHOUT_HOME = """
import os, pwd, sys

def fail(_):
    raise KeyError("uid not found")

pwd.getpwuid = fail  # the user has no entry, as in a container
os.environ.pop("HOME")
from skills_mcp.__main__ import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="users have no such entry")
@pytest.mark.parametrize(
    "arguments",
    [
        ("serve",),
        ("status",),
        ("doctor", "--brief"),
        ("doctor",),
        ("tree", "--discover"),
        ("install", "--client", "cursor", "--print"),
    ],
    ids="_".join,
)
def test_a_user_without_a_home_needs_only_the_folder_of_this_program(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    variables = {"SKILLS_DIR": str(SKILLS_CONTENT), "SKILLS_MCP_HOME": str(tmp_path / "state")}

    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_HOME, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_SECONDS,
    )

    assert "Traceback" not in done.stderr
    assert done.returncode in ({0, 1} if arguments == ("doctor",) else {0})


_PLACEHOLDERS = (
    *("${NAME}", "${NAME:-}", "${NAME:-other}", "${env:NAME}", "${input:name}", "{env:NAME}"),
    *("${user_config.name}", "{{NAME}}", "$NAME", "$env:NAME", "%NAME%", "$(gh auth token)"),
)


@pytest.mark.parametrize("text", _PLACEHOLDERS)
def test_a_placeholder_that_nobody_has_replaced_counts_as_unset(
    invoke: Run, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    commit = upstream.commit({"skills/one.md": skill_text()})
    monkeypatch.chdir(tmp_path)
    names = (
        *("SKILLS_DIR", "SKILLS_BRANCH", "SKILLS_REF", "SKILLS_SUBFOLDER", "SKILLS_PLUGINS"),
        *("SKILLS_MCP_HOME", "SKILLS_MCP_TOKEN_FILE", "SKILLS_MCP_LOG_LEVEL", "GITHUB_TOKEN"),
        *("SKILLS_EVERYWHERE", "SKILLS_MCP_OFFLINE", "SKILLS_MCP_DISCOVER", "ANALYTICS_ENDPOINT"),
        *("ANALYTICS_TOKEN", "OPENAI_API_KEY", "SKILLS_MCP__MATCHING__MIN_SCORE"),
    )

    done = invoke("sync", SKILLS_REPO=upstream.url, **dict.fromkeys(names, text))

    assert done.returncode == 0
    assert commit in done.stdout
    assert [done.stderr.count(f"{name} is an unreplaced placeholder") for name in names] == [
        1
    ] * len(names)
    assert not [path for path in tmp_path.iterdir() if path.name == text]


def test_a_placeholder_in_a_setting_that_guards_is_refused(invoke: Run) -> None:
    done = invoke("tree", SKILLS_DIR=".", SKILLS_MCP__SYNC__ALLOWED_SIGNERS="${SIGNERS}")

    assert done.returncode == 3
    assert "SKILLS_MCP__SYNC__ALLOWED_SIGNERS is an unreplaced placeholder" in done.stderr


@pytest.mark.parametrize("text", ["a-token-with-$-and-%", "{}", "glpat-$NAME"])
def test_a_value_with_such_signs_is_no_placeholder(invoke: Run, text: str) -> None:
    done = invoke("tree", SKILLS_DIR=str(SKILLS_CONTENT), GITHUB_TOKEN=text)

    assert "placeholder" not in done.stderr


@pytest.mark.parametrize(
    "name, meant",
    [
        ("SKILL_REPO", "SKILLS_REPO"),
        ("SKILLS_MCP_REPO", "SKILLS_REPO"),
        ("SKILLS_REPOSITORY", "SKILLS_REPO"),
        ("skills_repo", "SKILLS_REPO"),
        ("SKILLS_MCP_DIR", "SKILLS_DIR"),
        ("SKILLS_DIRECTORY", "SKILLS_DIR"),
    ],
)
@pytest.mark.parametrize("command", ["status", "tree", "doctor"])
def test_without_content_a_misspelt_variable_is_named_first(
    invoke: Run, command: str, name: str, meant: str
) -> None:
    done = invoke(command, **{name: "/srv/skills"})

    said = done.stdout + done.stderr
    assert f"{name} is not read. Did you mean {meant}?" in said
    assert said.index("Did you mean") < said.index("No skills to serve")


@pytest.mark.skipif(sys.platform != "linux", reason="sets the size of a pipe")
def test_all_is_printed_where_standard_output_does_not_block(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)
    command = [
        sys.executable,
        "-m",
        "skills_mcp",
        "tree",
        "--json",
        f"--skills-dir={SKILLS_CONTENT}",
    ]
    environment = {**os.environ, "SKILLS_MCP_HOME": str(tmp_path)}

    with subprocess.Popen(command, stdout=writing, env=environment) as process:
        os.close(writing)
        wait_for(lambda: count_unread(reading) == size)
        with os.fdopen(reading, encoding="utf-8") as output:
            printed = output.read()

    assert len(printed) > size
    assert json.loads(printed)
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("words", [("tree",), ("tree", "--json"), ("--help",), ("validate",)])
def test_a_full_disk_is_one_line_and_an_exit_code(tmp_path: Path, words: tuple[str, ...]) -> None:
    source = {"tree": ["--skills-dir", str(SKILLS_CONTENT)], "validate": [str(SKILLS_CONTENT)]}
    environment = {**os.environ, "SKILLS_MCP_HOME": str(tmp_path)}
    environment.pop("PYTHONUNBUFFERED", None)

    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "skills_mcp", *words, *source.get(words[0], ())],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr.startswith("skills-mcp: The disk is full, so not all was written.")
    assert done.stderr.count("\n") == 1


NO_ROOM = """
import errno, io
from skills_mcp import __main__, cli

errors = [OSError(errno.EDQUOT, "Disk quota exceeded")]

class File(io.FileIO):
    def write(self, data):
        if errors:
            raise errors.pop()
        return super().write(data)

cli._OutputFile.__bases__ = (File,)
"""
NO_ROOM_ELSEWHERE = """
import errno
from skills_mcp import __main__

def run():
    raise OSError(errno.ENOSPC, "No space left on device")

__main__._run_command = run
"""


@pytest.mark.usefixtures("started_anew")
@pytest.mark.parametrize(
    "cause, expected",
    [
        pytest.param(NO_ROOM, "skills-mcp: The disk is full, so not all was", id="output"),
        pytest.param(NO_ROOM_ELSEWHERE, "Traceback (most recent call last):", id="elsewhere"),
    ],
)
def test_only_of_standard_output_a_full_disk_is_one_line(cause: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{cause}\n__main__.main()", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith(expected)


def count_unread(pipe: int) -> int:
    """Return how many bytes nobody has read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_colours_in_a_log_bring_no_spinner(run: Run, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text()})

    done = run("explain", "an example", "--repo", upstream.url, FORCE_COLOR="1")

    assert done.returncode == 0
    assert "\x1b[" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    "command",
    [
        ("validate",),
        ("powers",),
        ("tree", "--skills-dir", "."),
        ("doctor",),
        ("import", "a", "--to", "b"),
    ],
)
def test_a_working_directory_that_is_gone_is_named(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    done = invoke(*command)

    assert done.returncode == 1
    assert done.stderr == (
        "skills-mcp: The working directory is gone. Change to a folder that exists.\n"
    )
