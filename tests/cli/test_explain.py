import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.packages import write_package, write_pdf
from tests.support import SKILLS_CONTENT, write_skill

SOURCE = ("--skills-dir", str(SKILLS_CONTENT))


def test_an_answer_is_shown_with_its_words_and_its_rivals(invoke: Run) -> None:
    done = invoke("explain", "add login to the React app", *SOURCE)

    assert done.returncode == 0
    assert done.stdout.startswith("Match: ui/react/auth with score 0.4 (keyword algorithm)\n")
    assert "Ignored words: to, the" in done.stdout
    assert "Words of the task" in done.stdout
    assert "ui/react/_index is the runner-up, 0.199 behind" in done.stdout
    assert "+0.200" in done.stdout


def test_an_ambiguous_answer_names_the_candidates_and_what_would_settle_it(
    invoke: Run,
) -> None:
    done = invoke("explain", "add a React page", *SOURCE)

    assert "Ambiguous: ui/react/_index (0.201), ui/react" in done.stdout
    assert "less than ambiguity_threshold 0.1: a threshold of 0.001 or less" in done.stdout
    assert "ui/react/_index would win with the keyword 'page'" in done.stdout


def test_a_task_that_no_skill_serves_says_so(invoke: Run) -> None:
    done = invoke("explain", "bake bread", *SOURCE)

    assert done.stdout.startswith("No match (keyword algorithm)\n")
    assert "no skill has any of these words: 'bake', 'bread'" in done.stdout


def test_a_task_without_words_says_so(invoke: Run) -> None:
    done = invoke("explain", "how do I do it", *SOURCE)

    assert "no word of the task says anything" in done.stdout


def test_an_author_asks_why_not_mine(invoke: Run) -> None:
    wanted = ("--skill", "ui/react/forms")

    done = invoke("explain", "add login to the React app", *SOURCE, *wanted)

    assert "would win with" not in done.stdout  # of 'add' and 'app', none is a subject
    assert "if ui/react/forms is meant, add the task to its examples" in done.stdout
    assert 'if ui/react/auth is not for this, let its own end with "Not for' in done.stdout


def test_a_skill_that_is_not_there_is_named(invoke: Run) -> None:
    done = invoke("explain", "add login", *SOURCE, "--skill", "ui/react/aut")

    assert done.returncode == 1
    assert "ui/react/auth" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "algorithm, task, decision, best",
    [
        ("keyword", "add login to the React app", "single", "ui/react/auth"),
        ("ranked", "add login to the React app", "single", "ui/react/auth"),
        ("ranked", "add a React page", "ambiguous", "ui/react/_index"),
    ],
)
def test_programs_get_one_object(
    invoke: Run, algorithm: str, task: str, decision: str, best: str
) -> None:
    chosen = ("--algorithm", algorithm, "--json")

    done = invoke("explain", task, *SOURCE, *chosen)

    data = json.loads(done.stdout)
    assert list(data) == [
        *("decision", "answers", "algorithm", "words", "ignored", "candidates"),
        "notes",
    ]
    assert data["decision"] == decision
    assert data["answers"][0] == best
    assert data["algorithm"] == algorithm
    assert sum(word["weight"] for word in data["words"]) == pytest.approx(1, abs=0.01)
    for candidate in data["candidates"]:
        worths = [each["worth"] for each in candidate["evidence"]]
        assert sum(worths) == pytest.approx(candidate["score"], abs=0.002)


def test_words_that_a_package_lacks_are_named(invoke: Run, tmp_path: Path) -> None:
    write_package(tmp_path, "pdf", description="Fill in PDF forms.")
    write_package(tmp_path, "xlsx", description="Work with spreadsheets.")

    done = invoke(
        *("explain", "sign a pdf contract", "--skill", "xlsx"),
        *("--skills-dir", str(tmp_path)),
    )

    assert "(ranked algorithm)" in done.stdout
    assert "xlsx lacks " in done.stdout
    assert "'contract'" in done.stdout


def test_what_looks_like_markup_is_printed_as_it_is(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, "a[b].md", keywords=["login"])

    done = invoke("explain", "[red]login[/]", "--skills-dir", str(tmp_path))

    assert done.returncode == 0
    assert "a[b]" in done.stdout


def test_a_skill_for_users_alone_is_explained_by_what_its_author_has_written(
    invoke: Run, tmp_path: Path
) -> None:
    hidden: dict[str, Any] = {"disable-model-invocation": True}
    write_pdf(tmp_path, **hidden)

    done = invoke("explain", "fill a form", "--skill", "pdf", "--skills-dir", str(tmp_path))

    assert "disable-model-invocation" in done.stdout


def test_a_skill_is_explained_by_its_name(invoke: Run, tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/react/forms.md", keywords=["form"])

    done = invoke("explain", "bake bread", "--skill", "forms", "--skills-dir", str(tmp_path))

    assert done.returncode == 0
    assert "ui/react/forms" in done.stdout
