import json
import os
import re
import shutil
import signal
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Scripts
from skills_mcp.errors import (
    BusyError,
    InvalidArgumentsError,
    RunnerNotFoundError,
)
from skills_mcp.scripts import policy
from skills_mcp.scripts.execution import PreparedCommand, ScriptResult
from skills_mcp.scripts.script_runner import (
    MAX_QUEUED,
    MAX_RUNNING,
    TIMEOUT_MESSAGE,
    HeadTailBuffer,
    ScriptRunner,
)
from skills_mcp.scripts.supervisor import _descendants as descendants
from tests.support import (
    PATIENCE_SECONDS,
    group_members,
    is_running,
    running_python,
    until,
    wait_for,
    write,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="scripts of POSIX")

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")

PRINT_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"


def a_command(folder: Path, text: str, file: str = "script.sh", **fields: Any) -> PreparedCommand:
    """Return a command for a script; `args` are its arguments."""
    values: dict[str, Any] = {
        "working_directory": folder,
        "timeout_seconds": 30,
        "max_output_bytes": 100_000,
    }
    arguments = fields.pop("args", {})
    runner = fields.pop("runner", ("sh",))
    return PreparedCommand(
        words=(*runner, str(write(folder / file, text))),
        environment=policy.derive_run_variables(os.environ, arguments, Scripts()),
        **{**values, **fields},
    )


async def run(command: PreparedCommand) -> ScriptResult:
    with anyio.fail_after(PATIENCE_SECONDS):
        return await ScriptRunner().run(command)


async def run_into_timeout(folder: Path, script: str) -> ScriptResult:
    """Run a script that writes `pid` until a timeout that comes after that."""
    for seconds in (0.5, 2, 8, 30):  # the machine may be busy
        result = await run(a_command(folder, script, timeout_seconds=seconds))
        if (folder / "pid").exists():
            return result
    raise AssertionError("the script has never started")


RUN_FOR_EVER = """
import sys
from pathlib import Path
import anyio
from skills_mcp.scripts.execution import PreparedCommand
from skills_mcp.scripts.script_runner import ScriptRunner

folder = Path(sys.argv[1])
anyio.run(ScriptRunner().run, PreparedCommand(
    words=("sh", "script.sh"), environment={"PATH": "/usr/bin:/bin"},
    working_directory=folder, timeout_seconds=60, max_output_bytes=1000,
))
"""


def pid_in(file: Path) -> int:
    """Return the process that a script has written down."""
    wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


@pytest.mark.spec("8.4")
async def test_a_script_that_succeeds(tmp_path: Path) -> None:
    result = await run(a_command(tmp_path, "echo out; echo err >&2"))

    assert (result.exit_code, result.stdout, result.stderr) == (0, "out\n", "err\n")
    assert result.success
    assert not result.timed_out
    assert result.duration_seconds > 0


@pytest.mark.spec("8.4")
async def test_a_script_that_fails_is_a_result(tmp_path: Path) -> None:
    result = await run(a_command(tmp_path, "echo 'no clientId' >&2; exit 3"))

    assert (result.exit_code, result.stderr) == (3, "no clientId\n")
    assert not result.success
    assert not result.timed_out


@pytest.mark.spec("8.4")
@pytest.mark.parametrize("signal, code", [("KILL", 137), ("TERM", 143)])
async def test_a_script_that_a_signal_ends_has_the_code_of_a_shell(
    signal: str, code: int, tmp_path: Path
) -> None:
    result = await run(a_command(tmp_path, f"echo before; kill -{signal} $$"))

    assert (result.exit_code, result.signal) == (code, f"SIG{signal}")
    assert result.stdout == "before\n"
    assert not result.success
    assert not result.timed_out


@pytest.mark.spec("8.4")
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"))))
async def test_arguments_arrive_as_they_were_given(values: list[str]) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.TemporaryDirectory() as folder:
            args = {f"value-{number}": value for number, value in enumerate(values)}
            command = a_command(
                Path(folder),
                PRINT_ENVIRONMENT,
                runner=(sys.executable, "-I"),
                args=args,
            )
            result = await ScriptRunner().run(command)

    arrived = json.loads(result.stdout)
    assert values == [arrived[f"SKILL_ARG_VALUE_{number}"] for number in range(len(values))]


@pytest.mark.spec("12.2")
@pytest.mark.parametrize(
    "value", ["$(touch alarm)", "`touch alarm`", "; touch alarm", "'\"\n\\", "-rf"]
)
async def test_an_argument_is_data_and_never_a_command(value: str, tmp_path: Path) -> None:
    command = a_command(tmp_path, 'printf %s "$SKILL_ARG_VALUE"', args={"value": value})

    result = await run(command)

    assert result.stdout == value
    assert not (tmp_path / "alarm").exists()


@pytest.mark.spec("12.2")
async def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    file = "a b; touch alarm; $(touch alarm) 'x.sh"

    result = await run(a_command(tmp_path, 'echo "$#"', file=file))

    assert result.stdout == "0\n"
    assert not (tmp_path / "alarm").exists()


@pytest.mark.spec("12.2")
async def test_stdin_is_closed(tmp_path: Path) -> None:
    result = await run(a_command(tmp_path, "cat; echo end"))

    assert result.stdout == "end\n"


@pytest.mark.spec("12.2")
async def test_a_script_sees_no_secret_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "ANTHROPIC_API_KEY")
    harmful = ("SKILLS_REPO", "BASH_ENV", "LD_PRELOAD", "PYTHONPATH", "NODE_OPTIONS")
    for name in planted + harmful:
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    command = a_command(tmp_path, PRINT_ENVIRONMENT, runner=(sys.executable,), args={"name": "x"})

    seen = json.loads((await run(command)).stdout)

    assert "canary" not in seen.values()
    assert seen == command.environment


@pytest.mark.spec("12.2")
async def test_a_script_inherits_no_file_of_ours(tmp_path: Path) -> None:
    with (tmp_path / "open.txt").open("w") as ours:
        count = "import os; print(len(os.listdir('/dev/fd')))"
        result = await run(a_command(tmp_path, count, runner=(sys.executable, "-I")))

    assert ours.closed
    assert int(result.stdout) <= 4  # three streams, and the listing itself


@pytest.mark.spec("8.4")
async def test_a_script_runs_where_it_is_told_to(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()

    result = await run(a_command(tmp_path, "pwd -P", working_directory=folder))

    assert result.stdout == f"{folder.resolve()}\n"


async def test_a_script_leads_a_group_of_its_own(tmp_path: Path) -> None:
    result = await run(a_command(tmp_path, "ps -o pid=,pgid= -p $$"))

    pid, group = result.stdout.split()
    assert pid == group


@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
@pytest.mark.spec("13")
async def test_a_timeout_keeps_what_was_printed_and_says_so(tmp_path: Path) -> None:
    script = "echo partial; echo warning >&2; echo $$ > pid; exec sleep 60"

    result = await run_into_timeout(tmp_path, script)

    assert result.exit_code == 137
    assert result.stdout == "partial\n"
    assert result.stderr == ("warning\n[skills-mcp] Script killed: timeout exceeded.")
    assert result.timed_out
    assert not result.success
    assert not is_running(pid_in(tmp_path / "pid"))


@pytest.mark.spec("8.4")
async def test_a_timeout_first_asks_so_that_a_script_can_clean_up(
    tmp_path: Path,
) -> None:
    script = "trap 'echo cleaned; exit 0' TERM; echo $$ > pid; sleep 60 & wait"

    result = await run_into_timeout(tmp_path, script)

    assert result.stdout == "cleaned\n"
    assert result.exit_code == 137
    assert result.stderr == TIMEOUT_MESSAGE
    assert not result.success


@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
async def test_a_script_that_will_not_hear_is_killed_with_all_its_children(
    tmp_path: Path,
) -> None:
    script = """trap '' TERM
echo $$ > pid
sleep 60 & sleep 61 &
while :; do sleep 62; done"""

    result = await run_into_timeout(tmp_path, script)

    assert result.exit_code == 137
    assert result.stderr == TIMEOUT_MESSAGE
    group = pid_in(tmp_path / "pid")
    wait_for(lambda: not group_members(group))


async def test_a_child_left_in_the_background_neither_holds_us_up_nor_survives(
    tmp_path: Path,
) -> None:
    result = await run(a_command(tmp_path, "echo $$ > pid; sleep 60 & echo end"))

    assert (result.exit_code, result.stdout) == (0, "end\n")
    group = pid_in(tmp_path / "pid")
    wait_for(lambda: not group_members(group))


@linux
@pytest.mark.spec("12.2")
async def test_a_child_that_leaves_the_group_neither_holds_us_up_nor_survives(
    tmp_path: Path,
) -> None:
    script = """setsid sh -c 'echo $$ > pid; exec sleep 60' &
until [ -s pid ]; do sleep 0.01; done
echo end"""

    result = await run(a_command(tmp_path, script))

    assert (result.exit_code, result.stdout) == (0, "end\n")
    assert not is_running(pid_in(tmp_path / "pid"))


@linux
async def test_a_supervisor_that_was_stopped_asks_all_the_same(tmp_path: Path) -> None:
    trap = "trap 'echo asked; exit' TERM; kill -STOP $PPID"

    result = await run_into_timeout(tmp_path, f"{trap}; echo $$ > pid; sleep 60 & wait")

    assert (result.stdout, result.timed_out) == ("asked\n", True)


@linux
@pytest.mark.parametrize("number", ["KILL", "STOP"])
async def test_a_script_that_attacks_its_supervisor_ends_with_it(
    number: str, tmp_path: Path
) -> None:
    script = f"sleep 60 & echo $$ > pid; kill -{number} $PPID; wait"

    result = await run_into_timeout(tmp_path, script)

    assert result.exit_code == 137
    assert not result.success
    wait_for(lambda: not group_members(pid_in(tmp_path / "pid")))


@pytest.mark.spec("8.4")
@pytest.mark.spec("12.2")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_output_is_capped_while_it_streams(stream: str, tmp_path: Path) -> None:
    text = f"""import sys
for _ in range(50):
    sys.{stream}.write("x" * 1_000_000)
sys.exit(7)"""
    command = a_command(tmp_path, text, runner=(sys.executable, "-I"), max_output_bytes=10_000)
    tracemalloc.start()
    try:
        result = await run(command)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert result.exit_code == 7
    printed = result.stdout if stream == "stdout" else result.stderr
    said = "[skills-mcp] Output truncated: 49,990,000 bytes are left out here."
    assert printed == "\n".join(["x" * 7_500, said, "x" * 2_500])
    assert (result.stdout_bytes, result.stderr_bytes) == (
        (50_000_000, 0) if stream == "stdout" else (0, 50_000_000)
    )
    assert peak < 4_000_000


async def test_each_stream_has_a_cap_of_its_own(tmp_path: Path) -> None:
    script = "printf 0123456789; printf abcdefghij >&2"

    result = await run(a_command(tmp_path, script, max_output_bytes=10))

    assert (result.stdout, result.stderr) == ("0123456789", "abcdefghij")
    assert not result.truncated_stdout
    assert not result.truncated_stderr


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_stream_that_was_cut_says_so_and_the_other_does_not(
    stream: str, tmp_path: Path
) -> None:
    to = "" if stream == "stdout" else " >&2"

    result = await run(a_command(tmp_path, f"printf 0123456789a{to}", max_output_bytes=10))

    cut = {"stdout": result.truncated_stdout, "stderr": result.truncated_stderr}
    assert cut == {"stdout": stream == "stdout", "stderr": stream == "stderr"}


async def test_a_program_gets_its_arguments_as_words(tmp_path: Path) -> None:
    command = a_command(tmp_path, 'printf "%s|" "$@"')
    words = (*command.words, "a b", "", "$(touch alarm)", "-n")

    result = await run(replace(command, words=words))

    assert result.stdout == "a b||$(touch alarm)|-n|"
    assert not (tmp_path / "alarm").exists()


async def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    result = await run(a_command(tmp_path, r"printf 'a\377b'"))

    assert result.stdout == "a\ufffdb"


async def test_cancelling_ends_the_whole_tree(tmp_path: Path) -> None:
    command = a_command(tmp_path, "sleep 60 & echo $$ > pid; wait")
    runner = ScriptRunner()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runner.run, command)
        await until((tmp_path / "pid").exists)
        group = await anyio.to_thread.run_sync(pid_in, tmp_path / "pid")
        tasks.cancel_scope.cancel()

    wait_for(lambda: not group_members(group))
    assert runner._running == set()


@pytest.mark.spec("3.3")
async def test_closing_ends_what_runs(tmp_path: Path) -> None:
    command = a_command(tmp_path, "sleep 60 & echo $$ > pid; wait")
    runner = ScriptRunner()
    results: list[ScriptResult] = []

    async def run_and_remember() -> None:
        results.append(await runner.run(command))

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_and_remember)
            await until((tmp_path / "pid").exists)
            group = await anyio.to_thread.run_sync(pid_in, tmp_path / "pid")
            runner.close()

    wait_for(lambda: not group_members(group))
    assert (results[0].exit_code, results[0].signal) == (143, "SIGTERM")
    assert not results[0].timed_out


@linux
async def test_what_is_killed_with_us_leaves_nobody(tmp_path: Path) -> None:
    script = "setsid sleep 60 & echo $$ > pid; wait"
    write(tmp_path / "script.sh", script)

    with running_python(RUN_FOR_EVER, tmp_path) as server:
        group = await anyio.to_thread.run_sync(pid_in, tmp_path / "pid")
        [grandchild] = [pid for pid in descendants(group) if pid != group]
        server.kill()

        wait_for(lambda: not is_running(group) and not is_running(grandchild))


async def test_five_scripts_run_four_at_a_time_in_their_order(tmp_path: Path) -> None:
    script = 'touch "$SKILL_ARG_N"; until [ -e go ]; do sleep 0.01; done; echo x >> end'
    runner = ScriptRunner()
    begun: list[int] = []

    async def call(number: int) -> None:
        command = a_command(tmp_path, script, file=f"{number}.sh", args={"n": f"began-{number}"})
        await runner.run(command, lambda: begun.append(number))

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            for number in range(MAX_RUNNING + 2):
                tasks.start_soon(call, number)
                await until(lambda: len(runner._waiting) + len(begun) == number + 1)  # noqa: B023
            await until(lambda: len(list(tmp_path.glob("began-*"))) == MAX_RUNNING)
            first = list(begun)
            (tmp_path / "go").touch()

    assert first == [0, 1, 2, 3]
    assert begun == [0, 1, 2, 3, 4, 5]
    assert (tmp_path / "end").read_text() == "x\n" * 6


async def test_the_twenty_first_script_is_refused(tmp_path: Path) -> None:
    command = a_command(tmp_path, "exec sleep 60")
    runner = ScriptRunner()

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_RUNNING + MAX_QUEUED):
                tasks.start_soon(runner.run, command)
            await until(lambda: len(runner._waiting) == MAX_QUEUED)

            with pytest.raises(BusyError, match="4 scripts are running and 16 are"):
                await runner.run(command)

            tasks.cancel_scope.cancel()

    assert (runner._running, runner._waiting) == (set(), set())


async def test_a_call_that_is_cancelled_while_it_waits_makes_room_at_once(
    tmp_path: Path,
) -> None:
    command = a_command(tmp_path, "exec sleep 60")
    runner, begun = ScriptRunner(), []

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_RUNNING):
                tasks.start_soon(runner.run, command)
            await until(lambda: len(runner._running) == MAX_RUNNING)
            with anyio.CancelScope() as call:
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(runner.run, command, lambda: begun.append(1))
                    await until(lambda: runner._waiting)
                    call.cancel()

            assert not runner._waiting
            tasks.cancel_scope.cancel()

    assert begun == []


@pytest.mark.spec("3.3")
async def test_closing_starts_nothing_that_waits(tmp_path: Path) -> None:
    command = a_command(tmp_path, "exec sleep 60")
    runner = ScriptRunner()
    refused: list[BusyError] = []

    async def call() -> None:
        try:
            await runner.run(command)
        except BusyError as error:
            refused.append(error)

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_RUNNING + 3):
                tasks.start_soon(call)
            await until(lambda: len(runner._running) == MAX_RUNNING)
            await until(lambda: len(runner._waiting) == 3)
            runner.close()

    assert len(refused) == 3


async def test_what_has_just_begun_ends_also_where_interrupts_are_ignored(
    tmp_path: Path,
) -> None:
    command = a_command(tmp_path, "exec sleep 60")
    runner = ScriptRunner()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runner.run, command)
                await until(lambda: len(runner._running) == 1)
                runner.close()
    finally:
        signal.signal(signal.SIGINT, before)


async def test_scripts_run_beside_each_other(tmp_path: Path) -> None:
    # Each waits for the other's file: one after the other would never end.
    first = a_command(tmp_path, "touch 1; until [ -e 2 ]; do sleep 0.01; done", file="first.sh")
    second = a_command(tmp_path, "touch 2; until [ -e 1 ]; do sleep 0.01; done", file="second.sh")
    runner = ScriptRunner()

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner.run, first)
            tasks.start_soon(runner.run, second)

    assert runner._running == set()


async def test_a_runner_that_is_not_installed_is_said(tmp_path: Path) -> None:
    command = a_command(tmp_path, "", runner=("no-such-runner",))

    with pytest.raises(RunnerNotFoundError, match="'no-such-runner' is not installed"):
        await run(command)


async def test_a_runner_that_cannot_be_started_is_said(tmp_path: Path) -> None:
    program = write(tmp_path / "broken", "#!/no/such/interpreter\n")
    program.chmod(0o755)

    with pytest.raises(RunnerNotFoundError, match="cannot be started"):
        await run(a_command(tmp_path, "", runner=(str(program),)))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
async def test_an_argument_that_is_too_long_is_the_callers_to_shorten(
    tmp_path: Path,
) -> None:
    command = a_command(tmp_path, "", args={"sql": "x" * 200_000})

    with pytest.raises(InvalidArgumentsError, match="Shorten them"):
        await run(command)


@pytest.mark.spec("8.4")
@pytest.mark.parametrize(
    "file, text",
    [
        ("a.sh", '[[ -n "$BASH" ]] && echo "hello $SKILL_ARG_NAME"'),
        ("a.py", "import os; print('hello', os.environ['SKILL_ARG_NAME'])"),
        ("a.js", "console.log('hello', process.env.SKILL_ARG_NAME)"),
    ],
)
async def test_the_runners_of_the_default_run(file: str, text: str, tmp_path: Path) -> None:
    runner = policy.derive_runner(Scripts(), file)
    if not shutil.which(runner[0]):
        pytest.skip(f"{runner[0]} is not installed")

    result = await run(a_command(tmp_path, text, file=file, runner=runner, args={"name": "Ada"}))

    assert (result.stdout, result.exit_code) == ("hello Ada\n", 0)


@pytest.mark.spec("8.4")
async def test_a_runner_of_several_words_gets_the_script_last(tmp_path: Path) -> None:
    stand_in = write(tmp_path / "npx", '#!/bin/sh\nprintf "%s|" "$@"\n')
    stand_in.chmod(0o755)
    rules = Scripts(runners={".ts": f"{stand_in} tsx --quiet"})
    runner = policy.derive_runner(rules, "a.ts")

    result = await run(a_command(tmp_path, "", file="a.ts", runner=runner))

    assert result.stdout == f"tsx|--quiet|{tmp_path / 'a.ts'}|"


# --- what is kept of the output ---------------------------------------------------

LEFT_OUT = re.compile(r"\n?\[skills-mcp\] Output truncated: ([\d,]+) bytes are left .*\n")


def kept(text: bytes, limit: int, *, step: int = 7) -> HeadTailBuffer:
    output = HeadTailBuffer(limit)
    for begin in range(0, len(text), step):
        output.add(text[begin : begin + step])
    return output


def test_what_fits_is_kept_as_it_is() -> None:
    output = kept(b"0123456789", 10)

    assert output.text() == "0123456789"
    assert not output.is_truncated
    assert output.total_bytes == 10


def test_of_more_the_first_three_quarters_and_the_last_are_kept() -> None:
    output = kept(b"a" * 75 + b"b" * 1_000_000 + b"c" * 25, 100)

    assert output.text() == (
        "a" * 75
        + "\n[skills-mcp] Output truncated: 1,000,000 bytes are left out here.\n"
        + "c" * 25
    )
    assert output.is_truncated
    assert output.total_bytes == 1_000_100


def test_the_line_between_never_stands_at_the_end_of_another() -> None:
    output = kept(b"one\ntwo\nthree\nfour", 5)

    first, said, last = output.text().split("\n")
    assert (first, said[:12], last) == ("one", "[skills-mcp]", "ur")


@pytest.mark.parametrize("character", ["é", "€", "😀"])
@pytest.mark.parametrize("shift", range(4))
def test_a_character_is_never_cut(character: str, shift: int) -> None:
    text = ("." * shift + character * 1000).encode()

    shown = kept(text, 101).text()

    assert "\ufffd" not in shown


def test_kept_bytes_that_are_no_text_are_replaced() -> None:
    assert kept(b"a\xffb", 10).text() == "a\ufffdb"
    assert kept(b"\x80" * 100, 8).text().count("\ufffd") <= 8


@given(st.text(), st.integers(1, 60), st.integers(1, 50))
def test_head_and_tail_are_those_of_the_stream(text: str, limit: int, step: int) -> None:
    data = text.encode()
    output = kept(data, limit, step=step)

    head, *parts = LEFT_OUT.split(output.text())

    assert output.total_bytes == len(data)
    assert output.is_truncated is (len(data) > limit)
    if output.is_truncated:
        left_out, tail = parts
        if not data.startswith(head.encode()):
            head = head.removesuffix("\n")  # so that the line between is one
        assert data.startswith(head.encode())
        assert data.endswith(tail.encode())
        size = len(head.encode()) + len(tail.encode())
        assert size <= limit
        assert int(left_out.replace(",", "")) == len(data) - size
    else:
        assert (head, parts) == (text, [])
