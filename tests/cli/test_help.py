"""What the program says about itself, and about commands that do not exist."""

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from skills_mcp.cli.command_group import FIRST_EXAMPLES, SECTIONS, _load_synonyms
from skills_mcp.cli.terminal import print_json
from tests.cli.conftest import COMMANDS, Run
from tests.docs.pages import DOCS, codes, section
from tests.support import SKILLS_CONTENT, is_waiting, wait_for

every_command = pytest.mark.parametrize("command", COMMANDS)


def test_every_command_stands_below_one_title() -> None:
    placed = [name for names in SECTIONS.values() for name in names]

    assert sorted(placed) == sorted(COMMANDS)


def test_the_help_has_the_commands_in_groups_each_with_its_whole_sentence(
    invoke: Run,
) -> None:
    shown = invoke("--help").stdout

    places = [shown.index(f"\n{title}:\n") for title in SECTIONS]
    assert places == sorted(places)
    assert "..." not in shown.partition("\n")[2]
    for name in COMMANDS:
        assert f"\n  {name} " in shown


@every_command
def test_the_list_of_commands_reads_the_help_of_a_command(invoke: Run, command: str) -> None:
    listed = " ".join(invoke("--help", COLUMNS="80").stdout.split())
    shown = invoke(command, "--help", COLUMNS="200").stdout.splitlines()

    assert f" {command} {shown[2].strip()} " in listed


@pytest.mark.usefixtures("started_anew")
@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_is_said_about_the_program_loads_none_of_its_commands(option: str) -> None:
    code = "import sys, atexit; from skills_mcp.__main__ import main; atexit.register(lambda: "
    code += "print(*(n for n in sys.modules if n.startswith('skills_mcp')), file=sys.stderr)); "

    done = subprocess.run(
        [sys.executable, "-c", f"{code} main()", option], capture_output=True, text=True, check=True
    )

    modules = done.stderr.split()
    assert len(modules) <= 10, modules
    assert not [name for name in modules if "commands" in name or "features" in name]


@pytest.mark.usefixtures("started_anew")
def test_without_features_the_commands_of_the_core_remain() -> None:
    code = "import sys; sys.modules['skills_mcp.features'] = None; "
    code += "from skills_mcp.__main__ import main; main()"

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        line = [sys.executable, "-c", code, *words]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    listed = run("--help").stdout
    refused = run("validate", "skills")

    core = ["serve", "stop", "catalog", "tree", "sync", "status", "rollback"]
    core += ["show", "ask", "search", "explain", "completion"]
    assert re.findall(r"^  ([a-z]+)  ", listed, re.MULTILINE) == core
    assert "skills-mcp doctor" not in listed
    assert refused.stderr.rstrip().endswith(
        "There is no command 'validate'. See: skills-mcp --help"
    )


@every_command
def test_a_command_shows_examples_that_its_options_allow(invoke: Run, command: str) -> None:
    shown = invoke(command, "--help").stdout

    lines = shown.partition("\nExamples:\n")[2].splitlines()
    assert lines
    assert [line for line in lines if f"skills-mcp {command}" not in line] == []
    for line in lines:
        _parse(line)


@pytest.mark.parametrize("line", FIRST_EXAMPLES)
def test_the_first_examples_can_be_typed(line: str) -> None:
    _parse(line)


def test_the_paths_of_the_first_page_can_be_typed() -> None:
    paths = section(DOCS / "index.md", "## Your path in five steps")
    lines = [each for each in codes(paths) if each.startswith("skills-mcp ")]
    steps = re.findall(r"^### |^(\d)\. ", paths, re.MULTILINE)

    assert lines
    for line in lines:
        _parse(line)
    assert steps == ["", "1", "2", "3", "4", "5"] * 6


def _parse(line: str) -> None:
    """Parse an example, without a look at the files that it names."""
    words = shlex.split(line.partition("skills-mcp ")[2].partition(" > ")[0])
    found = COMMANDS[words[0]]
    parser = found.make_parser(click.Context(found))
    _, surplus, _ = parser.parse_args(words[1:])
    assert surplus == []


@every_command
def test_whatever_prints_for_people_prints_json_too(command: str) -> None:
    options = {name for each in COMMANDS[command].params for name in each.opts}

    # What the others print is for one program alone: a client, an agent, a shell.
    assert ("--json" in options) is (command not in {"serve", "hook", "completion"})


@every_command
def test_options_of_a_command_stand_before_those_that_all_have(invoke: Run, command: str) -> None:
    shown = invoke(command, "--help").stdout

    titles = ["\nOptions:", "\nWhere the skills are:", "\nGeneral:", "\nExamples:"]
    places = [shown.index(title) for title in titles if title in shown]
    own = shown.partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert places == sorted(places)
    assert "--help" not in own
    assert "--skills-dir" not in own


@pytest.mark.parametrize("width", [70, 100, 170])
def test_the_help_is_as_wide_as_the_terminal(run: Run, width: int) -> None:
    shown = run("serve", "--help", COLUMNS=str(width)).stdout

    prose = shown.partition("\nExamples:")[0].splitlines()
    longest = max(map(len, prose))
    assert longest <= width
    assert longest > min(width, 120) - 20


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("list", "skills-mcp tree"),
        ("ls --skills-dir 'our skills'", "skills-mcp tree --skills-dir 'our skills'"),
        ("check skills", "skills-mcp validate skills"),
        ("valdate", "skills-mcp validate"),
        ("Tree", "skills-mcp tree"),
        ("uninstall", "skills-mcp install --remove"),
        ("self-check --max-age 24", "skills-mcp doctor --brief --max-age 24"),
        ("verify .claude/skills --json", "skills-mcp export --verify .claude/skills --json"),
        ("version", "skills-mcp --version"),
    ],
)
def test_an_unknown_command_is_answered_with_the_line_that_was_meant(
    invoke: Run, typed: str, meant: str
) -> None:
    done = invoke(*shlex.split(typed))

    assert done.returncode == 2
    assert done.stderr.rstrip().endswith(f". Did you mean: {meant}")


def test_a_command_that_is_like_no_other_is_answered_with_the_help(invoke: Run) -> None:
    done = invoke("xyzzy")

    assert done.stderr.rstrip().endswith("There is no command 'xyzzy'. See: skills-mcp --help")


def test_no_name_of_another_program_hides_a_command() -> None:
    assert not _load_synonyms().keys() & COMMANDS.keys()


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("--skills-dir . tree", "skills-mcp tree --skills-dir ."),
        ("--json tree --skills-dir .", "skills-mcp tree --json --skills-dir ."),
        (
            "--problems --skills-dir tree tree",
            "skills-mcp tree --problems --skills-dir tree",
        ),
    ],
)
def test_options_before_the_command_are_answered_with_the_right_order(
    invoke: Run, typed: str, meant: str
) -> None:
    done = invoke(*shlex.split(typed))

    assert done.returncode == 2
    assert f"Options come after the command: {meant}" in done.stderr


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("tree .", "skills-mcp tree --skills-dir ."),
        ("ask 'add a page' . --json", "skills-mcp ask 'add a page' --skills-dir . --json"),
        ("test .", "skills-mcp test --skills-dir ."),
        ("validate --strict --skills-dir .", "skills-mcp validate --strict ."),
        ("validate --skills-dir=. --strict", "skills-mcp validate . --strict"),
    ],
)
def test_a_folder_in_the_wrong_place_is_answered_with_its_place(
    invoke: Run, typed: str, meant: str
) -> None:
    done = invoke(*shlex.split(typed))

    assert done.returncode == 2
    assert done.stderr.rstrip().endswith(f". Did you mean: {meant}")


@pytest.mark.parametrize(
    "typed", ["tree missing", "tree --branch . main", "tree . --skills-dir .", "ask --bogus ."]
)
def test_another_mistake_is_not_answered_with_the_place_of_a_folder(
    invoke: Run, typed: str
) -> None:
    done = invoke(*shlex.split(typed))

    assert done.returncode == 2
    assert "Did you mean" not in done.stderr


def test_a_folder_that_is_called_like_a_command_is_none(invoke: Run) -> None:
    done = invoke("--skills-dir", "tree", "--bogus")

    assert "come after the command" not in done.stderr
    assert "--bogus" in done.stderr


@pytest.mark.parametrize(
    "arguments, code, status",
    [
        (("tree", "--json"), "CONFIG_INVALID", 3),
        (("tree", "--json", "--skills-dir", "missing"), "SYNC_FAILED", 4),
        (("tree", "--json", "--bogus"), "WRONG_USAGE", 2),
        (("tree", "--json", "--depth", "0"), "WRONG_USAGE", 2),
        (("lst", "--json"), "WRONG_USAGE", 2),
        (("--json", "status"), "WRONG_USAGE", 2),
        (("validate", "--json", "missing"), "WRONG_USAGE", 2),
        (("report", "--json", "--since", "soon"), None, 2),
    ],
)
def test_with_json_an_error_is_one_object_on_standard_output(
    invoke: Run, arguments: tuple[str, ...], code: str | None, status: int
) -> None:
    done = invoke(*arguments)

    told = json.loads(done.stdout)
    assert list(told) == ["error"]
    assert told["error"]["code"] == (code or told["error"]["code"])
    assert told["error"]["message"] in done.stderr
    assert done.returncode == status


@pytest.mark.parametrize("stop", [KeyboardInterrupt, click.Abort])
def test_an_interrupt_is_an_object_with_json(
    invoke: Run, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    def interrupt(**_: object) -> None:
        raise stop

    monkeypatch.setattr("skills_mcp.cli.commands.status.build_application", interrupt)

    done = invoke("status", "--json", "--skills-dir", str(SKILLS_CONTENT))

    assert done.returncode == 130
    assert json.loads(done.stdout)["error"]["code"] == "INTERRUPTED"
    assert done.stderr.count("\n") == 2


@pytest.mark.usefixtures("started_anew")
def test_an_interrupt_while_the_program_is_loaded_prints_nothing(tmp_path: Path, run: Run) -> None:
    (tmp_path / "click").mkdir()
    (tmp_path / "click" / "__init__.py").write_text("raise KeyboardInterrupt")

    done = run("tree", PYTHONPATH=str(tmp_path))

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal of POSIX")
def test_an_interrupt_of_a_hook_that_waits_prints_nothing() -> None:
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "skills_mcp", "hook", "claude-code"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        while "skills_mcp.files.user_folders" not in process.stderr.readline():
            pass  # the last import before it reads
        # An interrupt while that import ends is lost: Python cannot raise in a callback.
        wait_for(lambda: is_waiting(process.pid))
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()

    assert process.returncode == 130
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "arguments", [("tree",), ("explain", "x"), ("catalog",), ("install", "--print")]
)
def test_a_mistyped_variable_is_answered_with_the_right_one(
    invoke: Run, arguments: tuple[str, ...]
) -> None:
    wrong = {"SKILLS_MCP_LOGLEVEL": "debug", "SKILL_REPO": "https://git.invalid/x.git"}

    done = invoke(*arguments, **wrong)
    hook = invoke("hook", "claude-code", **wrong)

    assert "LOGLEVEL is not read. Did you mean SKILLS_MCP_LOG_LEVEL?" in done.stderr
    assert "SKILL_REPO is not read. Did you mean SKILLS_REPO?" in done.stderr
    assert hook.stderr == ""


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
def test_a_reader_that_has_enough_costs_no_traceback() -> None:
    command = f"{shlex.quote(sys.executable)} -m skills_mcp tree --skills-dir "
    command += f"{shlex.quote(str(SKILLS_CONTENT))} | head -n 1"

    done = subprocess.run(["sh", "-c", command], check=False, capture_output=True, text=True)

    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_json_is_written_while_its_reader_can_still_be_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(output)))

    print_json({"skills": 1})

    assert output.getvalue() == b'{\n  "skills": 1\n}\n'


def test_help_is_a_command_too(invoke: Run) -> None:
    assert invoke("help").stdout == invoke("--help").stdout
    assert invoke("help", "tree").stdout == invoke("tree", "--help").stdout
    assert "no command 'tre'" in invoke("help", "tre").stderr
