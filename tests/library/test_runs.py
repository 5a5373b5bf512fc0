"""Scripts, commands and entries through the library, with what is told of them."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.errors import (
    AgentScriptError,
    CommandError,
    CommandsDisabledError,
    InvalidArgumentsError,
    RunnerNotFoundError,
    ScriptsDisabledError,
    SkillNotFoundError,
)
from skills_mcp.events.spool import Spool
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.scripts.execution import ScriptResult
from skills_mcp.scripts.policy import CommandRequest, EntryRequest, ScriptRequest
from tests.clients import Lifeline
from tests.packages import contents, is_gone, write_package, write_pdf
from tests.support import (
    PATIENCE_SECONDS,
    SKILLS_CONTENT,
    Upstream,
    open_library,
    skill_text,
    spooled,
    until,
    write,
    write_skill,
)

COUNTED = {"analytics": {"enabled": True, "context": "full"}}
UNHELD = {"scripts": {"sandbox": "off"}}
"""For a script that tells us of itself while it runs: a sandbox would keep it in."""

posix = pytest.mark.skipif(sys.platform == "win32", reason="scripts of POSIX")


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """Return a skill with a script for each side, and two packages."""
    root = tmp_path / "content"
    greeting = {
        "file": "scripts/greet.sh",
        "execution": "server",
        "args": [{"name": "name"}],
    }
    for_agent = {"file": "scripts/agent.sh"}
    write_skill(root, "ui/auth.md", keywords=["auth"], scripts=[greeting, for_agent])
    write(root / "ui/auth/scripts/greet.sh", 'echo "hello $SKILL_ARG_NAME"\n')
    write(root / "ui/auth/scripts/agent.sh", "echo agent")
    write_pdf(root)
    write_package(root, "a/notes", description="Takes notes at meetings.")
    return root


def counting(
    content: Path, spool: Spool, settings: Mapping[str, Any] | None = None
) -> SkillLibrary:
    return open_library(content, settings={**COUNTED, **(settings or {})}, spool=spool)


def greet(**fields: Any) -> ScriptRequest:
    values = {
        "skill_path": "ui/auth",
        "file": "scripts/greet.sh",
        "args": {"name": "Ada"},
    }
    return ScriptRequest(**{**values, **fields})


def a_request(command: str, *args: str, skill: str = "pdf") -> CommandRequest:
    return CommandRequest(skill_name=skill, command=command, args=args)


def unheld_in(folder: Path) -> dict[str, Any]:
    """Return settings with which a script may run in this folder and write there."""
    return {"scripts": {**UNHELD["scripts"], "roots": [str(folder)]}}


def numbered(number: int) -> dict[str, str | None]:
    """Return content of which a script prints the number, when it is told to."""
    flag = [{"name": "flag"}]
    script = [{"file": "scripts/wait.sh", "execution": "server", "args": flag}]
    asset = [{"file": "assets/number.txt", "description": "N"}]
    return {
        "ui/auth.md": skill_text(keywords=["auth"], assets=asset, scripts=script),
        "ui/auth/assets/number.txt": str(number),
        "ui/auth/scripts/wait.sh": """touch "$SKILL_ARG_FLAG.started"
until [ -e "$SKILL_ARG_FLAG" ]; do sleep 0.01; done
cat "$(dirname "$0")/../assets/number.txt"
""",
    }


def event_in(spool: Spool) -> tuple[str, dict[str, Any]]:
    """Return the only event, as its type and its data."""
    [event] = spooled(spool)
    return event["type"], event["data"]


def audited(home: Path) -> list[dict[str, Any]]:
    """Return every line of the audit file."""
    file = home / ".skills-mcp/audit.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


@posix
@pytest.mark.spec("8.4")
@pytest.mark.spec("10.2")
@pytest.mark.spec("12.2")
@pytest.mark.parametrize("code", [0, 3])
async def test_a_script_that_ran_is_counted_with_names_and_without_values(
    code: int, content: Path, spool: Spool
) -> None:
    script = content / "ui/auth/scripts/greet.sh"
    write(script, f'echo "hello $SKILL_ARG_NAME"; exit {code}')

    result = (await counting(content, spool).view().run(greet())).result

    assert (result.exit_code, result.stdout) == (code, "hello Ada\n")
    kind, data = event_in(spool)
    assert kind == "script_executed"
    assert data.pop("duration_ms") >= 0
    assert data == {
        "skill_path": "ui/auth",
        "file": "scripts/greet.sh",
        "execution_mode": "server",
        "success": code == 0,
        "exit_code": code,
        "args_provided": ["name"],
        "timed_out": False,
        "sandbox": result.sandbox,
    }


@pytest.mark.spec("8.4")
@pytest.mark.parametrize(
    "error, settings, fields",
    [
        (ScriptsDisabledError, {"scripts": {"enabled": False}}, {}),
        (SkillNotFoundError, {}, {"skill_path": "ui/missing"}),
        (AgentScriptError, {}, {"file": "scripts/agent.sh"}),
    ],
)
async def test_a_script_that_was_refused_is_not_counted(
    error: type[Exception],
    settings: dict[str, Any],
    fields: dict[str, Any],
    content: Path,
    spool: Spool,
) -> None:
    library = counting(content, spool, settings)

    with pytest.raises(error):
        await library.view().run(greet(**fields))

    assert spooled(spool) == []


@posix
@pytest.mark.spec("12.2")
async def test_a_script_sees_the_environment_of_the_server_only_in_part(
    content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "canary")
    write(content / "ui/auth/scripts/greet.sh", "env")

    result = (await open_library(content).view().run(greet())).result

    assert "PATH=" in result.stdout
    assert "canary" not in result.stdout


@posix
async def test_closing_the_library_ends_its_scripts(content: Path) -> None:
    write(content / "ui/auth/scripts/greet.sh", "touch started; exec sleep 60")
    library = open_library(content, settings=unheld_in(content))
    codes: list[int] = []

    async def run() -> None:
        result = (await library.view().run(greet(cwd=str(content)))).result
        codes.append(result.exit_code)

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until((content / "started").exists)
            library.close()

    assert codes == [143]


@posix
@pytest.mark.spec("9.4")
async def test_a_script_reads_the_commit_that_it_was_started_from(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit(numbered(1))
    source = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")
    library = open_library(source, settings=UNHELD)
    flag = tmp_path / "go"
    request = greet(file="scripts/wait.sh", args={"flag": str(flag)})
    printed: list[str] = []

    async def run() -> None:
        printed.append((await library.view().run(request)).result.stdout)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until((tmp_path / "go.started").exists)
            for number in (2, 3):
                upstream.commit(numbered(number))
                library.sync()
            flag.touch()

    assert printed == ["1"]
    served = library.view().read_asset("ui/auth", "assets/number.txt")
    assert served.content.data == b"3"


CURSOR = (
    "eyJ2IjoxLCJzb3J0IjoiY3JlYXRlZEF0OmRlc2MiLCJhZnRlciI6WyIyMDI1LTAzLTA0VDEwOjE1Oj"
    "AwWiIsInBhcl8wMUhaWDNLN1E4TjRUMlY2VzlZMEIxQzNENSJdfQ"
)


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")


def _strips_types() -> bool:
    """Whether this Node runs TypeScript by itself."""
    flag = ["node", "--experimental-strip-types", "-e", ""]
    if not shutil.which("node"):
        return False
    return subprocess.run(flag, check=False, capture_output=True).returncode == 0


@posix
@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
@pytest.mark.parametrize(
    "skill_path, file, args, exit_code",
    [
        pytest.param(
            "data/postgres/migrations",
            "scripts/check-migration.sh",
            {"sql": "SET lock_timeout = '2s'; ALTER TABLE a ADD COLUMN b text;"},
            0,
            marks=needs("bash"),
        ),
        pytest.param(
            "data/postgres/migrations",
            "scripts/check-migration.sh",
            {"sql": "DROP TABLE parcels;"},
            1,
            marks=needs("bash"),
        ),
        pytest.param(
            "ui/react/auth",
            "scripts/validate-auth-config.py",
            {
                "client_id": "np-web-staging",
                "redirect_uri": "https://staging.northwindparcel.example/auth/callback",
            },
            0,
            marks=needs("python3"),
        ),
        pytest.param(
            "api/pagination",
            "scripts/decode-cursor.js",
            {"cursor": CURSOR},
            0,
            marks=needs("node"),
        ),
        pytest.param(
            "ui/react/forms",
            "scripts/check-schema.ts",
            {"schema": '{"fields": [{"name": "note", "type": "checkbox"}]}'},
            1,
            marks=pytest.mark.skipif(
                not _strips_types(), reason="node does not run TypeScript here"
            ),
        ),
    ],
)
async def test_the_scripts_of_the_sample_content_run(
    skill_path: str, file: str, args: dict[str, str], exit_code: int
) -> None:
    runners = {
        ".sh": "bash",
        ".py": "python3",
        ".js": "node",
        ".ts": "node --experimental-strip-types",
    }
    library = open_library(SKILLS_CONTENT, settings={"scripts": {"runners": runners}})

    with anyio.fail_after(PATIENCE_SECONDS):
        ran = await library.view().run(ScriptRequest(skill_path=skill_path, file=file, args=args))

    result = ran.result
    assert result.exit_code == exit_code, result.stderr
    assert result.stdout if exit_code == 0 else result.stderr


async def test_a_script_that_is_cancelled_is_an_event_too(content: Path, spool: Spool) -> None:
    write_skill(content, "slow.md", scripts=[{"file": "s.sh", "execution": "server"}])
    write(content / "slow/s.sh", "echo started > started; sleep 60\n")
    library = counting(content, spool, unheld_in(content))
    request = ScriptRequest(skill_path="slow", file="s.sh", args={}, cwd=str(content / "slow"))

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(library.view().run, request)
            await until((content / "slow/started").exists)
            tasks.cancel_scope.cancel()

    kind, data = event_in(spool)
    assert kind == "script_executed"
    assert (data["success"], data["exit_code"]) == (False, None)


def test_a_file_that_is_asset_and_script_can_be_run_and_fetched(content: Path) -> None:
    both = [{"file": "both.sh", "execution": "server"}]
    write_skill(content, "both.md", assets=[{"file": "both.sh"}], scripts=both)
    write(content / "both/both.sh", "echo hello\n")
    library = open_library(content)
    request = ScriptRequest(skill_path="both", file="both.sh", args={})

    ran = anyio.run(library.view().run, request)

    assert ran.result.stdout == "hello\n"
    assert library.view().read_asset("both", "both.sh").type == "other"


async def test_a_script_that_could_not_be_started_is_no_event(content: Path, spool: Spool) -> None:
    write_skill(content, "x.md", scripts=[{"file": "x.sh", "execution": "server"}])
    write(content / "x/x.sh")
    settings = {
        "analytics": {"enabled": True},
        "scripts": {"runners": {".sh": "no-such-runner"}},
    }
    library = open_library(content, settings=settings, spool=spool)

    with pytest.raises(RunnerNotFoundError):
        await library.view().run(ScriptRequest(skill_path="x", file="x.sh", args={}))

    assert spooled(spool) == []


# Commands


def open_with_commands(content: Path, spool: Spool | None = None, **rules: Any) -> SkillLibrary:
    """Return a library whose operator allows a shell; with a spool it counts."""
    allowed = {"enabled": True, "allowed": ["sh", "cat", "pwd"], **rules}
    counted = COUNTED if spool else {}
    settings = {**counted, **UNHELD, "commands": allowed}
    return open_library(content, settings=settings, spool=spool)


async def run(library: SkillLibrary, *words: str) -> ScriptResult:
    with anyio.fail_after(PATIENCE_SECONDS):
        return (await library.view().run(a_request(*words))).result


async def test_nothing_is_run_until_the_operator_allows_it(content: Path) -> None:
    with pytest.raises(CommandsDisabledError):
        await run(open_library(content), "cat", "SKILL.md")


async def test_the_skill_is_looked_up_before_the_program(content: Path) -> None:
    library = open_with_commands(content)

    with pytest.raises(SkillNotFoundError):
        await library.view().run(a_request("bash", skill="nowhere"))
    with pytest.raises(CommandError):
        await library.view().run(a_request("bash"))


@posix
async def test_a_command_that_writes_leaves_the_skill_as_it_was(content: Path) -> None:
    library = open_with_commands(content)
    before = contents(content)
    script = "pwd -P; cat scripts/fill.py; echo x > new; echo x > SKILL.md; rm -r scr*"

    result = await run(library, "sh", "-c", script)

    folder, _, printed = result.stdout.partition("\n")
    assert printed == "print('filled')\n"
    assert result.success, result.stderr
    assert contents(content) == before
    assert content not in Path(folder).parents
    assert is_gone(folder)


@posix
async def test_every_command_gets_a_folder_of_its_own(content: Path) -> None:
    library = open_with_commands(content)

    first, second = [await run(library, "pwd") for _ in range(2)]

    assert first.stdout != second.stdout


@posix
async def test_a_command_that_fails_is_a_result(content: Path) -> None:
    result = await run(open_with_commands(content), "sh", "-c", "echo no >&2; exit 3")

    assert (result.exit_code, result.stderr, result.success) == (3, "no\n", False)


@posix
async def test_a_command_that_takes_too_long_leaves_nothing(content: Path, tmp_path: Path) -> None:
    library = open_with_commands(content, timeout_seconds=1)
    where = tmp_path / "where"

    result = await run(library, "sh", "-c", f"pwd -P > {where}; exec sleep 60")

    assert result.timed_out
    assert result.exit_code == 137
    assert is_gone(where.read_text())


@posix
async def test_a_command_that_is_cancelled_leaves_nothing_and_is_counted(
    content: Path, tmp_path: Path, spool: Spool
) -> None:
    library = open_with_commands(content, spool)
    where = tmp_path / "where"
    lifeline = Lifeline(tmp_path / "lifeline")
    script = f"pwd -P > {where}\n{lifeline.script()}"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, library, "sh", "-c", script)
        await anyio.to_thread.run_sync(lifeline.wait_for_start)
        tasks.cancel_scope.cancel()

    lifeline.wait_for_end()
    lifeline.close()
    assert is_gone(where.read_text())
    [event] = spooled(spool)
    assert event["type"] == "script_executed"
    assert (event["data"]["success"], event["data"]["exit_code"]) == (False, None)


@posix
async def test_a_command_is_counted_without_its_arguments(content: Path, spool: Spool) -> None:
    library = open_with_commands(content, spool)

    await run(library, "sh", "-c", "exit 3 # canary")

    [event] = spooled(spool)
    duration_ms = event["data"].pop("duration_ms")
    assert duration_ms >= 0
    assert (event["type"], event["data"]) == (
        "script_executed",
        {
            "skill_path": "pdf",
            "file": "sh",
            "execution_mode": "server",
            "success": False,
            "exit_code": 3,
            "args_provided": [],
            "timed_out": False,
            "sandbox": "none",
        },
    )


@pytest.mark.parametrize(
    "words, error",
    [
        (("bash",), CommandError),
        (("cat", "\0"), InvalidArgumentsError),
        (("nowhere",), RunnerNotFoundError),
    ],
)
async def test_a_command_that_never_ran_is_not_counted(
    content: Path, spool: Spool, words: tuple[str, ...], error: type[Exception]
) -> None:
    library = open_with_commands(content, spool, allowed=["cat", "nowhere"])

    with pytest.raises(error):
        await run(library, *words)

    assert spooled(spool) == []


# The audit file


@posix
@pytest.mark.spec("12.2")
async def test_every_run_is_a_line_of_the_audit_file_also_when_nothing_is_counted(
    content: Path, home: Path
) -> None:
    library = open_library(content)

    ran = await library.view().run(greet())

    [line] = audited(home)
    assert line.pop("duration_ms") == round(ran.result.duration_seconds * 1000)
    assert line.pop("time").endswith("Z")
    assert line == {
        "outcome": "ended",
        "kind": "script",
        "skill_path": "ui/auth",
        "file": "scripts/greet.sh",
        "commit": None,
        "sha256": hashlib.sha256((content / "ui/auth/scripts/greet.sh").read_bytes()).hexdigest(),
        "arguments": ["name"],
        "sandbox": ran.result.sandbox,
        "exit_code": 0,
        "signal": None,
        "timed_out": False,
        "stdout_bytes": 10,
        "stderr_bytes": 0,
    }


@posix
async def test_commands_and_entries_are_lines_too(content: Path, home: Path) -> None:
    write_package(content, "hello", entry="sh hello.sh", description="Says hello.")
    write(content / "hello/hello.sh", "echo hello")
    library = open_with_commands(content)

    await run(library, "cat", "SKILL.md")
    await library.view().run(EntryRequest(skill_name="hello", args="a b"))

    told = [(line["kind"], line["skill_path"], line["file"]) for line in audited(home)]
    assert told == [("command", "pdf", "cat"), ("entry", "hello", "sh")]


@posix
async def test_what_the_sandbox_or_the_machine_refused_is_a_line(content: Path, home: Path) -> None:
    rules = {"scripts": {"runners": {".sh": "no-such-runner"}}}

    with pytest.raises(RunnerNotFoundError):
        await open_library(content, settings=rules).view().run(greet())

    [line] = audited(home)
    assert (line["outcome"], line["exit_code"]) == ("RUNNER_NOT_FOUND", None)


@posix
async def test_what_a_rule_refused_is_no_line(content: Path, home: Path) -> None:
    with pytest.raises(AgentScriptError):
        await open_library(content).view().run(greet(file="scripts/agent.sh"))

    assert not (home / ".skills-mcp/audit.jsonl").exists()


@posix
async def test_a_run_that_was_cancelled_is_a_line(content: Path, home: Path) -> None:
    write(content / "ui/auth/scripts/greet.sh", "touch started; exec sleep 60")
    library = open_library(content, settings=unheld_in(content))

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(library.view().run, greet(cwd=str(content)))
            await until((content / "started").exists)
            tasks.cancel_scope.cancel()

    [line] = audited(home)
    assert (line["outcome"], line["exit_code"]) == ("cancelled", None)


@posix
async def test_a_disk_that_takes_no_line_stops_no_run(
    content: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / ".skills-mcp/audit.jsonl").mkdir(parents=True)

    ran = await open_library(content).view().run(greet())

    assert ran.result.success
    assert "audit.jsonl takes no line" in caplog.text


# The bytes that ran


@posix
async def test_an_answer_has_the_digest_of_the_bytes_that_ran(content: Path) -> None:
    ran = await open_library(content).view().run(greet())

    data = (content / "ui/auth/scripts/greet.sh").read_bytes()
    assert ran.sha256 == hashlib.sha256(data).hexdigest()
