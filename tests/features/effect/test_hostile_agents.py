"""Agents that hang, fork, fill, flood, look around and kill: bounded, named, and alone."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from skills_mcp.config import Scripts
from skills_mcp.features.authoring.cases import Case, Check
from skills_mcp.features.effect.agents import choose_agent
from skills_mcp.features.effect.case_runner import Arm, CaseRunner, RunRules
from skills_mcp.features.effect.evidence import read_results
from skills_mcp.scripts.prepared_runs import ScriptEnvironment
from tests.features.effect.conftest import Effect, expect, program, readable, write_case
from tests.support import wait_for, write, write_skill

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SLEEP = "86399.25"

HOSTILE = """
import os, pathlib, signal, subprocess, sys, time

deed, _, place = sys.argv[-1].partition(" ")
if deed in ("hang", "fork"):
    subprocess.Popen(["sleep", "%s"], start_new_session=True)
if deed == "hang":
    time.sleep(3600)
if deed == "flood":
    for _ in range(256):
        sys.stdout.write("x" * 1024 * 1024)
if deed == "write":
    for folder in (pathlib.Path(place), pathlib.Path("..")):
        try:
            (folder / "escaped.txt").write_text("x")
        except OSError:
            pass
if deed == "read":
    for file in pathlib.Path(place).rglob("*"):
        print(file, file.read_text() if file.is_file() else "")
if deed == "kill":
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1)
if deed == "fill":
    for number in range(10_000):
        pathlib.Path(f"{number}.bin").write_bytes(b"x" * 1024 * 1024)
if deed == "lock":
    pathlib.Path("deep/er").mkdir(parents=True)
    pathlib.Path("deep").chmod(0)
pathlib.Path("ended.txt").write_text("ended")
print("done")
""".replace("%s", SLEEP)


def list_sleepers() -> Iterator[Path]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if SLEEP.encode() in file.read_bytes():
                yield file
        except OSError:
            continue


def test_hostile_agents_are_bounded_and_the_rest_goes_on(tmp_path: Path, effect: Effect) -> None:
    folder = tmp_path / "skills"
    write_skill(folder, "a.md", body="the secret of the other arm")
    deeds = {
        "hang": expect("ended.txt", "ended", "hang", timeout=2),
        "fork": expect("ended.txt", "ended", "fork"),
        "flood": expect("ended.txt", "ended", "flood"),
        "write": expect("ended.txt", "ended", f"write {tmp_path}"),
        "read": {
            "prompt": f"read {folder}",
            "checks": [{"output": {"lacks": "secret"}}, {"file": "ended.txt", "exists": True}],
        },
        "kill": expect("ended.txt", "ended", "kill"),
        "lock": expect("ended.txt", "ended", "lock"),
        "good": expect("ended.txt", "ended", "good"),
    }
    write_case(folder, "a", *({"id": name, **case} for name, case in deeds.items()))
    command = program(tmp_path, HOSTILE)

    report = effect("--repetitions", "1", "--arms", "without", command=command)

    results = {result.case: result for result in read_results(folder)}
    states = {name: (result.state, result.passed) for name, result in results.items()}
    assert states.pop("hang") == ("timeout", False)
    unbounded = {name for name, state in states.items() if state != ("ended", True)}
    assert unbounded <= {"kill"}
    assert "kill" in {fault["case"] for fault in report["faults"]} | states.keys()
    assert "bytes" in " ".join(results["flood"].reasons)
    assert "in time" in " ".join(results["hang"].reasons)
    assert not (tmp_path / "escaped.txt").exists()
    wait_for(lambda: not [*list_sleepers()])


def test_an_agent_that_fills_the_disk_is_stopped(tmp_path: Path, home: Path) -> None:
    agent = choose_agent(None, program(tmp_path, HOSTILE), "")
    rules = RunRules(
        agent=agent,
        via="native",
        sandbox=Scripts(),
        environment=ScriptEnvironment.of({"HOME": str(home), "PATH": "/usr/bin:/bin"}),
        readable=[tmp_path / "programs"],
        max_disk_bytes=32 * 1024 * 1024,
    )
    case = Case(
        id="fill", prompt="fill", checks=(Check("file", "ended.txt", "exists", value=True),)
    )

    run = partial(CaseRunner(rules).run, "a", case, Arm(name="without"))
    outcome, _ = anyio.run(run)

    assert (outcome.state, outcome.passed) == ("stopped", False)
    assert "disk" in outcome.reasons[0]


@pytest.mark.usefixtures("home")
def test_ctrl_c_loses_no_finished_run(tmp_path: Path, effect: Effect) -> None:
    folder = tmp_path / "skills"
    write_skill(folder, "a.md")
    write_case(folder, "a", expect("ended.txt", "ended", "good"), expect("x", "x", "hang"))
    command = program(tmp_path, HOSTILE)
    words = ["effect", "--command", command, *readable(tmp_path), "--repetitions", "1"]
    options = ["--arms", "without", "--jobs", "1", "--skills-dir", str(folder), "--json"]

    with subprocess.Popen(
        [sys.executable, "-m", "skills_mcp", *words, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for(lambda: bool([*list_sleepers()]))
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate()

    assert process.returncode == 130
    assert json.loads(stdout)["error"]["code"] == "INTERRUPTED"
    assert [result.passed for result in read_results(folder)] == [True]
    wait_for(lambda: not [*list_sleepers()])
    write(folder / "a/evals/cases.yaml", json.dumps([expect("ended.txt", "ended", "good")]))
    report = effect("--repetitions", "1", "--arms", "without", command=command)
    assert report["new_runs"] == 0
