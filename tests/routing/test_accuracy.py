"""The program that measures how often routing is right: `make accuracy`."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy import (
    PARTS,
    ask_peer,
    average,
    count,
    draw_interval,
    leaving_out,
    load_set,
    make_ranked,
    try_out,
)
from benchmarks.peers import Answer, Peer
from skills_mcp.config import Matching

SKILLS = [
    {"id": "pdf", "name": "pdf", "description": "Fill in forms", "body": "# Forms"},
    {"id": "k8s", "name": "rollout", "description": "Roll out to Kubernetes"},
    {"id": "ledger", "name": "ledger", "description": "Book an invoice"},
]
QUERIES = [
    {"query": "fill in a form", "expect": ["pdf"]},
    {"query": "a kuberntes cluster", "expect": ["k8s"]},
    {"query": "water the flowers", "expect": ["ledger"]},
    {"query": "write a Laravel seeder", "expect": [], "kind": "same_field"},
    {"query": "bake bread", "expect": []},
]


def write_lines(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_lines(tmp_path / "skills.jsonl", SKILLS)
    write_lines(tmp_path / "queries.jsonl", QUERIES)
    return tmp_path


def figures_of(folder: Path) -> dict[str, float]:
    routing_set = load_set(folder)
    return count(try_out(routing_set, make_ranked(routing_set), Matching()))


def test_a_peer_is_counted_as_we_are(folder: Path) -> None:
    pdf, k8s, ledger = 2, 0, 1  # in the order of paths
    answers = {
        "fill in a form": Answer([pdf], [pdf], "single"),
        "a kuberntes cluster": Answer([ledger, k8s], [ledger, k8s]),
        "water the flowers": Answer([ledger], [ledger], "no_match"),
    }
    nothing = Answer([pdf], [pdf], "single")
    peer = Peer("fake", "fake", lambda _, __: lambda task: answers.get(task, nothing))

    figures = count(ask_peer(load_set(folder), peer))

    assert figures["at_1"] == pytest.approx(200 / 3)
    assert (figures["in_answer"], figures["single_right"]) == (100, 100)
    assert figures["kept"] == pytest.approx(200 / 3)
    assert figures["shown"] == pytest.approx(4 / 3)
    assert (figures["full_same"], figures["declined_other"]) == (100, 0)


def test_a_set_is_counted_by_what_an_agent_gets(folder: Path) -> None:
    figures = figures_of(folder)

    assert figures["at_1"] == pytest.approx(200 / 3)
    assert figures["in_answer"] == pytest.approx(200 / 3)
    assert figures["shown"] == pytest.approx(2 / 3)
    assert figures["single_right"] == 100
    assert figures["kept"] == pytest.approx(200 / 3)
    assert (figures["declined_same"], figures["declined_other"]) == (100, 100)
    assert (figures["full_same"], figures["full_other"]) == (0, 0)


def test_the_program_writes_what_is_counted(folder: Path) -> None:
    figures = folder / "figures.json"
    command = (sys.executable, "-m", "benchmarks.accuracy", str(folder), "--json", str(figures))

    subprocess.run(command, check=True, capture_output=True)

    assert json.loads(figures.read_text()) == {folder.name: figures_of(folder)}


def test_a_figure_without_any_task_is_left_out_of_the_mean() -> None:
    some = {"at_1": 50.0, "declined_same": 40.0}

    mean = average([some, {"at_1": 100.0}])

    assert mean == {"at_1": 75, "declined_same": 40}


def test_the_interval_holds_the_mean(folder: Path) -> None:
    routing_set = load_set(folder)
    tried = try_out(routing_set, make_ranked(routing_set), Matching())

    low, high = draw_interval({"one": tried})["at_1"]

    assert low < count(tried)["at_1"] < high


def test_a_part_is_left_out_and_back_again(folder: Path) -> None:
    with leaving_out("typing errors"):
        without = figures_of(folder)

    assert without["at_1"] < figures_of(folder)["at_1"]


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_left_out(folder: Path, part: str) -> None:
    before = figures_of(folder)

    with leaving_out(part):
        figures_of(folder)

    assert figures_of(folder) == before


def test_a_folder_without_a_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no set"):
        load_set(tmp_path)
