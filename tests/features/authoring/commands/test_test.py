import json
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.packages import write_package
from tests.support import SKILLS_CONTENT, Upstream, git, skill_text, write, write_skill

GOOD = {"query": "add login to the React app", "expect": "ui/react/auth"}
WRONG = {"query": "add login to the React app", "expect": "api/errors"}
UNSERVED = {"query": "bake bread", "expect": None}
OPEN = {"query": "add a React page", "expect": "ui/react/auth"}


def prompts(folder: Path, *entries: object, name: str = "prompts.jsonl") -> str:
    text = "\n".join(e if isinstance(e, str) else json.dumps(e) for e in entries)
    return str(write(folder / name, text))


@pytest.fixture
def try_ours(invoke: Run, tmp_path: Path) -> Any:
    """Try prompts on the content of the fixtures; return code, output and errors."""

    def try_ours(*entries: object, options: tuple[str, ...] = ()) -> Any:
        file = prompts(tmp_path, *entries)
        return invoke("test", file, "--skills-dir", str(SKILLS_CONTENT), *options)

    return try_ours


def test_prompts_that_find_their_skills_pass(try_ours: Any) -> None:
    done = try_ours(GOOD, UNSERVED, OPEN)

    assert done.returncode == 0
    assert done.stdout == (
        "Ambiguous, with the right one: 'add a React page' gets "
        "ui/react/_index, ui/react/auth, ui/react/data-fetching\n"
        "3 prompts: 3 right, 0 wrong; accuracy 0.500, among the first five 1.000; "
        "1 single, 1 ambiguous, 1 without a match; keyword algorithm, 27 skills\n"
    )
    assert done.stderr == ""


def test_what_is_wrong_stands_in_a_table_with_the_reason(try_ours: Any) -> None:
    done = try_ours(GOOD, WRONG, {"query": "React login", "expect": None})

    assert done.returncode == 1
    assert done.stdout.count("add login to the React app") == 1
    assert "no word of the prompt speaks for api/errors" in done.stdout
    assert "is enough (min_score)" in done.stdout
    assert "no skill" in done.stdout
    assert "3 prompts: 1 right, 2 wrong" in done.stdout


def test_a_long_prompt_is_shortened_in_the_table(try_ours: Any) -> None:
    done = try_ours({"query": f"[red]{'long ' * 100}", "expect": "ui/react/auth"})

    assert "[red]long long" in done.stdout
    assert "…" in done.stdout
    assert "long " * 20 not in done.stdout


def test_a_table_ends_and_says_how_many_there_are(try_ours: Any) -> None:
    done = try_ours(*[WRONG] * 60)

    assert "and 10 more: see --json" in done.stdout


def test_programs_get_one_object(try_ours: Any) -> None:
    done = try_ours(GOOD, WRONG, UNSERVED, OPEN, options=("--json",))

    data = json.loads(done.stdout)
    assert done.returncode == 1
    assert list(data) == [
        *("queries", "served", "unserved", "accuracy_at_1", "hit_at_3", "hit_at_5"),
        *("mrr", "abstained_right", "kept", "in_answer", "shown"),
        *("single", "ambiguous", "no_match"),
        *("single_right", "p50_ms", "p99_ms", "algorithm", "skills", "failures"),
    ]
    assert (data["queries"], data["served"], data["unserved"]) == (4, 3, 1)
    assert (data["accuracy_at_1"], data["kept"]) == (0.3333, 0.6667)
    assert (data["abstained_right"], data["algorithm"]) == (1.0, "keyword")
    assert data["skills"] == 27
    [failure] = data["failures"]
    assert failure == {
        "query": WRONG["query"],
        "expect": ["api/errors"],
        "avoid": None,
        "got": ["ui/react/auth"],
        "decision": "single",
        "score": 0.4,
        "why": "no word of the prompt speaks for api/errors",
        "origin": "prompts.jsonl:2",
    }


def test_programs_see_that_no_skill_was_expected(try_ours: Any) -> None:
    found = {"query": "React login", "expect": None}

    done = try_ours(found, options=("--json",))

    data = json.loads(done.stdout)
    assert (data["accuracy_at_1"], data["abstained_right"]) == (None, 0.0)
    assert data["failures"][0]["expect"] is None


def test_an_ambiguous_answer_fails_only_strictly(try_ours: Any) -> None:
    allowed = {**OPEN, "ambiguous": True}

    assert try_ours(OPEN).returncode == 0
    assert try_ours(OPEN, options=("--strict",)).returncode == 1
    assert try_ours(allowed, options=("--strict",)).returncode == 0


@pytest.mark.parametrize("least, code", [("0.5", 0), ("0.51", 1)])
def test_a_large_set_passes_by_its_accuracy(try_ours: Any, least: str, code: int) -> None:
    done = try_ours(GOOD, WRONG, options=("--min-accuracy", least))

    assert done.returncode == code
    assert ("The accuracy is below 0.51" in done.stdout) is bool(code)


def test_an_accuracy_of_nothing_is_wrong_usage(try_ours: Any) -> None:
    done = try_ours(UNSERVED, options=("--min-accuracy", "0.5"))

    assert done.returncode == 2
    assert "no prompt expects a skill" in done.stderr


@pytest.mark.parametrize("algorithm", ["keyword", "ranked"])
def test_an_algorithm_can_be_chosen(try_ours: Any, algorithm: str) -> None:
    done = try_ours(GOOD, options=("--json", "--algorithm", algorithm))

    assert json.loads(done.stdout)["algorithm"] == algorithm


def test_a_prompt_is_routed_with_the_settings_of_the_content(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path / "c" / "skills", "a.md", keywords=["react", "x"])
    write(tmp_path / "c" / "config.yaml", "matching: {min_score: 0.6}\n")
    file = prompts(tmp_path, {"query": "react", "expect": "a"})

    done = invoke("test", file, "--skills-dir", str(tmp_path / "c"))

    assert done.returncode == 1
    assert "it scores 0.5, below min_score 0.6" in done.stdout


# --- wrong prompts --------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_everything_that_is_wrong_with_the_prompts_is_said(
    try_ours: Any, options: tuple[str, ...]
) -> None:
    done = try_ours("{", {"query": "x"}, options=options)

    assert done.returncode == 2
    assert "prompts.jsonl:1: is not JSON" in done.stderr
    assert "prompts.jsonl:2: expect is missing" in done.stderr
    if options:
        errors = json.loads(done.stdout)["errors"]
        assert [each["origin"] for each in errors] == [*("prompts.jsonl:1", "prompts.jsonl:2")]
    else:
        assert done.stdout == ""


def test_a_skill_that_does_not_exist_fails_its_prompt_alone(try_ours: Any) -> None:
    done = try_ours({"query": "x", "expect": "ui/react/aut"}, options=("--json",))

    [failure] = json.loads(done.stdout)["failures"]
    assert done.returncode == 1
    assert "there is no skill 'ui/react/aut': did you mean" in failure["why"]


def test_a_file_that_is_not_there_is_wrong_usage(invoke: Run) -> None:
    done = invoke("test", "missing.jsonl", "--skills-dir", str(SKILLS_CONTENT))

    assert done.returncode == 2
    assert "missing.jsonl" in done.stderr


def test_a_wrong_file_is_refused_before_anything_is_synced(invoke: Run, tmp_path: Path) -> None:
    file = prompts(tmp_path, "{")

    done = invoke("test", file, "--repo", f"file://{tmp_path}/nothing.git")

    assert done.returncode == 2


# --- examples of the skills -----------------------------------------------------


def test_without_a_file_the_examples_of_the_skills_are_tried(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, "a.md", keywords=["login"], examples=["login"])
    write_package(tmp_path, "pdf", metadata={"examples": "pdf forms\nbake"})

    done = invoke("test", "--skills-dir", str(tmp_path), "--json")

    data = json.loads(done.stdout)
    assert (data["queries"], data["algorithm"]) == (3, "mixed")
    assert [each["query"] for each in data["failures"]] == ["bake"]
    assert data["failures"][0]["origin"] == "pdf/SKILL.md"


def test_examples_are_tried_beside_a_file_unless_they_are_left_out(
    invoke: Run, tmp_path: Path
) -> None:
    write_skill(tmp_path / "s", "a.md", keywords=["login"], examples=["add login"])
    file = prompts(tmp_path, {"query": "login", "expect": "a"})
    source = ("--skills-dir", str(tmp_path / "s"), "--json")

    both = invoke("test", file, *source)
    one = invoke("test", file, *source, "--no-examples")

    assert json.loads(both.stdout)["queries"] == 2
    assert json.loads(one.stdout)["queries"] == 1


def test_without_any_example_it_says_how_to_add_one_and_passes(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, "a.md")

    done = invoke("test", "--skills-dir", str(tmp_path))
    data = json.loads(invoke("test", "--skills-dir", str(tmp_path), "--json").stdout)

    assert done.returncode == 0
    assert "No skill has an example task yet" in done.stdout
    assert "examples:\n    - add login" in done.stdout
    assert data["queries"] == 0


def test_nothing_to_test_by_choice_is_wrong_usage(invoke: Run) -> None:
    done = invoke("test", "--skills-dir", str(SKILLS_CONTENT), "--no-examples")

    assert done.returncode == 2
    assert "There is no prompt to test. Name a FILE" in done.stderr


# --- tasks of other programs ------------------------------------------------------

EVALS = {
    "skill_name": "pdf",
    "evals": [
        {"id": 1, "prompt": "fill in a pdf form", "expected_output": "A filled form"},
        {"id": 2, "prompt": "bake bread", "files": []},
    ],
}
TRIGGERS = [
    {"query": "fill in this pdf form", "should_trigger": True},
    {"query": "draw a chart of the sales", "should_trigger": False},
    {"query": "sign the pdf form", "should_trigger": False},
]


@pytest.fixture
def with_evals(tmp_path: Path) -> Path:
    """Two packages; one has both files, with two wrong tasks."""
    files = {
        "evals/evals.json": json.dumps(EVALS),
        "evals/trigger_eval.json": json.dumps(TRIGGERS),
    }
    write_package(tmp_path / "s", "pdf", files)
    write_package(tmp_path / "s", "chart", description="Draw charts of numbers.")
    return tmp_path / "s"


def test_the_evals_of_a_package_are_tasks_for_it(invoke: Run, with_evals: Path) -> None:
    done = invoke("test", "--skills-dir", str(with_evals), "--json")

    data = json.loads(done.stdout)
    assert done.returncode == 1
    assert (data["queries"], data["served"], data["unserved"]) == (5, 3, 0)
    unfound, avoided = data["failures"]
    assert (unfound["query"], unfound["expect"]) == ("bake bread", ["pdf"])
    assert unfound["origin"] == "pdf/evals/evals.json, entry 2"
    assert (avoided["query"], avoided["avoid"]) == ("sign the pdf form", ["pdf"])
    assert "is enough (min_score)" in avoided["why"]


@pytest.mark.parametrize("name", ["evals.json", "trigger_eval.json"])
def test_such_a_file_can_be_named(invoke: Run, with_evals: Path, name: str) -> None:
    file = str(with_evals / "pdf" / "evals" / name)
    source = ("--skills-dir", str(with_evals), "--no-examples")

    done = invoke("test", file, *source)

    assert done.returncode == 1
    assert " right, 1 wrong" in done.stdout


def test_a_file_that_is_no_list_of_tasks_is_left_out_and_told(invoke: Run, tmp_path: Path) -> None:
    files = {"evals/evals.json": '{"runs": 3}', "evals/trigger_eval.json": "{"}
    write_package(tmp_path, "pdf", files)

    done = invoke("test", "--skills-dir", str(tmp_path))

    assert done.returncode == 0
    assert "left out: pdf/evals/evals.json: has no list of tasks" in done.stderr
    assert "left out: pdf/evals/trigger_eval.json: is not JSON" in done.stderr


def test_wrong_tasks_in_a_file_that_is_named_are_wrong_usage(invoke: Run, tmp_path: Path) -> None:
    write_package(tmp_path, "pdf")
    entries = [{"query": "x", "should_trigger": "yes"}, {"id": 2}]
    file = write(tmp_path / "triggers.json", json.dumps(entries))

    done = invoke("test", str(file), "--skills-dir", str(tmp_path))

    assert done.returncode == 2
    assert "triggers.json, entry 1: should_trigger must be true" in done.stderr
    assert "triggers.json, entry 2: has no query or prompt" in done.stderr


def test_a_prompt_may_name_a_skill_to_avoid(try_ours: Any) -> None:
    avoid = {"query": "add login to the React app", "avoid": "ui/react/auth"}

    assert try_ours({**avoid, "query": "bake bread"}).returncode == 0
    assert "not ui/react/auth" in try_ours(avoid).stdout
    wrong = try_ours({**avoid, "avoid": "ui/react/aut"})
    assert wrong.returncode == 2
    assert "did you mean" in wrong.stderr


def test_an_ambiguous_answer_with_a_skill_to_avoid_fails_only_strictly(
    try_ours: Any,
) -> None:
    avoid = {"query": OPEN["query"], "avoid": "ui/react/auth"}

    assert try_ours(avoid).returncode == 0
    assert try_ours(avoid, options=("--strict",)).returncode == 1


# --- another commit -------------------------------------------------------------


@pytest.fixture
def moved(upstream: Upstream) -> Upstream:
    """A repository whose second commit takes a prompt from one skill to another."""
    upstream.commit({"skills/a.md": skill_text(keywords=["login", "react"])})
    upstream.commit({"skills/b.md": skill_text(keywords=["login"])})
    return upstream


PROMPTS = (
    {"query": "add login", "expect": "b"},
    {"query": "fix react login", "expect": "a", "ambiguous": True},
)


def test_prompts_that_got_another_skill_than_before_are_shown(
    invoke: Run, moved: Upstream, tmp_path: Path
) -> None:
    file = prompts(tmp_path, *PROMPTS)
    source = ("--skills-dir", str(moved.work))

    done = invoke("test", file, *source, "--baseline", "HEAD~1", "--json")
    shown = invoke("test", file, *source, "--baseline", "HEAD~1")
    same = invoke("test", file, *source, "--baseline", "HEAD")

    assert done.returncode == 0
    assert json.loads(done.stdout)["baseline"] == [
        {"query": "add login", "before": ["a"], "after": ["b"]},
        {"query": "fix react login", "before": ["a"], "after": ["a", "b"]},
    ]
    assert "Changed since HEAD~1" in shown.stdout
    assert "Every prompt matches the same skills as at HEAD." in same.stdout


@pytest.mark.parametrize("left_out", ["blob:none", "tree:0"])
@pytest.mark.parametrize("inside", ["", "skills"])
def test_a_clone_without_old_files_says_how_to_fetch_them(
    invoke: Run, upstream: Upstream, tmp_path: Path, left_out: str, inside: str
) -> None:
    git("config", "uploadpack.allowFilter", "true", cwd=upstream.bare)
    for text in ("Before", "After"):
        upstream.commit({"skills/a.md": skill_text(description=text)})
    clone = tmp_path / "partial clone"
    git("clone", "-q", f"--filter={left_out}", upstream.url, str(clone), cwd=tmp_path)
    line = ("test", "--baseline", "HEAD~1", "--skills-dir", str(clone / inside))

    refused = invoke(*line)
    command = shlex.split(refused.stderr.strip().partition("Fetch them once: ")[2])
    git(*command[1:], cwd=tmp_path)
    done = invoke(*line)

    assert refused.returncode == 4
    assert done.returncode == 0


def test_the_difference_is_markdown_for_a_comment(
    invoke: Run, moved: Upstream, tmp_path: Path
) -> None:
    task = {"query": "login @everyone | `now`", "expect": "a"}
    file = prompts(tmp_path, *PROMPTS, task)
    given = ("--skills-dir", str(moved.work), "--format", "markdown", "--baseline")

    done = invoke("test", file, *given, "HEAD~1")
    same = invoke("test", file, *given, "HEAD")

    assert done.returncode == 1
    assert done.stdout.startswith("### 3 tasks change their skill\n\n| Task | At `HEAD~1`")
    assert "| `add login` | `a` | `b` | **repaired** |" in done.stdout
    row = "| `` login @everyone \\| `now` `` | `a` | `b` | **now wrong** |"
    assert row in done.stdout
    assert "### 1 task finds a wrong skill" in done.stdout
    assert same.stdout.startswith("### Every task finds the same skills as at `HEAD`")


def test_a_folder_is_compared_with_another(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path / "before", "a.md", keywords=["login"])
    write_skill(tmp_path / "after", "b.md", keywords=["login"])
    file = prompts(tmp_path, {"query": "login", "expect": "b"})
    base = ("--baseline", str(tmp_path / "before"))

    done = invoke("test", file, "--skills-dir", str(tmp_path / "after"), *base, "--json")

    [change] = json.loads(done.stdout)["baseline"]
    assert (change["before"], change["after"]) == (["a"], ["b"])


def test_a_folder_that_is_new_has_no_answer_in_the_baseline(
    invoke: Run, moved: Upstream, tmp_path: Path
) -> None:
    moved.commit({"skills/new/c.md": skill_text(keywords=["login"])})
    new = {"query": "add login", "expect": "new/c", "within": "new"}
    file = prompts(tmp_path, new, {"query": "fix react", "expect": "a"})
    source = ("--skills-dir", str(moved.work))

    done = invoke("test", file, *source, "--baseline", "HEAD~1", "--json")

    assert done.returncode == 0
    assert json.loads(done.stdout)["baseline"] == [
        {"query": "add login", "before": [], "after": ["new/c"]}
    ]


def test_signs_in_a_baseline_are_no_markup(invoke: Run, moved: Upstream, tmp_path: Path) -> None:
    file = prompts(tmp_path, *PROMPTS)
    ref = "HEAD^{/[/red]}"  # the newest commit whose message has one of these letters
    git("commit", "-q", "--allow-empty", "-m", "red", cwd=moved.work)

    done = invoke("test", file, "--skills-dir", str(moved.work), "--baseline", ref)

    assert f"Every prompt matches the same skills as at {ref}." in done.stdout


def test_a_baseline_leaves_nothing_behind(
    invoke: Run, moved: Upstream, tmp_path: Path, home: Path
) -> None:
    file = prompts(tmp_path, PROMPTS[0])
    source = ("--skills-dir", str(moved.work))
    invoke("test", file, *source)
    before = {path for path in (home / ".skills-mcp").rglob("*") if path.is_file()}

    invoke("test", file, *source, "--baseline", "HEAD~1")

    after = {path for path in (home / ".skills-mcp").rglob("*") if path.is_file()}
    assert after == before


def test_a_repository_is_compared_with_a_branch_a_tag_or_a_commit(
    invoke: Run, moved: Upstream, tmp_path: Path
) -> None:
    file = prompts(tmp_path, PROMPTS[0])
    old = git("rev-parse", "HEAD~1", cwd=moved.work)
    git("tag", "v1", old, cwd=moved.work)
    git("push", "-q", "origin", "v1", f"{old}:refs/heads/old", cwd=moved.work)

    for ref in ("v1", "old", old):
        done = invoke("test", file, "--repo", moved.url, "--json", "--baseline", ref)
        [change] = json.loads(done.stdout)["baseline"]
        assert (change["before"], change["after"]) == (["a"], ["b"])


def test_a_commit_that_is_not_there_is_said(invoke: Run, moved: Upstream, tmp_path: Path) -> None:
    file = prompts(tmp_path, PROMPTS[0])

    local = invoke("test", file, "--skills-dir", str(moved.work), "--baseline", "nowhere")
    remote = invoke("test", file, "--repo", moved.url, "--baseline", "nowhere")

    assert (local.returncode, remote.returncode) == (4, 4)
    assert "has no commit 'nowhere'" in local.stderr
    assert "nowhere: " in remote.stderr
    assert "no such tag or commit" in remote.stderr


def test_a_baseline_needs_one_source(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path / "s", "a.md", keywords=["login"])
    text = f"sources: [{{folder: {tmp_path / 's'}}}]\n"
    config = str(write(tmp_path / "config.yaml", text))
    file = prompts(tmp_path, {"query": "login", "expect": "a"})

    done = invoke("test", file, "--config", config, "--baseline", "HEAD")

    assert done.returncode == 2
    assert "--baseline needs --skills-dir or --repo" in done.stderr


SERVED: list[dict[str, Any]] = [
    {"query": f"login and logout {n}", "expect": "auth"} for n in range(20)
]
JUDGED: list[dict[str, Any]] = [
    {"query": f"the judge began session {n}", "expect": None} for n in range(10)
]
BAKED: list[dict[str, Any]] = [{"query": f"bake bread {n}", "avoid": "auth"} for n in range(10)]


@pytest.fixture
def suggest(invoke: Run, tmp_path: Path) -> Any:
    """Ask for thresholds of a library with one rule file of four keywords."""
    write_skill(tmp_path / "skills", "auth.md", keywords=["login", "logout", "session", "oauth"])

    def suggest(*entries: object, options: tuple[str, ...] = ()) -> Any:
        file = prompts(tmp_path, *entries)
        folder = str(tmp_path / "skills")
        return invoke("test", file, "--suggest", "--skills-dir", folder, *options)

    return suggest


def test_a_threshold_is_suggested_from_thirty_tasks_with_what_each_value_costs(
    suggest: Any,
) -> None:
    text = suggest(*SERVED, *JUDGED).stdout
    markdown = suggest(*SERVED, *JUDGED, options=("--format", "markdown")).stdout
    data = json.loads(suggest(*SERVED, *JUDGED, options=("--json",)).stdout)

    assert "  matching:\n    min_score: 0.3\n" in text
    assert "Keep ambiguity_threshold 0.1" in text
    assert "| 0.3 | 30 | 0 | 0 | 0 | 0 | 0 | 0.0 | suggested |\n" in markdown
    found, _ = data["suggestions"]["settings"]
    assert (found["setting"], found["current"], found["suggested"]) == ("min_score", 0.2, 0.3)
    by_value = {each["value"]: each for each in found["tried"]}
    assert (by_value[0.2]["wrong_rules"], by_value[0.2]["cost"]) == (10, 30)
    assert (by_value[0.5]["right"], by_value[0.5]["cost"]) == (30, 0)


@pytest.mark.parametrize(
    "entries, message",
    [
        (SERVED, "No threshold is suggested: 10 tasks are missing"),
        ([*SERVED, *SERVED, *JUDGED[1:]], "No min_score is suggested: 1 task is missing with"),
        ([*SERVED, *BAKED[1:], JUDGED[0]], "Keep min_score 0.2: no other value is surely better"),
    ],
    ids=["too few tasks", "too few to refuse", "one task may be luck"],
)
def test_too_little_suggests_no_threshold_and_says_why(
    suggest: Any, entries: list[dict[str, Any]], message: str
) -> None:
    distinct = [{**e, "query": f"{e['query']} {n}"} for n, e in enumerate(entries)]

    done = suggest(*distinct)

    assert message in done.stdout
    assert "matching:" not in done.stdout


def test_an_example_of_a_replaced_skill_is_right_with_its_successor(
    invoke: Run, tmp_path: Path
) -> None:
    upstream = Upstream.create(tmp_path)
    kafka = partial(skill_text, keywords=["event", "kafka"], examples=["publish an order event"])
    upstream.commit({"kafka.md": kafka()})
    upstream.commit(
        {
            "kafka.md": kafka(status="deprecated", replaced_by="streams"),
            "streams.md": skill_text(keywords=["event", "stream"]),
        }
    )

    done = invoke(
        *("test", "--skills-dir", str(upstream.work), "--baseline", "HEAD~1"),
        *("--format", "markdown"),
    )

    assert done.returncode == 0
    assert "| `kafka` | `streams` | right before and now |" in done.stdout
