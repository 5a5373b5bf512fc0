"""One revision of the content, ready to answer from."""

import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config import Config, Settings
from skills_mcp.content.source import Content, SurveyedPart
from skills_mcp.errors import SkillDisabledError
from skills_mcp.routing.keyword_matcher import KeywordMatcher
from skills_mcp.routing.matcher import Matcher, MixedMatcher
from skills_mcp.routing.ranked_matcher import RankedMatcher
from skills_mcp.skills.inheritance import compose
from skills_mcp.skills.model import Problem
from skills_mcp.skills.source_layout import DEFAULT_SELECTION, RelativeRoot
from skills_mcp.snapshots.skill_snapshot import Snapshot, log_changes, take_snapshot
from tests.skills.contents import part_of, take
from tests.support import write, write_skill

PACKAGE = "---\nname: pdf\ndescription: Fills forms.\n---\nBody.\n"


def found(matcher: Matcher, task: str) -> list[str]:
    return sorted(candidate.skill.path for candidate in matcher.score(task))


def paths(snapshot: Snapshot) -> list[str]:
    return [skill.path for skill in snapshot.index]


def told(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    return [(each.file, each.level, each.rule) for each in snapshot.problems]


@pytest.fixture
def content(tmp_path: Path) -> Path:
    folder = tmp_path / "content"
    write_skill(folder, "skills/_root.md", keywords=["general"])
    write_skill(folder, "skills/ui/react.md", keywords=["react"])
    return folder


@pytest.mark.spec("4.6")
def test_a_snapshot_holds_all_that_an_answer_needs(content: Path) -> None:
    snapshot = take(part_of(content, revision="c0ffee"))

    assert [skill.path for skill in snapshot.index] == ["_root", "ui/react"]
    assert found(snapshot.matcher, "react") == ["ui/react"]
    assert snapshot.config == Config()
    assert snapshot.problems == ()
    [part] = snapshot.content.parts
    assert part.checkout.revision == "c0ffee"


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


def test_a_snapshot_of_which_nothing_was_edited_is_taken_once(content: Path) -> None:
    parts = Content((part_of(content),))
    served = take_snapshot(parts, Settings())

    assert take_snapshot(parts, Settings(), served.state, served=served) is served


def test_a_setting_that_was_edited_in_place_counts(content: Path) -> None:
    parts = Content((part_of(content),))
    served = take_snapshot(parts, Settings())
    write(content / "config.yaml", "matching: {min_score: 0.5}")

    snapshot = take_snapshot(parts, Settings(), served.state, served=served)

    assert snapshot.config.matching.min_score == 0.5


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

    config = take(content, settings={"matching": {"min_score": 0.9}}).config

    assert config.matching.min_score == 0.9
    assert config.matching.max_results == 5


def test_the_words_of_an_organisation_are_in_its_repository(content: Path) -> None:
    text = "---\nname: billing\ndescription: Issue invoices.\n---\nDo it.\n"
    write(content / "skills" / "billing" / "SKILL.md", text)

    def ask(text: str) -> list[str]:
        write(content / "skills" / "config.yaml", text)
        found = take(content).matcher.score("change cobalt")
        return [candidate.skill.path for candidate in found]

    assert "billing" in ask("routing: {synonyms: [cobalt > billing]}")
    assert "billing" not in ask("")


def test_a_key_that_steers_a_terminal_is_reported_without_doing_so(
    tmp_path: Path,
) -> None:
    write(tmp_path / "config.yaml", 'matching: {"\\e]0;gotcha\\a": 1}')
    write_skill(tmp_path, "skills/a.md")

    [problem] = take(part_of(tmp_path)).problems

    assert r"\x1b]0;gotcha\x07" in str(problem)
    assert str(problem).isprintable()


@pytest.mark.spec("12.4")
@pytest.mark.parametrize(
    "revision, settings, trusted",
    [
        (None, {}, True),
        ("c0ffee", {}, False),
        ("c0ffee", {"trust_content_config": True}, True),
    ],
    ids=["a folder", "a repository", "a trusted repository"],
)
def test_only_trusted_content_configures_scripts(
    content: Path,
    revision: str | None,
    settings: dict[str, Any],
    trusted: bool,  # noqa: FBT001
) -> None:
    write(content / "config.yaml", "scripts: {timeout_seconds: 3600}")

    snapshot = take(part_of(content, revision=revision), settings=settings)

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
        ("matching: {min_score: 7}", "matching.min_score: must be a number from"),
    ],
)
def test_wrong_settings_of_the_content_stop_nothing(content: Path, text: str, reason: str) -> None:
    write(content / "config.yaml", text)

    snapshot = take(content)

    assert snapshot.config == Config()
    assert len(snapshot.index) == 2
    [problem] = snapshot.problems
    assert told(snapshot) == [("config.yaml", "warning", "config")]
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

    assert told(take(content)) == [
        ("config.yaml", "warning", "config"),
        ("bad.md", "error", "no-frontmatter"),
    ]


def test_the_log_tells_each_problem_once(content: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    write(content / "skills" / "bad.md", "no frontmatter")
    first = take(part_of(content, revision="c0ffee"))
    write(content / "skills" / "worse.md", "no frontmatter")
    second = take(part_of(content, revision="decaf"))

    log_changes(first, None)
    log_changes(second, first)

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

    log_changes(take(content), None)

    assert caplog.messages == [f"Serving 2 skills at {content}"]


@pytest.mark.spec("3.1")
def test_a_category_beside_the_folder_of_the_skills_is_reported(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/hiring.md")
    write_skill(tmp_path, "ui/_index.md")
    write(tmp_path / "docs" / "guide.md", "no skill")

    snapshot = take(tmp_path)

    assert paths(snapshot) == ["hiring"]
    assert told(snapshot) == [(".", "warning", "outside-markdown")]
    [problem] = snapshot.problems
    assert problem.count == 2
    assert problem.reason.startswith("holds 2 files of Markdown outside")
    assert problem.reason.endswith(": docs/guide.md, ui/_index.md")
    assert "everywhere: true" in problem.hint


@pytest.mark.skipif(sys.platform != "linux", reason="names are not always bytes")
def test_a_package_beside_the_folder_of_the_skills_is_reported(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/hiring.md")
    write(tmp_path / "pdf/SKILL.md", PACKAGE)
    write(tmp_path / os.fsdecode(b"\xff") / "SKILL.md", PACKAGE)
    write(tmp_path / "skills/SKILL/SKILL.md", PACKAGE)

    snapshot = take(tmp_path)

    assert paths(snapshot) == ["SKILL", "hiring"]
    assert told(snapshot) == [
        ("\\udcff", "warning", "outside-homes"),
        ("pdf", "warning", "outside-homes"),
    ]
    assert [problem.count for problem in snapshot.problems] == [1, 1]


def test_a_repository_serves_the_skills_of_its_own_agents(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/_root.md", body="Be kind.")
    write(tmp_path / ".github/skills/pdf/SKILL.md", PACKAGE)
    write(tmp_path / ".github/skills/NOTES.md", "no skill, and no problem")
    write(tmp_path / ".github/other/xlsx/SKILL.md", PACKAGE)

    snapshot = take(tmp_path)

    assert paths(snapshot) == [".github/pdf", "_root"]
    assert told(snapshot) == [(".github/other", "warning", "outside-homes")]
    pdf = snapshot.index.require(".github/pdf")
    assert pdf.file == ".github/skills/pdf/SKILL.md"
    assert "Be kind." in compose(snapshot.index.contributors(pdf))


def test_what_a_commit_has_and_no_disk_may_have_is_reported(content: Path) -> None:
    write_skill(content, "other/_root.md")
    told_of = Problem("ui/link.md", "is a link", "copy it", rule="link", count=3)
    surveyed = {DEFAULT_SELECTION: SurveyedPart((RelativeRoot("skills"),), (told_of,))}

    snapshot = take(part_of(content, at="web", revision="c0ffee", surveyed=surveyed))

    assert snapshot.problems == (replace(told_of, file="web/ui/link.md", mount="web"),)
    assert paths(snapshot) == ["web/_index", "web/ui/react"]


# --- several sources ----------------------------------------------------------


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """Another source: rules of its own, and a package."""
    folder = tmp_path / "team"
    write_skill(folder, "_root.md", body="Team.")
    write_skill(folder, "ui/react.md", description="the team's")
    write(folder / "pdf/SKILL.md", PACKAGE)
    return folder


def test_every_source_stands_where_it_is_mounted(content: Path, team: Path) -> None:
    write_skill(content, "skills/_root.md", body="Org.")

    snapshot = take(content, part_of(team, at="teams/web"), part_of(team, at="x"))

    assert paths(snapshot) == [
        "_root",
        *("teams/web/_index", "teams/web/pdf", "teams/web/ui/react"),
        "ui/react",
        *("x/_index", "x/pdf", "x/ui/react"),
    ]
    assert snapshot.problems == ()
    pdf = snapshot.index.require("teams/web/pdf")
    assert compose(snapshot.index.contributors(pdf)) == (
        "=== GLOBAL RULES (from _root.md) ===\n\nOrg.\n\n"
        "=== TEAMS > WEB (from teams/web/_root.md) ===\n\nTeam.\n\n"
        "=== TEAMS > WEB > PDF (from teams/web/pdf/SKILL.md) ===\n\nBody."
    )


def test_a_mount_point_may_be_written_with_slashes(team: Path) -> None:
    assert paths(take(part_of(team, at="/web/"))) == [*("web/_index", "web/pdf", "web/ui/react")]


def test_the_first_of_two_skills_with_one_path_is_served(content: Path, team: Path) -> None:
    both = (content, team)

    for first, second in (both, both[::-1]):
        snapshot = take(first, second)

        react = snapshot.index.require("ui/react")
        assert (react.description == "the team's") is (first is team)
        assert told(snapshot) == [
            ("_root.md", "error", "same-path"),
            ("ui/react.md", "error", "same-path"),
        ]
        [_, problem] = snapshot.problems
        source = content if first is content else team
        assert problem.reason == f"is not served: ui/react.md of {source} has the same path"


def test_a_rule_and_a_package_cannot_have_one_path(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf.md")
    write(tmp_path / "pdf/SKILL.md", PACKAGE)

    snapshot = take(tmp_path)

    assert snapshot.index.require("pdf").file == "pdf.md"
    assert told(snapshot) == [("pdf/SKILL.md", "error", "same-path")]


def test_a_mount_may_collide_with_a_folder(content: Path, team: Path) -> None:
    snapshot = take(content, part_of(team, at="ui"))

    assert "ui/react" in paths(snapshot)
    assert "ui/ui/react" in paths(snapshot)
    assert snapshot.problems == ()


def test_a_problem_is_of_the_source_that_holds_its_file(content: Path, team: Path) -> None:
    write_skill(content, "skills/web/own.md", keywords=["of"])
    write(content / "skills/web/broken.md", "---\nnever: closed")
    write_skill(team, "ui/react.md", keywords=["of"])
    write(team / "broken.md", "---\nnever: closed")
    write(team / "config.yaml", "matching: {min_score: 0.1}")

    problems = take(content, part_of(team, at="web")).problems

    assert sorted((problem.file, problem.mount) for problem in problems) == [
        ("web/broken.md", ""),
        ("web/broken.md", "web"),
        ("web/config.yaml", "web"),
        ("web/own.md", ""),
        ("web/ui/react.md", "web"),
    ]


def test_problems_name_the_mount(content: Path, team: Path) -> None:
    write(team / "pdf/SKILL.md", "---\nnever: closed")
    write_skill(team, "ui/_index.md", keywords=["of"])

    snapshot = take(content, part_of(team, at="web"))

    assert told(snapshot) == [
        ("web/pdf/SKILL.md", "error", "frontmatter"),
        ("web/ui/_index.md", "warning", "keyword-unmatchable"),
    ]


def test_skills_know_whose_they_are(content: Path, team: Path) -> None:
    snapshot = take(content, part_of(team, at="x", scope="user"))

    scopes = {str(skill.path): skill.scope for skill in snapshot.index}
    assert scopes["ui/react"] == "org"
    assert scopes["x/ui/react"] == "user"


def test_only_a_part_of_a_source_is_served(content: Path, team: Path) -> None:
    write_skill(team, "skills/a.md")

    assert paths(take(part_of(team, subfolder="ui"))) == ["react"]
    assert paths(take(part_of(content, subfolder="."))) == [*("skills/_root", "skills/ui/react")]


def test_a_part_that_is_not_there_is_a_problem(content: Path) -> None:
    snapshot = take(part_of(content, subfolder="absent"))

    assert paths(snapshot) == []
    assert told(snapshot) == [("absent", "error", "subfolder")]


def test_only_a_source_at_the_top_may_bring_settings(content: Path, team: Path) -> None:
    write(content / "config.yaml", "matching: {min_score: 0.5}")
    write(team / "config.yaml", "matching: {min_score: 0.7, max_results: 9}")

    snapshot = take(content, part_of(team, at="web"))

    assert snapshot.config.matching.min_score == 0.5
    assert snapshot.config.matching.max_results == 3
    assert told(snapshot) == [("web/config.yaml", "warning", "config")]
    assert "only a source at the top" in snapshot.problems[0].reason


def test_each_source_has_a_limit_of_its_own(content: Path, team: Path) -> None:
    limits = {"limits": {"max_files": 5}}

    assert told(take(content, part_of(team, at="web"), settings=limits)) == []
    for number in range(5):
        write(team / "ui" / f"{number}.txt")

    snapshot = take(content, part_of(team, at="web"), settings=limits)

    assert told(snapshot) == [("web", "error", "limit")]
    [problem] = snapshot.problems
    assert "there are 10 files and folders" in problem.reason
    assert "raise limits.max_files" in problem.hint
    assert paths(snapshot) == ["_root", "ui/react"]


def test_no_source_at_all_is_an_empty_snapshot() -> None:
    snapshot = take()

    assert paths(snapshot) == []
    assert snapshot.problems == ()
    assert found(snapshot.matcher, "anything") == []
    assert found(snapshot.ranked, "anything") == []


# --- which algorithm ----------------------------------------------------------


@pytest.mark.parametrize(
    "algorithm, has_package, expected",
    [
        ("auto", False, KeywordMatcher),
        ("auto", True, MixedMatcher),
        ("keyword", True, KeywordMatcher),
        ("keyword", False, KeywordMatcher),
        ("ranked", True, RankedMatcher),
        ("ranked", False, RankedMatcher),
    ],
)
def test_the_content_chooses_the_algorithm_unless_the_operator_does(
    content: Path,
    algorithm: str,
    has_package: bool,  # noqa: FBT001
    expected: type[Matcher],
) -> None:
    if has_package:
        write(content / "skills/pdf/SKILL.md", PACKAGE)

    snapshot = take(content, settings={"matching": {"algorithm": algorithm}})

    assert isinstance(snapshot.matcher, expected)
    assert isinstance(snapshot.ranked, RankedMatcher)
    assert snapshot.ranked is snapshot.ranked
    assert snapshot.algorithm == snapshot.matcher.algorithm


@pytest.mark.parametrize(
    "declared",
    [
        "keywords: [forms]",
        "tags: forms, pdf",
        "triggers: [forms]",
        "metadata: {keywords: forms}",
        "metadata: {tags: [forms]}",
        "metadata: {skillhub: {tags: [forms]}}",
        "metadata: {triggers: {keywords: [forms]}}",
    ],
)
@pytest.mark.parametrize("file", ["SKILL.md", "skill.md"])
def test_what_a_package_declares_is_ranked_and_never_matched_literally(
    content: Path, file: str, declared: str
) -> None:
    text = f"---\nname: pdf\ndescription: Does it.\n{declared}\n---\n"
    write(content / "skills/pdf" / file, text)

    snapshot = take(content)

    assert isinstance(snapshot.matcher, MixedMatcher)
    assert found(snapshot.matcher.others.matcher, "fill in a form") == ["pdf"]
    assert found(snapshot.matcher, "fill in a form") == ["pdf"]


@pytest.mark.parametrize(
    "algorithm, has_package, told",
    [
        ("auto", True, ["Ranking pdf/SKILL.md by all words: it is a package"]),
        ("auto", False, []),
        ("ranked", True, []),
    ],
)
def test_the_log_names_a_package_among_rule_files(
    content: Path,
    caplog: pytest.LogCaptureFixture,
    algorithm: str,
    has_package: bool,  # noqa: FBT001
    told: list[str],
) -> None:
    caplog.set_level("INFO")
    if has_package:
        text = "---\nname: pdf\ndescription: D\ntags: forms\n---\n"
        write(content / "skills/pdf/SKILL.md", text)

    log_changes(take(content, settings={"matching": {"algorithm": algorithm}}), None)

    assert [m for m in caplog.messages if "words" in m] == told


def test_a_package_that_is_not_offered_does_not_choose(content: Path) -> None:
    write(content / "skills/pdf/SKILL.md", PACKAGE)

    snapshot = take(content, settings={"visibility": {"deny": ["pdf"]}})

    assert isinstance(snapshot.matcher, KeywordMatcher)


@pytest.mark.parametrize("algorithm", ["keyword", "ranked"])
def test_a_hidden_skill_is_in_no_matcher_and_refused_by_name(content: Path, algorithm: str) -> None:
    settings = {
        "matching": {"algorithm": algorithm},
        "visibility": {"deny": ["ui/*"]},
    }

    snapshot = take(content, settings=settings)

    assert paths(snapshot) == ["_root"]
    assert found(snapshot.matcher, "react") == []
    assert found(snapshot.ranked, "react") == []
    assert snapshot.index.hidden_count == 1
    with pytest.raises(SkillDisabledError):
        snapshot.index.resolve("react")


def test_the_content_cannot_offer_what_the_operator_hides(content: Path) -> None:
    write(content / "config.yaml", "visibility: {deny: [], enabled_skills: [react]}")

    snapshot = take(
        part_of(content, revision="c0ffee"),
        settings={"visibility": {"deny": ["react"]}},
    )

    assert "ui/react" not in paths(snapshot)


# --- whether anything is new --------------------------------------------------


def test_the_same_commits_give_the_same_again(content: Path, team: Path) -> None:
    before = take(part_of(content, revision="a"), part_of(team, at="x", revision="b"))

    def content_of(*revisions: str | None) -> Content:
        first, second = revisions
        return Content(
            (
                part_of(content, revision=first),
                part_of(team, at="x", revision=second),
            )
        )

    read = before.state.collection
    assert read.matches_content(content_of("a", "b"))
    assert not read.matches_content(content_of("a", "c"))
    assert not read.matches_content(content_of("a", None))
    assert not take(content).state.collection.matches_content(Content((part_of(content),)))


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_what_could_not_be_read_is_tried_again(content: Path) -> None:
    os.mkfifo(content / "skills/pipe.md")
    part = part_of(content, revision="a")

    assert not take(part).state.collection.matches_content(Content((part,)))


def test_a_setting_that_hides_nothing_is_told(content: Path) -> None:
    visibility = {"deny": ["no-such-skill"], "enabled_categories": ["nothing"]}

    snapshot = take(content, settings={"visibility": visibility})

    reasons = [p.reason for p in snapshot.problems if p.rule == "visibility"]
    assert reasons == [
        "is without effect: no skill fits deny: no-such-skill",
        "is without effect: no skill fits enabled_categories: nothing",
    ]


def test_a_search_index_outlives_a_refresh_without_news(content: Path) -> None:
    snapshot = take(content)

    renewed = replace(snapshot, content=snapshot.content)

    assert renewed.ranked is snapshot.ranked
