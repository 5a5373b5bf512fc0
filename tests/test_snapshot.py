"""One revision of the content, ready to answer from."""

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skills_mcp.config import Config, Layer, Settings
from skills_mcp.content.source import Checkout
from skills_mcp.snapshot import Snapshot, log_news, take_snapshot
from tests.support import write, write_skill


def take(
    folder: Path,
    *layers: Layer,
    trusted: bool = False,
    revision: str | None = None,
) -> Snapshot:
    checkout = Checkout(folder, revision, datetime.now(UTC))
    return take_snapshot(checkout, Settings(layers), trusted=trusted)


@pytest.fixture
def content(tmp_path: Path) -> Path:
    folder = tmp_path / "content"
    write_skill(folder, "skills/_root.md", keywords=["general"])
    write_skill(folder, "skills/ui/react.md", keywords=["react"])
    return folder


@pytest.mark.spec("4.6")
def test_a_snapshot_holds_all_that_an_answer_needs(content: Path) -> None:
    snapshot = take(content, revision="c0ffee")

    assert [skill.path for skill in snapshot.index] == ["_root", "ui/react"]
    assert [found.skill.path for found in snapshot.matcher.score("react")] == [
        "ui/react"
    ]
    assert snapshot.config == Config()
    assert snapshot.problems == ()
    assert snapshot.checkout.revision == "c0ffee"


@pytest.mark.spec("4.6")
def test_a_snapshot_does_not_change_with_the_folder(content: Path) -> None:
    before = take(content)
    write_skill(content, "skills/ui/react.md", description="changed")
    write_skill(content, "skills/ui/vue.md")

    after = take(content)

    assert [skill.path for skill in before.index] == ["_root", "ui/react"]
    assert before.index.require("ui/react").description == "An example"
    assert after.index.require("ui/react").description == "changed"
    assert len(after.index) == 3


@pytest.mark.spec("11.3")
@pytest.mark.parametrize(
    "file, expected, reason",
    [
        ("skills/config.yaml", 0.5, "beside the skills, as 001 says"),
        ("config.yaml", 0.5, "at the top of the repository"),
        ("skills/ui/config.yaml", 0.2, "anywhere else it is just a file"),
    ],
)
def test_the_contents_own_settings_are_found(
    content: Path, file: str, expected: float, reason: str
) -> None:
    write(content / file, "matching: {min_score: 0.5}")

    assert take(content).config.matching.min_score == expected, reason


@pytest.mark.spec("11.3")
def test_the_settings_beside_the_skills_win_over_those_at_the_top(
    content: Path,
) -> None:
    write(content / "config.yaml", "matching: {min_score: 0.4}")
    write(content / "skills" / "config.yaml", "matching: {max_results: 5}")

    matching = take(content).config.matching

    assert matching.max_results == 5
    assert matching.min_score == 0.2


@pytest.mark.spec("11.3")
def test_the_operators_settings_win_over_the_contents(content: Path) -> None:
    write(content / "config.yaml", "matching: {min_score: 0.4, max_results: 5}")

    config = take(content, Layer("operator", {"matching": {"min_score": 0.9}})).config

    assert config.matching.min_score == 0.9
    assert config.matching.max_results == 5


@pytest.mark.spec("12.4")
@pytest.mark.parametrize("trusted", [True, False])
def test_only_trusted_content_configures_scripts(
    content: Path,
    trusted: bool,  # noqa: FBT001
) -> None:
    write(content / "config.yaml", "scripts: {timeout_seconds: 3600}")

    snapshot = take(content, trusted=trusted)

    assert snapshot.config.scripts.timeout_seconds == (3600 if trusted else 60)
    assert [problem.reason for problem in snapshot.problems] == (
        []
        if trusted
        else ["scripts is ignored: only the operator may set it (trust_content_config)"]
    )


@pytest.mark.spec("13")
@pytest.mark.parametrize(
    "text, reason",
    [
        ("matching: [", "cannot be read: did not find expected node content"),
        ("- a", "must hold `section: {key: value}` pairs"),
        ("a: !!bool perhaps", "cannot be read: "),
        ("[" * 60_000, "cannot be read: it is nested deeper"),
        ("foo.bar: 1", "unknown key foo.bar; allowed here: "),
        ("matching: {min_score: 7}", "matching.min_score: must be less than"),
    ],
)
def test_wrong_settings_of_the_content_stop_nothing(
    content: Path, text: str, reason: str
) -> None:
    write(content / "config.yaml", text)

    snapshot = take(content)

    assert snapshot.config == Config()
    assert len(snapshot.index) == 2
    [problem] = snapshot.problems
    assert (problem.file, problem.level) == ("config.yaml", "warning")
    assert problem.reason.startswith(reason)
    assert str(content) not in str(problem)


@pytest.mark.spec("12.1")
@pytest.mark.parametrize("target", ["secret.yaml", "folder", "absent"])
def test_settings_of_the_content_are_not_read_through_a_link(
    content: Path, tmp_path: Path, target: str
) -> None:
    write(tmp_path / "secret.yaml", "password: swordfish")
    (tmp_path / "folder").mkdir()
    (content / "config.yaml").symlink_to(tmp_path / target)

    snapshot = take(content)

    assert snapshot.config == Config()
    [problem] = snapshot.problems
    assert problem.reason == "There is no readable file 'config.yaml'"


def test_problems_of_settings_and_of_skills_are_told_together(content: Path) -> None:
    write(content / "config.yaml", "nonsense: 1")
    write(content / "skills" / "bad.md", "no frontmatter")

    found = [(problem.file, problem.level) for problem in take(content).problems]

    assert found == [("config.yaml", "warning"), ("bad.md", "error")]


def test_the_log_tells_each_problem_once(
    content: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write(content / "skills" / "bad.md", "no frontmatter")
    first = take(content, revision="c0ffee")
    write(content / "skills" / "worse.md", "no frontmatter")
    second = take(content, revision="decaf")

    log_news(first, None)
    log_news(second, first)

    lines = [record.message.partition(" (")[0] for record in caplog.records]
    assert lines == [
        "Serving 2 skills at c0ffee",
        "bad.md: has no frontmatter",
        "Serving 2 skills at decaf",
        "worse.md: has no frontmatter",
    ]


def test_the_log_of_a_folder_names_the_folder(
    content: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    log_news(take(content), None)

    assert caplog.messages == [f"Serving 2 skills at {content}"]


@pytest.mark.spec("3.1")
def test_a_category_beside_the_folder_of_the_skills_is_reported(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/hiring.md")
    write_skill(tmp_path, "ui/_index.md")
    write(tmp_path / "docs" / "guide.md", "no skill")

    snapshot = take_snapshot(
        Checkout(tmp_path, None, datetime.now(UTC)), Settings(), trusted=True
    )

    assert [skill.path for skill in snapshot.index] == ["hiring"]
    assert [(p.file, p.reason) for p in snapshot.problems] == [
        ("ui/_index.md", "is not served: the skills are in skills/")
    ]
