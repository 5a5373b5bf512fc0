"""`report --suggest`, as a platform team runs it before a review."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.events.received_event import parse_received
from tests.cli.conftest import Run
from tests.content.git_server import serving
from tests.features.report.happenings import judged, served, torn
from tests.packages import write_package
from tests.support import Upstream, git, skill_text, write, write_skill

NOVEMBER = ("--since", "2026-11-01", "--until", "2026-11-30")
TASKS = ("auth at the kiosk", "auth of a kiosk in Bern")
TOKEN = "ghp_" + "1aB2cD3eF4gH5iJ6kL7mN8oP9qR0sT1uV2wX"


def picks(
    tasks: Iterable[str] = TASKS, skill: str = "web", *others: str, **more: Any
) -> list[dict[str, Any]]:
    """Return events of a skill that was picked from a list, a task a day."""
    made = []
    for day, task in enumerate(tasks, 3):
        made.append(torn(task, skill, *(others or ("api",)), day=day, hour=9))
        pick = {"context": task, "was_ambiguous": True, "was_picked": True, **more}
        made.append(served(skill, day, hour=9.1, **pick))
    return made


def collect(folder: Path, events: Iterable[object]) -> tuple[str, ...]:
    lines = "".join(f"{json.dumps(each)}\n" for each in events)
    return "--from", str(write(folder / "events.jsonl", lines)), *NOVEMBER


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with two skills that share the one word of most tasks."""
    folder = tmp_path / "clone"
    write_skill(folder, "docs/skills/api.md", keywords=["auth", "api", "jwt"])
    write_skill(folder, "docs/skills/web.md", keywords=["auth", "login", "page"])
    git("init", "-q", cwd=folder)
    git("add", ".", cwd=folder)
    git("commit", "-q", "-m", "Skills", cwd=folder)
    return folder


def suggest(run: Run, clone: Path, *arguments: str) -> str:
    skills = clone / "docs/skills"
    done = run("report", "--suggest", "--skills-dir", str(skills), *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def command(clone: Path, tmp_path: Path, tasks: Iterable[str] = TASKS) -> list[str]:
    """Return the command line of a process of its own."""
    skills = ("--skills-dir", str(clone / "docs/skills"))
    words = ("-m", "skills_mcp", "report", "--suggest", *skills)
    return [sys.executable, *words, *collect(tmp_path, picks(tasks))]


def apply(folder: Path, printed: str) -> str:
    """Apply all that was printed, and return what changed."""
    patch = write(folder.parent / "suggestions.patch", printed)
    git("apply", str(patch), cwd=folder)
    return git("diff", "-U0", cwd=folder)


def test_what_is_printed_is_applied_by_git_and_passes_the_test(
    run: Run, clone: Path, tmp_path: Path
) -> None:
    printed = suggest(run, clone, *collect(tmp_path, picks()))
    before = git("status", "--porcelain", cwd=clone)

    changed = apply(clone, printed)

    assert before == ""
    added = [line for line in changed.splitlines() if line.startswith(("+", "-"))]
    assert added == [
        "--- a/docs/skills/web.md",
        "+++ b/docs/skills/web.md",
        "+- kiosk",
        "+examples:",
        "+  - auth at the kiosk",
        "+  - auth of a kiosk in Bern",
    ]
    tested = run("test", "--strict", "--skills-dir", str(clone / "docs/skills"))
    assert tested.returncode == 0
    assert "2 prompts: 2 right" in tested.stdout


def test_each_suggestion_comes_with_its_evidence_and_its_effect(
    invoke: Run, clone: Path, tmp_path: Path
) -> None:
    printed = suggest(invoke, clone, *collect(tmp_path, picks()))

    for said in (
        "2 tasks with a known answer, by 2 picks of 1 person",
        "  1. web: add the keyword kiosk\n",
        "     2 tasks, picked twice on 2 days by 1 person; better answers: 2\n",
        "     - auth at the kiosk\n",
        "  2. web: add the example task 'auth at the kiosk'\n",
        "No skill has an example task",
        "git apply suggestions.patch",
    ):
        assert said in printed
    assert "│ Recorded tasks with a known answer     │     2 │            0 │     2" in printed


def test_programs_get_one_object(invoke: Run, clone: Path, tmp_path: Path) -> None:
    printed = suggest(invoke, clone, "--json", *collect(tmp_path, picks()))

    data = json.loads(printed)
    assert data["suggestions"][0] == {
        "skill": "web",
        "kind": "keywords",
        "keywords": ["kiosk"],
        "clause": "",
        "tasks": [*TASKS],
        "picks": 2,
        "people": 1,
        "days": 2,
        "better": [*TASKS],
    }
    assert data["effect"]["picked"] == {
        "tasks": 2,
        "right_before": 0,
        "right_after": 2,
        "listed_before": 2,
        "listed_after": 0,
    }
    assert data["changes"][0] == {
        "task": TASKS[0],
        "expect": ["web"],
        "avoid": [],
        "before": ["api", "web"],
        "after": ["web"],
        "origin": "picked",
    }
    [source] = data["sources"]
    assert "+- kiosk\n" in apply(clone, source["diff"])


def test_a_task_that_looks_like_a_diff_is_none(run: Run, clone: Path, tmp_path: Path) -> None:
    tasks = [
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-auth kiosk",
        "diff --git a/x b/x\nauth: {kiosk} # '\"",
        "@@ -1 +1 @@ auth kiosk \x1b[31m",
    ]

    printed = suggest(run, clone, *collect(tmp_path, picks(tasks)))

    apply(clone, printed)
    assert "\x1b" not in printed
    assert git("diff", "--name-only", cwd=clone) == "docs/skills/web.md"
    shown = run("test", "--json", "--skills-dir", str(clone / "docs/skills"))
    assert json.loads(shown.stdout)["queries"] == 3


def test_a_suggestion_that_would_harm_an_example_is_left_out(
    invoke: Run, clone: Path, tmp_path: Path
) -> None:
    text = skill_text(keywords=["auth", "api", "jwt"], examples=["api for the kiosk"])
    write(clone / "docs/skills/api.md", text)

    printed = suggest(invoke, clone, *collect(tmp_path, picks()))

    assert "Nothing to change is suggested." in printed
    assert "because the task in brackets would get a worse answer" in printed
    assert "web: add the keyword kiosk (api for the kiosk)" in printed
    assert "diff --git" not in printed


def test_a_suggestion_may_not_take_the_skill_from_a_task_that_nobody_complained_of(
    invoke: Run, clone: Path, tmp_path: Path
) -> None:
    answered = served("api", 5, context="api for the kiosk")

    printed = suggest(invoke, clone, *collect(tmp_path, [*picks(), answered]))

    assert "web: add the keyword kiosk (api for the kiosk)" in printed


def test_bad_feedback_makes_a_pick_no_evidence(invoke: Run, clone: Path, tmp_path: Path) -> None:
    bad = judged("web", useful=False, day=3, hour=9.5)

    printed = suggest(invoke, clone, *collect(tmp_path, [*picks(), bad]))

    assert "Nothing to change is suggested." in printed


def test_a_task_that_a_skill_did_not_help_with_may_not_find_it(
    invoke: Run, clone: Path, tmp_path: Path
) -> None:
    useless = [
        served("web", 6, context="api of the kiosk", was_picked=True, hour=9),
        judged("web", useful=False, day=6, hour=9.5),
    ]

    printed = suggest(invoke, clone, *collect(tmp_path, [*picks(), *useless]))

    assert "web: add the keyword kiosk (api of the kiosk)" in printed


def test_where_agents_pick_both_skills_the_list_is_right(
    invoke: Run, clone: Path, tmp_path: Path
) -> None:
    events = [*picks(), *picks(TASKS, "api", "web", person="dev-bob")]

    printed = suggest(invoke, clone, *collect(tmp_path, events))

    assert "Every recorded task with a known answer gets that answer." in printed


@pytest.mark.parametrize("context", ["hmac-sha256:00", ""])
def test_tasks_that_cannot_be_read_are_said_with_what_to_set(
    invoke: Run, clone: Path, tmp_path: Path, context: str
) -> None:
    events = collect(tmp_path, picks([context, context]))

    printed = suggest(invoke, clone, *events)

    assert "2 of 2 picks cannot be read" in printed
    assert "Set analytics.context to redacted" in printed
    assert "- api and web: twice" in printed
    assert "diff --git" not in printed


@pytest.mark.parametrize(
    "settings, said",
    [
        ("{enabled: false}", "analytics:\n  enabled: true\n  context: redacted\n"),
        ("{enabled: true}", "Set analytics.context to redacted"),
    ],
)
def test_a_record_without_picks_says_what_to_set(
    invoke: Run, clone: Path, tmp_path: Path, settings: str, said: str
) -> None:
    file = write(tmp_path / "mine.yaml", f"analytics: {settings}")

    printed = suggest(invoke, clone, "--config", str(file))

    assert "No agent has picked a skill from a list" in printed
    assert said in printed


def test_a_machine_that_records_readable_tasks_gets_no_advice_on_that(
    invoke: Run, clone: Path, tmp_path: Path
) -> None:
    rules = "analytics: {enabled: true, context: redacted}"
    file = write(tmp_path / "mine.yaml", rules)

    printed = suggest(invoke, clone, "--config", str(file))

    assert "analytics" not in printed


def test_who_is_not_to_be_tracked_is_told_that_nothing_is_recorded(
    run: Run, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "1")

    assert "DO_NOT_TRACK is set here" in suggest(run, clone)


def test_tasks_of_a_skill_that_is_gone_are_left_out_and_named(
    invoke: Run, clone: Path, tmp_path: Path
) -> None:
    (clone / "docs/skills/web.md").unlink()

    printed = suggest(invoke, clone, *collect(tmp_path, picks()))

    assert "Left out: 2 tasks whose right skill is not served now: web." in printed
    assert f"skills-mcp tree --skills-dir {clone / 'docs/skills'} --problems" in printed
    assert "Nothing to change is suggested.\n" in printed


def test_the_next_step_names_where_to_run_it(invoke: Run, clone: Path, tmp_path: Path) -> None:
    printed = suggest(invoke, clone, *collect(tmp_path, picks()))

    assert f"read it, and run in {clone.resolve()}:\n" in printed
    assert "     git apply suggestions.patch\n" in printed
    assert "     skills-mcp test --skills-dir docs/skills\n" in printed


def test_two_folders_of_one_repository_have_one_diff(invoke: Run, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    for team in ("one", "two"):
        write_skill(clone, f"{team}/car.md", keywords=[team, "car"])
        write_skill(clone, f"{team}/bus.md", keywords=[team, "bus"])
    git("init", "-q", cwd=clone)
    sources = (f"{{folder: {clone / team}, mount: {team}}}" for team in ("one", "two"))
    settings = write(tmp_path / "mine.yaml", f"sources: [{', '.join(sources)}]")
    events = [
        *picks(("one barrier", "stuck barrier of one"), "one/car", "one/bus"),
        *picks(("two ramps", "two times the ramps"), "two/car", "two/bus"),
    ]

    options = ("--config", str(settings), *collect(tmp_path, events))
    printed = invoke("report", "--suggest", *options).stdout

    apply(clone, printed)
    assert "- barrier\n" in (clone / "one/car.md").read_text()
    assert "- ramps\n" in (clone / "two/car.md").read_text()


def test_a_source_without_suggestions_is_no_error(invoke: Run, clone: Path, tmp_path: Path) -> None:
    printed = suggest(invoke, clone, "--source", "web", *collect(tmp_path, []))

    assert "Nothing to change is suggested." in printed


@pytest.mark.parametrize(
    "tasks, said",
    [
        (TASKS, "3 suggestions. Read the output, then run git apply with it in "),
        ((), "Nothing to change is suggested. The output says why; it has no diff."),
    ],
)
def test_a_terminal_is_told_what_the_file_holds(
    clone: Path, tmp_path: Path, tasks: Sequence[str], said: str
) -> None:
    ours, theirs = pytest.importorskip("pty").openpty()

    with (tmp_path / "suggestions.patch").open("wb") as patch:
        subprocess.run(command(clone, tmp_path, tasks), check=True, stdout=patch, stderr=theirs)
    os.close(theirs)

    with os.fdopen(ours, "rb", buffering=0) as terminal:
        shown = b""
        while said.encode() not in shown:
            shown += terminal.read(65536)


def test_secrets_and_addresses_of_a_full_record_are_never_printed(
    invoke: Run, clone: Path, tmp_path: Path
) -> None:
    tasks = [
        f"auth at the kiosk with {TOKEN}",
        "auth of a slow kiosk for ada@example.com",
    ]

    printed = suggest(invoke, clone, *collect(tmp_path, picks(tasks)))

    assert "web: add the keyword kiosk" in printed
    assert TOKEN not in printed
    assert "ada@example.com" not in printed
    assert "add the example task" not in printed


def test_each_of_several_repositories_has_a_diff_of_its_own(
    invoke: Run, clone: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    write_skill(other, "car.md", keywords=["gate", "car"])
    write_skill(other, "bus.md", keywords=["gate", "bus"])
    git("init", "-q", cwd=other)
    settings = write(
        tmp_path / "mine.yaml",
        f"sources: [{{folder: {clone / 'docs/skills'}}}, {{folder: {other}, mount: team}}]",
    )
    tasks = "barrier at the gate", "gate with a stuck barrier"
    events = [*picks(), *picks(tasks, "team/car", "team/bus")]
    events_read = collect(tmp_path, events)
    options = ("report", "--suggest", "--config", str(settings), *events_read)

    both = invoke(*options).stdout
    one = invoke(*options, "--source", "team").stdout
    none = invoke(*options, "--source", "elsewhere")

    assert "The changes are of several repositories. Print the diff of one" in both
    assert "--source team" in both
    assert "diff --git" not in both
    assert "team/car: add the keyword barrier" in one
    patch = write(tmp_path / "suggestions.patch", one)
    git("apply", str(patch), cwd=other)
    assert "- barrier\n" in (other / "car.md").read_text()
    assert none.returncode == 2
    assert "Those with a diff" in none.stderr


def test_the_events_of_all_machines_are_read_from_their_database(
    invoke: Run, clone: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    store = open_event_store(url, tmp_path)
    store.store([parse_received(each) for each in picks()])
    store.close()

    printed = suggest(invoke, clone, "--database", url, *NOVEMBER)

    assert "web: add the keyword kiosk" in printed


def test_a_package_gets_keywords_where_the_standard_allows_them(run: Run, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    for name in ("customs-forms", "tax-forms"):
        write_package(clone / "docs/skills", name, description="Fill in forms.")
    git("init", "-q", cwd=clone)
    tasks = "stamp the forms", "a wet stamp on forms"
    events = collect(tmp_path, picks(tasks, "tax-forms", "customs-forms"))

    printed = suggest(run, clone, *events)

    apply(clone, printed)
    text = (clone / "docs/skills/tax-forms/SKILL.md").read_text()
    assert "metadata:\n  keywords: stamp\n  examples: |\n    " in text
    checked = run("validate", str(clone / "docs/skills/tax-forms"), "--json")
    errors = [each for each in json.loads(checked.stdout)["problems"]
              if each["rule"].startswith(("metadata", "unknown"))]  # fmt: skip
    assert errors == []


def test_line_ends_of_an_author_stay(clone: Path, tmp_path: Path) -> None:
    file = clone / "docs/skills/web.md"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))

    done = subprocess.run(command(clone, tmp_path), check=True, capture_output=True, env=os.environ)

    subprocess.run(["git", "apply", "-"], input=done.stdout, cwd=clone, check=True)
    assert b"- kiosk\r\n" in file.read_bytes()
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n")


def test_what_a_skill_holds_gives_no_orders_to_a_terminal(clone: Path, tmp_path: Path) -> None:
    file = clone / "docs/skills/web.md"
    head, _, body = file.read_text().partition("\n---\n")
    file.write_text(f"{head}\n---\n\x1b[31mRed\tink\n{body}")
    ours, theirs = pytest.importorskip("pty").openpty()

    subprocess.run(
        command(clone, tmp_path),
        check=True,
        stdout=theirs,
        env=os.environ | {"NO_COLOR": "1", "TERM": "dumb"},
    )
    os.close(theirs)

    shown = b""
    while b"\\x1b[31mRed\tink" not in shown:
        shown += os.read(ours, 65536)
    os.close(ours)
    assert b"\x1b[31m" not in shown


@pytest.mark.parametrize(
    "options, said",
    [
        (("--suggest", "--html", "page.html"), "--suggest and --html exclude"),
        (("--suggest", "--by", "group"), "--suggest and --by exclude"),
        (("--suggest", "--around", "c0ffee"), "--suggest and --around exclude"),
        (("--source", "team"), "--source needs --suggest"),
    ],
)
def test_options_of_the_tables_are_refused(
    invoke: Run, clone: Path, options: tuple[str, ...], said: str
) -> None:
    done = invoke("report", "--skills-dir", str(clone / "docs/skills"), *options)

    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_without_skills_nothing_can_be_suggested(invoke: Run, tmp_path: Path) -> None:
    done = invoke("report", "--suggest", *collect(tmp_path, picks()))

    assert done.returncode == 3
    assert "SKILLS_REPO" in done.stderr


def propose(
    invoke: Run, upstream: Upstream, events: tuple[str, ...], *more: str, url: str = ""
) -> str:
    address = url or upstream.url
    words = ("report", "--suggest", "--propose", "--repo", address, *events, *more)
    done = invoke(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def list_branches(upstream: Upstream) -> list[str]:
    listed = git("branch", "--format=%(refname:short)", cwd=upstream.bare).split()
    return [branch for branch in listed if branch.startswith("skills/suggest-")]


def test_a_suggestion_becomes_a_branch_with_its_effect_and_is_sent_once(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit(
        {
            "skills/api.md": skill_text(keywords=["auth", "api", "jwt"]),
            "skills/web.md": skill_text(keywords=["auth", "login", "page"]),
        }
    )
    events = collect(tmp_path, picks())

    said = propose(invoke, upstream, events)
    [branch] = list_branches(upstream)
    message = git("log", "-1", "--format=%B", branch, cwd=upstream.bare)
    text = git("show", f"{branch}:skills/web.md", cwd=upstream.bare)
    git("branch", "-D", branch, cwd=upstream.bare)  # it was declined
    again = propose(invoke, upstream, events)

    assert said == f"web: {branch}\n"
    assert "kiosk" in text
    assert "Keywords: kiosk" in message
    assert "- now found: auth at the kiosk" in message
    assert "2 tasks (picked): the right skill answered 0, and now 2" in message
    assert again.startswith("There is nothing new to propose")
    assert list_branches(upstream) == []


def test_a_word_that_changes_no_answer_becomes_a_clause_of_both_skills(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit(
        {
            "skills/config.yaml": "matching: {ambiguity_threshold: 1}\n",  # always a list
            "skills/api.md": skill_text(keywords=["auth", "api"], description="Calls"),
            "skills/web.md": skill_text(keywords=["auth", "login"], description="Pages."),
        }
    )
    events = collect(tmp_path, picks())

    said = propose(invoke, upstream, events)
    branches = {branch.split("-")[1]: branch for branch in list_branches(upstream)}
    messages = [
        git("log", "-1", "--format=%B", each, cwd=upstream.bare) for each in branches.values()
    ]
    texts = {
        name: git("show", f"{branch}:skills/{name}.md", cwd=upstream.bare)
        for name, branch in branches.items()
    }
    again = propose(invoke, upstream, events)

    assert said.count("\n") == 2
    assert "Calls. Not for kiosk (use web)." in texts["api"]
    assert "Pages. Use when the task is about kiosk." in texts["web"]
    assert all("- no answer changes" in message for message in messages)
    assert sorted(line for each in messages for line in each.splitlines() if "2 picks" in line) == [
        "- 2 picks of web on 2 days",
        "- 2 picks on 2 days",
    ]
    assert again.startswith("There is nothing new")


def test_a_machine_without_a_record_knows_branches_and_merged_proposals(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    keywords = ["auth", "login", "page"]
    api = {"skills/api.md": skill_text(keywords=["auth", "api", "jwt"])}
    upstream.commit({**api, "skills/web.md": skill_text(keywords=keywords)})
    events = collect(tmp_path, picks())
    git("config", "uploadpack.allowFilter", "true", cwd=upstream.bare)
    propose(invoke, upstream, events)
    [branch] = list_branches(upstream)
    upstream.commit({"skills/web.md": skill_text(keywords=[*keywords, "session"])})
    for record in tmp_path.rglob("proposals.json"):
        record.unlink()  # as on a runner of a pipeline
    with_branch = propose(invoke, upstream, events)
    assert not [*tmp_path.rglob("proposals.json")]
    git("fetch", "-q", "origin", branch, cwd=upstream.work)
    message = git("log", "-1", "--format=%B", "FETCH_HEAD", cwd=upstream.work)
    git("commit", "-q", "--allow-empty", "-m", message, cwd=upstream.work)
    git("push", "-q", "origin", "HEAD", cwd=upstream.work)
    git("branch", "-D", branch, cwd=upstream.bare)
    merged = propose(invoke, upstream, events)

    with serving(upstream.bare.parent) as server:
        over_http = propose(invoke, upstream, events, url=f"{server.url}/{upstream.bare.name}")

    assert with_branch == merged == over_http
    assert merged.startswith("There is nothing new to propose")
    assert list_branches(upstream) == []


def test_the_skills_of_a_folder_are_not_sent(invoke: Run, clone: Path, tmp_path: Path) -> None:
    skills = ("--skills-dir", str(clone / "docs/skills"), "--json")
    words = ("report", "--suggest", "--propose", *skills, *collect(tmp_path, picks()))

    [proposal] = json.loads(invoke(*words).stdout)["proposals"]
    [again] = json.loads(invoke(*words).stdout)["proposals"]

    assert proposal == again
    assert (proposal["skill"], proposal["review"]) == ("web", None)
    assert "apply the diff" in proposal["reason"]


def test_propose_goes_with_suggest_alone(invoke: Run) -> None:
    assert invoke("report", "--propose").returncode == 2
    assert invoke("report", "--suggest", "--propose", "--source", "x").returncode == 2


def test_a_skill_that_nobody_got_is_proposed_for_deprecation_once(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit(
        {
            "skills/web.md": skill_text(keywords=["login"]),
            "skills/old.md": skill_text(keywords=["fax"], examples=["send a fax"]),
        }
    )
    october = os.environ | {"GIT_COMMITTER_DATE": "2026-10-01T12:00:00Z"}
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    amend = ["git", *author, "commit", "-q", "--amend", "--no-edit"]
    subprocess.run(amend, cwd=upstream.work, env=october, check=True)
    upstream.commit({"skills/young.md": skill_text(keywords=["chat"])})
    git("push", "-q", "--force", "origin", "HEAD", cwd=upstream.work)
    every_day = collect(tmp_path, [served("web", day) for day in (1, 29)])
    late = collect(tmp_path / "late", [served("web", 9)])

    nothing = propose(invoke, upstream, late, "--unserved")
    said = propose(invoke, upstream, every_day, "--unserved")
    again = propose(invoke, upstream, every_day, "--unserved")

    [branch] = list_branches(upstream)
    message = git("log", "-1", "--format=%B", branch, cwd=upstream.bare)
    text = git("show", f"{branch}:skills/old.md", cwd=upstream.bare)
    assert said == f"old: {branch}\n"
    assert 'deprecated: "No agent got it from 2026-11-01 to 2026-11-30."' in text
    assert "Of 1 example task, " in message
    assert nothing == again
    assert invoke("report", "--suggest", "--unserved").returncode == 2
