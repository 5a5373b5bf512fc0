"""Skills for other versions than those of the project at hand, as agents get them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import ListRootsResult, Root, RootsListChangedNotification
from pydantic import FileUrl

from skills_mcp.library.answers import Match
from skills_mcp.library.skill_library import LibraryView, SkillLibrary
from skills_mcp.routing.decision import Ambiguous, answered_candidates
from tests.clients import ask, connected
from tests.packages import write_package
from tests.support import open_library, write, write_skill

LINE = "Written for react >=18,<19; this project has 19.1.0 (package-lock.json)."
ALGORITHMS = pytest.mark.parametrize("algorithm", ["keyword", "ranked"])


def react(versions: str) -> list[dict[str, str]]:
    return [{"package": "npm:react", "versions": versions}]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    packages = {"node_modules/react": {"version": "19.1.0"}}
    write(tmp_path / "project" / "package-lock.json", json.dumps({"packages": packages}))
    return tmp_path / "project"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "skills"


def serve(root: Path, project: Path | None, **settings: Any) -> SkillLibrary:
    library = open_library(root, settings=settings)
    library.open_project({}, project)
    return library


def served(view: LibraryView, task: str, **given: Any) -> Match:
    found = view.route(task, **given)
    assert isinstance(found, Match), found
    return found


async def test_a_reply_begins_with_the_misfit_and_has_it_alone(root: Path, project: Path) -> None:
    write_skill(root, "hooks.md", keywords=["hooks"], applies_to=react(">=18,<19"))
    write_skill(root, "other.md", keywords=["forms"], applies_to=react(">=19"))
    library = serve(root, project, toolsets=["core", "packages"])

    async with connected(library) as client:
        found = await ask(client, "get_skill", context="hooks")
        loaded = await ask(client, "load_skill", skill_name="hooks")
        fitting = await ask(client, "get_skill", context="forms")
        known = await ask(client, "get_skill", context="hooks", known_digest=found["digest"])
        files = await ask(client, "find_skill_files", skill_name="hooks")

    assert found["content"].startswith(f"{LINE}\n\n")
    assert loaded["instructions"].startswith(f"{LINE}\n\n")
    assert found["applies"] == loaded["applies"] == known["applies"] == LINE
    assert known["unchanged"]
    assert found["digest"] == loaded["digest"] == files["digest"]
    assert "applies" not in fitting
    assert "Written for" not in fitting["content"]


async def test_without_the_field_a_project_changes_no_byte(root: Path, project: Path) -> None:
    write_skill(root, "hooks.md", keywords=["hooks"])
    write_skill(root, "other.md", keywords=["hooks"])
    write_package(root / "packages", "forms", description="Fill in forms")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_skill", {"context": "hooks", "explain": True}),
        ("get_skill", {"context": "hooks", "skill_path": "hooks"}),
        ("load_skill", {"skill_name": "forms"}),
    ]
    replies = []
    for folder in (project, None):
        async with connected(serve(root, folder, toolsets=["core", "packages"])) as client:
            answers = [await client.call_tool(tool, given) for tool, given in calls]
            replies.append([answer.model_dump_json() for answer in answers])

    assert replies[0] == replies[1]


def test_without_a_project_nothing_is_compared(root: Path) -> None:
    write_skill(root, "hooks.md", keywords=["hooks"], applies_to=react(">=18,<19"))

    found = served(serve(root, None).view(), "hooks")

    assert not found.applies
    assert "Written for" not in found.content


def test_inherited_and_required_texts_are_compared_too(root: Path, project: Path) -> None:
    write_skill(root, "ui/_index.md", keywords=["ui"], applies_to=react(">=18,<19"))
    write_skill(root, "ui/hooks.md", keywords=["hooks"])
    write_skill(root, "forms.md", keywords=["forms"], requires=["ui/hooks"])
    view = serve(root, project).view()

    assert served(view, "hooks").applies == LINE
    assert served(view, "forms").applies == LINE


def test_a_package_says_it_in_its_metadata(root: Path, project: Path) -> None:
    metadata = {"applies_to": "npm:react >=18,<19"}
    write_package(root, "hooks", description="Write hooks", metadata=metadata)

    assert served(serve(root, project).view(), "hooks").applies == LINE


@ALGORITHMS
def test_of_skills_too_close_to_call_the_one_that_fits_wins(
    root: Path, project: Path, algorithm: str
) -> None:
    for name, versions in (("one", ">=18,<19"), ("two", ">=19")):
        write_skill(root, f"{name}.md", keywords=["hooks"], applies_to=react(versions))
    library = serve(root, project, matching={"algorithm": algorithm})
    view = library.view()

    assert served(view, "hooks").skill.path == "two"
    assert isinstance(replace(view, project=None).route("hooks"), Ambiguous)
    explanation = view.explain("hooks", "one")
    assert [found.skill.path for found in answered_candidates(explanation.decision)] == ["two"]
    assert f"one is left out: {LINE}" in explanation.notes
    assert served(view, "hooks", skill_path="one").applies == LINE


@ALGORITHMS
def test_the_one_that_fits_wins_over_more_skills_than_are_listed(
    root: Path, project: Path, algorithm: str
) -> None:
    for version in range(14, 21):
        fitting = react(f"^{version}")
        write_skill(root, f"react-{version}.md", keywords=["hooks"], applies_to=fitting)
    view = serve(root, project, matching={"algorithm": algorithm}).view()

    assert served(view, "hooks").skill.path == "react-19"


def test_a_misfit_that_is_less_close_than_those_that_fit_is_named(
    root: Path, project: Path
) -> None:
    write_skill(root, "old.md", keywords=["hooks"], applies_to=react("^17"))
    for name in ("new", "newest"):
        write_skill(root, f"{name}.md", keywords=["hooks"], applies_to=react("^19"))
    write_skill(root, "far.md", keywords=["hooks", "state"], applies_to=react(">=18,<19"))
    view = serve(root, project, matching={"algorithm": "keyword"}).view()

    found = view.decide("hooks")

    named = {each.skill.path: each.applies for each in answered_candidates(found)}
    assert named == {"new": "", "newest": "", "far": LINE}


async def test_where_none_is_known_to_fit_the_candidates_name_the_misfit(
    root: Path, project: Path
) -> None:
    write_skill(root, "one.md", keywords=["hooks"], applies_to=react(">=18,<19"))
    write_skill(root, "two.md", keywords=["hooks"])

    async with connected(serve(root, project)) as client:
        reply = await ask(client, "get_skill", context="hooks")

    misfits = {found["skill_path"]: found.get("applies") for found in reply["candidates"]}
    assert misfits == {"one": LINE, "two": None}


def test_each_window_has_a_project_of_its_own(root: Path, project: Path) -> None:
    write_skill(root, "hooks.md", keywords=["hooks"], applies_to=react(">=18,<19"))
    library = open_library(root)

    windows = [library.for_window({}, folder) for folder in (project, project.parent, None)]
    named = [
        library.for_window({"CLAUDE_PROJECT_DIR": name}, project.parent)
        for name in (str(project), project.name)
    ]

    found = [served(window.view(), "hooks").applies for window in (*windows, *named, library)]
    assert found == [LINE, "", "", LINE, LINE, ""]


@pytest.mark.parametrize("started_in, line", [("nowhere", LINE), ("other", "")])
async def test_the_first_root_is_the_project_where_the_server_was_started_outside_of_one(
    root: Path, project: Path, started_in: str, line: str
) -> None:
    write_skill(root, "hooks.md", keywords=["hooks"], applies_to=react(">=18,<19"))
    write(project.parent / "other" / "package.json", "{}")
    asked: list[str] = []

    async def list_roots(_: object) -> ListRootsResult:
        asked.append("roots")
        return ListRootsResult(roots=[Root(uri=FileUrl(project.as_uri()))])

    library = serve(root, project.parent / started_in)
    async with connected(library, "legacy", list_roots_callback=list_roots) as client:
        replies = [await ask(client, "get_skill", context="hooks") for _ in range(2)]

    assert [reply.get("applies", "") for reply in replies] == [line] * 2
    assert asked == (["roots"] if line else [])


async def test_another_first_root_is_another_project(root: Path, project: Path) -> None:
    write_skill(root, "hooks.md", keywords=["hooks"], applies_to=react(">=18,<19"))
    other = project.parent / "other"
    write(other / "package.json", json.dumps({"dependencies": {"react": "^18.3.0"}}))
    folders = [project, other]

    async def list_roots(_: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(folders[0].as_uri()))])

    library = serve(root, project.parent / "nowhere")
    async with connected(library, "legacy", list_roots_callback=list_roots) as client:
        before = await ask(client, "get_skill", context="hooks")
        del folders[0]
        await client.session.send_notification(RootsListChangedNotification())
        after = await ask(client, "get_skill", context="hooks")

    assert [reply.get("applies", "") for reply in (before, after)] == [LINE, ""]


async def test_calls_at_once_wait_for_the_roots(root: Path, project: Path) -> None:
    write_skill(root, "hooks.md", keywords=["hooks"], applies_to=react(">=18,<19"))
    asked, waited = anyio.Event(), anyio.Event()

    async def list_roots(_: object) -> ListRootsResult:
        asked.set()
        await waited.wait()
        return ListRootsResult(roots=[Root(uri=FileUrl(project.as_uri()))])

    replies: list[dict[str, Any]] = []

    async def call() -> None:
        replies.append(await ask(client, "get_skill", context="hooks"))

    library = serve(root, project.parent / "nowhere")
    async with (
        connected(library, "legacy", list_roots_callback=list_roots) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(call)
        await asked.wait()
        tasks.start_soon(call)
        for _ in range(2):
            await client.list_tools()  # so that the second call has arrived
        waited.set()

    assert [reply.get("applies", "") for reply in replies] == [LINE, LINE]


def test_the_problem_of_a_wrong_entry_is_named(root: Path) -> None:
    write_skill(root, "hooks.md", keywords=["hooks"], applies_to=react("the newest"))

    view = serve(root, None).view()

    assert [problem.rule for problem in view.snapshot.problems] == ["applies-to"]
    assert served(view, "hooks").skill.applies_to == ()
