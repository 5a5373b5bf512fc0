"""All skills of all sources; what is known changes nothing in what is collected."""

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Limits, Settings, Visibility
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import (
    Checkout,
    Content,
    ContentPart,
    ContentSource,
    LocalFolder,
    Mount,
)
from skills_mcp.skills.model import EXPORTED_TIMES_NS, Problem
from skills_mcp.skills.skill_discovery import RootWalk
from skills_mcp.snapshots import loaded_skills
from skills_mcp.snapshots.loaded_skills import KeyedProblem, LoadedSkills, read_sources
from skills_mcp.snapshots.skill_records import SkillTable
from skills_mcp.snapshots.skill_snapshot import take_snapshot
from tests.content.sources import FakeSource
from tests.support import Upstream, skill_text, sync, write, write_skill

PACKAGE = "---\nname: pdf\ndescription: Fills forms.\n---\nBody.\n"


def here(source: ContentSource, at: str = "") -> Content:
    checkout = sync(source)
    assert checkout is not None
    return Content((ContentPart(Mount(source=source, at=at), checkout),))


def read(content: Content, before: LoadedSkills | None = None) -> LoadedSkills:
    return read_sources(content, Limits(), Visibility(), [before] if before else ())


def told(collection: LoadedSkills) -> tuple[object, ...]:
    """Return all that a reply or the next state can read of a collection."""
    table = collection.table
    return (
        list(table),
        table.listed,
        list(table.declared()),
        list(table.records()),
        collection.findings,
        collection.origins,
        sorted(collection.records(), key=lambda record: record.key),
    )


FILES = (
    "skills/_root.md",
    "skills/ui.md",
    "skills/ui/SKILL.md",
    "skills/ui/_index.md",
    "skills/ui/react.md",
    "skills/ui/react/button.tsx",
    "skills/ui/react/notes.md",
    "skills/ui/vue.md",
    "skills/pdf/SKILL.md",
    "skills/pdf/scripts/fill.py",
    "skills/pdf/inner/SKILL.md",
    ".github/skills/review/SKILL.md",
    "README.md",
)
TEXTS = (
    skill_text(description="One"),
    skill_text(description="Two", assets=[{"file": "button.tsx"}]),
    skill_text(description="Three", assets=[{"file": "absent.tsx"}]),
    PACKAGE,
    PACKAGE.replace("pdf", "doc"),
    "no frontmatter",
    "---\nkeywords: broken\n---\n",
)
EDITS = st.lists(st.tuples(st.sampled_from(FILES), st.sampled_from([None, *TEXTS])), max_size=4)
FOLDERS = st.dictionaries(st.sampled_from(FILES), st.sampled_from(TEXTS), max_size=8)


def change(folder: Path, edits: list[tuple[str, str | None]]) -> None:
    for file, text in edits:
        if text is None:
            (folder / file).unlink(missing_ok=True)
        else:
            write(folder / file, text)


@given(FOLDERS, EDITS)
def test_after_any_edit_of_a_folder_it_equals_what_is_read_anew(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, str],
    edits: list[tuple[str, str | None]],
) -> None:
    folder = tmp_path_factory.mktemp("content")
    change(folder, list(files.items()))
    source = LocalFolder(folder)
    before = read(here(source))
    change(folder, edits)

    content = here(source)

    assert told(read(content, before)) == told(read(content))


@given(FOLDERS, EDITS, st.sampled_from(["", "teams/web"]))
def test_after_any_commit_it_equals_what_is_read_anew(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, str],
    edits: list[tuple[str, str | None]],
    at: str,
) -> None:
    folder = tmp_path_factory.mktemp("content")
    upstream = Upstream.create(folder)
    upstream.commit(files)
    source = RemoteBranch(Remote(upstream.url, "main"), folder / "cache")
    content = here(source, at)
    before = read(content)
    change(upstream.work, edits)
    upstream.commit({})

    later = here(source, at)

    assert told(read(later, before)) == told(read(later))
    assert content.parts[0].checkout is not later.parts[0].checkout


def test_only_what_a_commit_changes_is_read_again(tmp_path: Path, opened_files: list[str]) -> None:
    upstream = Upstream.create(tmp_path)
    upstream.commit({f"ui/s{n}.md": skill_text(description=f"N{n}") for n in range(30)})
    upstream.commit({f"p{n}/SKILL.md": PACKAGE for n in range(10)})
    source = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")
    before = read(here(source))
    upstream.commit({"ui/s7.md": skill_text(), "p3/new.txt": "x", "ui/s99.md": TEXTS[0]})
    opened_files.clear()

    after = read(here(source), before)

    assert sorted(opened_files) == ["p3/SKILL.md", "ui/s7.md", "ui/s99.md"]
    assert len(after.table) == 41


def test_a_commit_that_is_known_is_opened_without_a_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream.create(tmp_path)
    upstream.commit({"a.md": skill_text()})
    source = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")
    content = here(source)
    before = take_snapshot(content, Settings())

    def walk(_: RootWalk) -> None:
        raise AssertionError

    monkeypatch.setattr(RootWalk, "run", walk)

    assert take_snapshot(content, Settings(), before.state).reuses_all_of(before.state)


def test_a_folder_in_which_nothing_changed_gives_the_very_same_skills(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "ui/react.md", assets=[{"file": "gone.txt"}])
    write(tmp_path / "ui" / "react" / "b.txt")
    source = LocalFolder(tmp_path)
    before = read(here(source))

    assert before.problems != ()
    assert read(here(source), before) is before


def test_an_edit_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    file = write_skill(tmp_path, "a.md", description="abc")
    source = LocalFolder(tmp_path)
    before = read(here(source))
    found = file.stat()
    write_skill(tmp_path, "a.md", description="xyz")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))

    assert read(here(source), before).table[0].description == "xyz"


def test_a_commit_that_nobody_remembers_is_read_whole(tmp_path: Path) -> None:
    class Forgetful(LocalFolder):
        def open(self) -> Checkout:
            return Checkout(tmp_path, next(revisions), datetime.now(UTC))

    revisions = iter(["a" * 40, "b" * 40])
    write_skill(tmp_path, "a.md", description="old")
    source = Forgetful(tmp_path)
    before = read(here(source))
    write_skill(tmp_path, "a.md", description="new")

    after = read(here(source), before)

    assert after.table[0].description == "new"


class History(FakeSource):
    """A repository of which each commit lies in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._folder = folder
        self._states: list[dict[str, str]] = []

    def commit(self, files: dict[str, str]) -> Checkout:
        """Return a commit that has these files and no others."""
        revision = str(len(self._states))
        self._states.append(files)
        folder = self._folder / revision
        folder.mkdir(parents=True)
        change(folder, list(files.items()))
        for file, text in files.items():
            # As files are exported: read only, and with a time of their content.
            time_ns = EXPORTED_TIMES_NS[crc32(text.encode()) >> 4]
            os.utime(folder / file, ns=(time_ns, time_ns))
            (folder / file).chmod(0o444)
        return Checkout(folder, revision, datetime.now(UTC))

    def content_ids(self, checkout: Checkout) -> Mapping[str, str]:
        return self._states[int(checkout.revision or 0)]


def of(source: ContentSource, checkout: Checkout, at: str = "") -> Content:
    return Content((ContentPart(Mount(source=source, at=at), checkout),))


@pytest.mark.parametrize("at", ["", "teams/web"])
@pytest.mark.parametrize("owner", ["ui.md", "ui/SKILL.md"])
def test_what_belonged_to_a_file_is_looked_at_when_the_file_goes(
    tmp_path: Path, owner: str, at: str
) -> None:
    source = History(tmp_path)
    inner = {"ui/react/a.md": TEXTS[0], "ui/react/deep/b.md": "no frontmatter"}
    text = skill_text(assets=[{"file": "react/a.md"}]) if at else PACKAGE
    before = read(of(source, source.commit({owner: text, **inner}), at))
    later = of(source, source.commit(inner), at)

    after = read(later, before)

    assert told(after) == told(read(later))
    assert [row.path.endswith("ui/react/a") for row in after.table.listed] == [True]


def test_what_had_no_room_is_read_as_soon_as_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_skills, "MAX_CHARACTERS", 1000)
    source = History(tmp_path)
    files = {"a/x.md": skill_text(body="x" * 900), "z/y.md": skill_text(body="y" * 500)}
    full = of(source, source.commit(files))
    before = read_sources(full, Limits(), Visibility())
    assert len(before.table) == 0
    assert [problem.rule for problem in before.problems] == ["limit"]
    smaller = {**files, "a/x.md": skill_text(body="x" * 100)}
    later = of(source, source.commit(smaller))

    after = read_sources(later, Limits(), Visibility(), [before])

    assert told(after) == told(read_sources(later, Limits(), Visibility()))
    assert len(after.table) == 2


def test_what_has_no_room_does_not_depend_on_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_skills, "MAX_CHARACTERS", 1000)
    source = History(tmp_path)
    files = {
        "a/b/x.md": skill_text(body="x" * 400),
        "a/b-c.md": skill_text(body="y" * 400),
    }
    before = read_sources(of(source, source.commit(files)), Limits(), Visibility())
    assert len(before.table) == 2
    more = {**files, "Z/z.md": skill_text(body="z" * 400)}
    later = of(source, source.commit(more))

    after = read_sources(later, Limits(), Visibility(), [before])

    assert told(after) == told(read_sources(later, Limits(), Visibility()))
    assert [row.path for row in after.table.listed] == []
    assert [problem.rule for problem in after.problems] == ["limit"]


@pytest.mark.parametrize("file", [".", "ui"])
def test_a_folder_that_could_not_be_listed_is_listed_again(tmp_path: Path, file: str) -> None:
    source = History(tmp_path)
    content = of(source, source.commit({"ui/react/a.md": TEXTS[0]}))
    whole = read(content)
    problem = Problem(file, "cannot be listed", "", rule="unreadable", is_passing=True)
    nothing = SkillTable.pack([], whole.table.homes)
    before = replace(whole, table=nothing, findings=(KeyedProblem(problem),))

    assert told(read(content, before)) == told(whole)


def test_who_gave_way_is_back_when_the_other_one_goes(tmp_path: Path) -> None:
    first, second = History(tmp_path / "1"), History(tmp_path / "2")
    checkout = first.commit({"ui/a.md": skill_text(description="First")})
    both = {"ui/a.md": skill_text(description="Second"), "b.md": TEXTS[0]}
    rules = Visibility(deny=("ui/a",))

    def parts(later: Checkout) -> Content:
        return Content((*of(first, checkout).parts, *of(second, later).parts))

    before = read_sources(parts(second.commit(both)), Limits(), rules)
    content = parts(second.commit({"b.md": TEXTS[0]}))

    after = read_sources(content, Limits(), rules, [before])

    assert told(after) == told(read_sources(content, Limits(), rules))
    assert [row.path for row in after.table.listed] == ["b", "ui/a"]


def test_a_skill_that_has_lost_a_file_is_read_again(tmp_path: Path) -> None:
    source = History(tmp_path)
    files = {"ui/pdf/SKILL.md": PACKAGE, "ui/pdf/a.txt": "a"}
    before = read(of(source, source.commit(files)))
    later = of(source, source.commit({**files, "README.md": "new"}))
    (later.parts[0].checkout.directory / "ui/pdf/a.txt").unlink()

    after = read(later, before)

    assert told(after) == told(read(later))
    assert len(after.table) == 1


def test_files_of_earlier_commits_do_not_count(tmp_path: Path) -> None:
    source, limits = History(tmp_path), Limits(max_files=3)
    known: list[LoadedSkills] = []
    for number in range(9):
        checkout = source.commit({"ui/a.md": TEXTS[0], "b.md": f"{number}"})
        known = [read_sources(of(source, checkout), limits, Visibility(), known)]

    assert {problem.rule for problem in known[0].problems} == {"no-frontmatter"}


def test_a_file_of_a_time_to_come_hides_no_other(tmp_path: Path) -> None:
    far_ns = 2**63 + 10**9
    file = write_skill(tmp_path, "a.md")
    os.utime(file, ns=(far_ns, far_ns))
    source = LocalFolder(tmp_path)
    before = read(here(source))

    assert len(before.table) == 1
    assert read(here(source), before) is before


def test_another_content_of_the_same_size_and_time_is_read(tmp_path: Path) -> None:
    source = History(tmp_path)
    before = read(of(source, source.commit({"a.md": skill_text(body="One")})))
    checkout = source.commit({"a.md": skill_text(body="Two")})
    time_ns = (tmp_path / "0/a.md").stat().st_mtime_ns
    os.utime(tmp_path / "1/a.md", ns=(time_ns, time_ns))

    after = read(of(source, checkout), before)

    assert after.table[0].body == "Two"


def test_a_file_of_a_commit_that_was_edited_in_place_is_read(tmp_path: Path) -> None:
    source = History(tmp_path)
    content = of(source, source.commit({"a.md": skill_text(body="One")}))
    before = read(content)
    (tmp_path / "0/a.md").chmod(0o644)
    write(tmp_path / "0/a.md", skill_text(body="Two"))

    assert read(content, before).table[0].body == "Two"


def test_what_is_the_same_is_known_without_a_record_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = History(tmp_path)
    files = {
        "a.md": TEXTS[2],
        "bad.md": "no frontmatter",
        "README.md": "Welcome",
        "ui/pdf/SKILL.md": PACKAGE,
        "ui/copy/pdf/SKILL.md": PACKAGE,
    }
    content = of(source, source.commit(files))
    before = read(content)
    monkeypatch.delattr(SkillTable, "records")

    after = read(content, before)

    assert after is before


def test_a_file_that_is_broken_or_speaks_to_people_is_not_read_again(
    tmp_path: Path, opened_files: list[str]
) -> None:
    source = History(tmp_path)
    files = {"bad.md": "no frontmatter", "README.md": "Welcome", "a.md": TEXTS[2]}
    before = read(of(source, source.commit(files)))
    opened_files.clear()

    after = read(of(source, source.commit({**files, "b.md": TEXTS[0]})), before)

    assert opened_files == ["b.md"]
    assert after.problems == before.problems != ()


def test_a_file_that_could_not_be_opened_is_tried_again(
    tmp_path: Path, opened_files: list[str]
) -> None:
    source = History(tmp_path)
    content = of(source, source.commit({"a.md": TEXTS[0], "b.md": TEXTS[0]}))
    before = read(content)
    passing = Problem("a.md", "is locked", "", is_passing=True)
    [key] = [record.key for record in before.records() if record.file == "a.md"]
    failed = replace(before, findings=(KeyedProblem(passing, key),))
    opened_files.clear()

    after = read(content, failed)

    assert opened_files == ["a.md"]
    assert told(after) == told(before)


@pytest.mark.parametrize("later", ["ui/_index.md", "ui/c/button.tsx", "README.md"])
def test_the_same_copy_in_two_sources_is_as_if_it_was_read_twice(
    tmp_path: Path, later: str
) -> None:
    files = {"ui/a.md": TEXTS[0], "ui/b.md": "no frontmatter", "ui/c.md": TEXTS[2]}
    first, second = History(tmp_path / "1"), History(tmp_path / "2")

    def parts(extra: dict[str, str]) -> Content:
        each = ((s, s.commit({**files, **extra})) for s in (first, second))
        return Content(tuple(part for s, c in each for part in of(s, c).parts))

    before = read(parts({}))
    content = parts({later: TEXTS[1]})

    after = read(content, before)

    assert told(after) == told(read(content))
    assert told(read(content, after)) == told(after)


# --- one problem for many files -------------------------------------------------


def test_ordinary_markdown_beside_packages_is_one_warning(tmp_path: Path) -> None:
    write(tmp_path / "pdf/SKILL.md", PACKAGE)
    for name in ("a", "b", "c", "d"):
        write(tmp_path / f"notes/{name}.md", "# Notes")
    write(tmp_path / "e.md", "---\ntitle: E\n---\nText.")
    write(tmp_path / "broken.md", "---\nkeywords: broken\ndescription: D\n---\n")

    problems = read(here(LocalFolder(tmp_path))).problems

    found = [(each.file, each.level, each.rule, each.count) for each in problems]
    assert sorted(found) == [
        (".", "warning", "plain-markdown", 5),
        ("broken.md", "error", "keywords", 0),
    ]
    [summary] = [each for each in problems if each.rule == "plain-markdown"]
    assert summary.reason.endswith(": e.md, notes/a.md, notes/b.md, …")


@pytest.mark.parametrize(
    "text, rule",
    [("---\ndescription: D\n---\nRules.", "no-keywords"), ("Rules.", "no-frontmatter")],
)
def test_root_rules_beside_packages_are_no_ordinary_markdown(
    tmp_path: Path, text: str, rule: str
) -> None:
    # They reach no skill, and nothing else is called so.
    write(tmp_path / "pdf/SKILL.md", PACKAGE)
    write(tmp_path / "_root.md", text)

    problems = read(here(LocalFolder(tmp_path))).problems

    assert [(each.file, each.level, each.rule) for each in problems] == [
        ("_root.md", "error", rule)
    ]


@pytest.mark.parametrize(
    "page",
    [
        b"---\ndescription: Use when: a, b\ntools: *all\n---\nAn agent.",
        b"---\nA ruler begins this page.\n\n---\nkeywords: none\n\n---\nMore.",
        b"---\nname: a\n",
        b"---\nname: a\nname: b\nmodel: opus\n---\nAn agent.",
        b"---\nname: &a x\nother: *a\n---\nAn agent.",
        b"---\ntitle: Gr\xf6\xdfe\n---\nA page.",
        b"---\ntitle: \x1b[2J\n---\nA page.",
        b"\xef\xbb\xbf# A page\n\nkeywords: are explained here\n" * 60_000,
    ],
)
def test_a_page_beside_packages_is_no_error_whatever_it_holds(tmp_path: Path, page: bytes) -> None:
    write(tmp_path / "pdf/SKILL.md", PACKAGE)
    write(tmp_path / "agents/reviewer.md", page)

    problems = read(here(LocalFolder(tmp_path))).problems

    assert [(each.level, each.rule, each.count) for each in problems] == [
        ("warning", "plain-markdown", 1)
    ]


BROKEN = "---\ntools: [a\n---\nAn agent."


@pytest.mark.parametrize(
    "files, found",
    [
        (["agents/a.md", "commands/pr/b.md", "ui/docs/c.md"], {("warning", "plain-markdown", 3)}),
        (["ui/a.md"], {("error", "yaml", 0)}),
        (["docs/a.md", "docs/served.md"], {("error", "yaml", 0)}),
    ],
)
def test_an_agent_beside_rule_files_is_no_error_and_a_rule_file_without_keywords_is_one(
    tmp_path: Path, files: list[str], found: set[tuple[str, str, int]]
) -> None:
    write(tmp_path / "ui/button.md", skill_text())
    for file in files:
        write(tmp_path / file, skill_text() if "served" in file else BROKEN)

    problems = read(here(LocalFolder(tmp_path))).problems

    assert {(each.level, each.rule, each.count) for each in problems} == found


@pytest.mark.parametrize(
    "files, found",
    [
        (["a.mdc", "b.md"], {("warning", "cursor-rules"), ("warning", "plain-markdown")}),
        (["a.md", "b.md", "c.md", "d/e.md"], {("warning", "plain-markdown")}),
        (["a.md", "b.md"], {("error", "no-frontmatter")}),
    ],
)
def test_pages_of_a_source_without_skills_are_one_line_unless_they_are_few(
    tmp_path: Path, files: list[str], found: set[tuple[str, str]]
) -> None:
    for file in files:
        write(tmp_path / file, "# A page\n")

    problems = read(here(LocalFolder(tmp_path))).problems

    assert {(each.level, each.rule) for each in problems} == found


@pytest.mark.parametrize("beside", ["pdf/SKILL.md", "ui.md"])
def test_instructions_for_copilot_are_one_line_unless_they_are_rule_files(
    tmp_path: Path, beside: str
) -> None:
    write(tmp_path / beside, PACKAGE if beside.endswith("SKILL.md") else skill_text())
    write(tmp_path / "instructions/served.instructions.md", skill_text())
    for number in range(3):
        text = "---\napplyTo: '**/*.ts'\ndescription: D\n---\nUse const."
        write(tmp_path / f"instructions/{number}.instructions.md", text)

    collection = read(here(LocalFolder(tmp_path)))

    assert [(each.level, each.rule, each.count) for each in collection.problems] == [
        ("warning", "copilot-instructions", 3)
    ]
    assert "instructions/served.instructions" in {row.path for row in collection.table.listed}


@pytest.mark.parametrize(
    "rules",
    [
        "---\nkeywords: [react, auth\ndescription: D\n---\n",
        "---\ndescription: D\nKeywords: [a]\n",
        "---\nkeywords：[a]\ndescription: [x\n---\n",  # noqa: RUF001
        "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n",
    ],
)
def test_a_broken_rule_file_beside_packages_is_an_error_of_its_own(
    tmp_path: Path, rules: str
) -> None:
    write(tmp_path / "pdf/SKILL.md", PACKAGE)
    write(tmp_path / "ui/auth.md", rules)

    problems = read(here(LocalFolder(tmp_path))).problems

    assert [(each.file, each.level) for each in problems] == [("ui/auth.md", "error")]


def test_among_rule_files_ordinary_markdown_is_an_error_each(tmp_path: Path) -> None:
    write_skill(tmp_path, "rules.md")
    write(tmp_path / "a.md", "# Notes")
    write(tmp_path / "b.md", "---\ntitle: B\n---\nText.")

    problems = read(here(LocalFolder(tmp_path))).problems

    assert [(each.file, each.level, each.rule) for each in problems] == [
        ("a.md", "error", "no-frontmatter"),
        ("b.md", "error", "no-keywords"),
        ("b.md", "error", "description"),
    ]


def test_an_empty_package_is_no_ordinary_markdown(tmp_path: Path) -> None:
    write(tmp_path / "pdf/SKILL.md", PACKAGE)
    write(tmp_path / "empty/SKILL.md", "")

    problems = read(here(LocalFolder(tmp_path))).problems

    assert {each.file for each in problems} == {"empty/SKILL.md"}
    assert "error" in {each.level for each in problems}
