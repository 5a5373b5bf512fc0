"""The use cases of 000 §3 and 003, without MCP."""

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import LocalFolder, Mount
from skills_mcp.errors import (
    AmbiguousNameError,
    ChangedFileError,
    FileTooLargeError,
    InvalidArgumentsError,
    InvalidPathError,
    SkillDisabledError,
    SkillNotFoundError,
    UndeclaredFileError,
)
from skills_mcp.events.spool import Spool
from skills_mcp.library.answers import ReadFile
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.routing.search import SearchResult
from skills_mcp.scripts.policy import CommandRequest
from skills_mcp.skills.skill_files import LineRange
from skills_mcp.skills.skill_index import SkillFilter
from tests.packages import (
    PDF_FILES,
    PNG,
    write_package,
    write_pdf,
)
from tests.support import open_library, spooled, write, write_skill

COUNTED = {"analytics": {"enabled": True, "context": "full"}}


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """Return an organisation's rules, and packages of which two share a name."""
    root = tmp_path / "content"
    asset = {"file": "assets/note.txt", "description": "A note", "type": "template"}
    write_skill(root, "_root.md", body="Never commit secrets.", assets=[asset])
    write(root / "_root/assets/note.txt", "Dear all\n")
    write_pdf(root)
    write_package(root, "a/notes", description="Takes notes at meetings.")
    write_package(root, "b/notes", description="Writes release notes.")
    return root


@pytest.fixture
def library(content: Path) -> SkillLibrary:
    return open_library(content)


# Search


def paths(found: SearchResult) -> list[str]:
    return [hit.skill.path for hit in found.hits]


def write_many(root: Path, number: int) -> Path:
    """Write one package that a query for Kafka is about, and some that mention it."""
    write_package(root, "kafka", description="Kafka topics, consumers and offsets.")
    for each in range(number):
        write_package(root, f"n{each}", description="Ends.", body="ok " * 99 + "kafka")
    return root


@pytest.mark.parametrize(
    "query, path, reason",
    [
        ("a/notes", "a/notes", "exact_path"),
        ("  A/Notes ", "a/notes", "exact_path"),
        ("pdf", "pdf", "exact_path"),
        ("notes", "a/notes", "exact_name"),
        ("$notes", "a/notes", "exact_name"),
        ("NOTES", "a/notes", "exact_name"),
        ("note", "a/notes", "prefix"),
        ("write  release\n notes", "b/notes", "token_overlap"),
    ],
)
def test_what_a_query_names_comes_before_what_it_describes(
    library: SkillLibrary, query: str, path: str, reason: str
) -> None:
    found = library.view().search(query)

    assert (found.hits[0].skill.path, found.hits[0].reason) == (path, reason)


def test_hits_are_in_the_order_of_their_scores(library: SkillLibrary) -> None:
    found = library.view().search("notes of meetings")

    scores = [hit.score for hit in found.hits]
    assert len(scores) > 1
    assert all(before >= after for before, after in pairwise(scores))
    assert all(0 < score <= 1 for score in scores)


def test_ten_skills_are_listed_by_default(tmp_path: Path) -> None:
    library = open_library(write_many(tmp_path, 30))

    found = library.view().search("ends")

    assert len(found.hits) == 10
    assert found.total == 30


def test_the_operator_and_then_the_caller_say_how_many(tmp_path: Path) -> None:
    rules = {"search": {"limit": 3}}
    library = open_library(write_many(tmp_path, 30), settings=rules)

    configured, asked = library.view().search("ends"), library.view().search("ends", limit=7)

    assert (len(configured.hits), len(asked.hits)) == (3, 7)


@pytest.mark.parametrize("limit, candidates", [(1, 4), (2, 8), (3, 12), (30, 30)])
def test_four_candidates_are_looked_at_for_each_hit(
    tmp_path: Path, limit: int, candidates: int
) -> None:
    library = open_library(write_many(tmp_path, 30))

    found = library.view().search("ends", limit=limit)

    assert (len(found.hits), found.total) == (limit, candidates)


def test_of_more_than_five_hits_those_far_below_the_best_are_left_out(
    tmp_path: Path,
) -> None:
    few = open_library(write_many(tmp_path / "few", 4))
    many = open_library(write_many(tmp_path / "many", 5))

    assert len(few.view().search("kafka offsets").hits) == 5
    assert paths(many.view().search("kafka offsets")) == ["kafka"]


def test_the_operator_says_how_far_below_the_best(tmp_path: Path) -> None:
    rules = {"search": {"threshold": 0.0}}
    library = open_library(write_many(tmp_path, 5), settings=rules)

    assert len(library.view().search("kafka offsets").hits) == 6


def test_a_search_may_be_for_the_skills_of_one_scope_only(tmp_path: Path) -> None:
    for scope in ("org", "repo", "user"):
        write_package(tmp_path / scope, "notes")
    mounts = Mounts(
        (
            Mount(source=LocalFolder(tmp_path / "user"), at="me", scope="user"),
            Mount(source=LocalFolder(tmp_path / "repo"), at="here", scope="repo"),
            Mount(source=LocalFolder(tmp_path / "org"), at="all"),
        )
    )
    library = open_library(mounts)

    repo_only = library.view().search("notes", scoping=SkillFilter(scope="repo"))
    assert paths(repo_only) == ["here/notes"]
    user_only = library.view().search("notes", scoping=SkillFilter(scope="user"))
    assert paths(user_only) == ["me/notes"]
    # 002 §5.5: where nothing else decides, the project comes before the user.
    assert paths(library.view().search("notes")) == ["all/notes", "here/notes", "me/notes"]


@pytest.mark.parametrize("query", ["", "  "])
def test_an_empty_query_is_a_mistake(content: Path, query: str) -> None:
    library = open_library(content)

    with pytest.raises(InvalidArgumentsError, match="query: is empty"):
        library.view().search(query)


@pytest.mark.parametrize("query", ["zebra", "$"])
def test_a_query_that_finds_nothing_is_counted(content: Path, spool: Spool, query: str) -> None:
    library = open_library(content, settings=COUNTED, spool=spool)

    found = library.view().search(query)
    library.view().search("pdf")

    assert found == SearchResult((), 0)
    [event] = spooled(spool)
    assert (event["type"], event["data"]) == (
        "no_match",
        {"context": query, "near": []},
    )


# Load


@pytest.mark.parametrize("name", ["pdf", "$pdf", " pdf ", "PDF"])
def test_a_skill_is_loaded_by_its_name(library: SkillLibrary, name: str) -> None:
    loaded = library.view().load_skill(name)

    assert loaded.skill.path == "pdf"
    assert loaded.instructions.endswith("=== PDF (from pdf/SKILL.md) ===\n\nDo it.")


def test_a_skill_of_the_tree_is_loaded_like_a_package(content: Path) -> None:
    write_skill(content, "ui/forms.md", body="Label every field.")
    library = open_library(content)

    by_name, by_path = library.view().load_skill("forms"), library.view().load_skill("ui/forms")

    assert by_name == by_path
    assert by_name.instructions.endswith("Label every field.")


def test_a_name_that_two_skills_have_is_ambiguous_and_their_paths_are_not(
    library: SkillLibrary,
) -> None:
    with pytest.raises(AmbiguousNameError, match=r"a/notes \(org\), b/notes \(org\)"):
        library.view().load_skill("notes")

    assert library.view().load_skill("a/notes").skill.path == "a/notes"
    assert library.view().load_skill("b/notes").skill.path == "b/notes"


def test_a_name_that_nobody_has_leads_to_similar_ones(library: SkillLibrary) -> None:
    with pytest.raises(SkillNotFoundError, match="Did you mean pdf"):
        library.view().load_skill("pd")


def test_a_load_is_counted_with_whether_the_caller_had_it(content: Path, spool: Spool) -> None:
    library = open_library(content, settings=COUNTED, spool=spool)

    digest = library.view().load_skill("pdf").digest
    library.view().load_skill("pdf", known_digest=digest)

    expected = {
        "context": "",
        "skill_path": "pdf",
        "score": 1.0,
        "matched_keywords": [],
        "was_ambiguous": False,
        "was_picked": True,
    }
    events = spooled(spool)
    assert [event["type"] for event in events] == ["skill_served"] * 2
    tokens = [event["data"].pop("tokens") for event in events]
    assert [event["data"] for event in events] == [
        {**expected, "unchanged": False},
        {**expected, "unchanged": True},
    ]
    assert tokens[0] > tokens[1]  # the reminder is shorter


# Find files


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("**/*", ["SKILL.md", *sorted(PDF_FILES)]),
        ("*.md", ["SKILL.md", "references/forms.md"]),
        ("**/*.py", ["scripts/fill.py"]),
        ("scripts/**", ["scripts/fill.py"]),
        ("scripts/*", ["scripts/fill.py"]),
        ("scripts", []),
        ("*.[pt]*", ["logo.png", "scripts/fill.py", "templates/letter.txt"]),
        ("../**/*", []),
        ("/etc/*", []),
    ],
)
def test_files_are_found_by_a_pattern(
    library: SkillLibrary, pattern: str, found: list[str]
) -> None:
    files = library.view().find_files("pdf", pattern=pattern)

    assert list(files.files) == found
    assert not files.truncated


@pytest.mark.parametrize(
    "contains, found",
    [
        ("PRINT('FILLED')", ["scripts/fill.py"]),
        ("three", ["references/forms.md"]),
        ("PNG", []),  # no text
        ("nowhere", []),
    ],
)
def test_files_are_found_by_their_text_in_any_case(
    library: SkillLibrary, contains: str, found: list[str]
) -> None:
    assert list(library.view().find_files("pdf", contains=contains).files) == found


def test_files_have_to_fit_both(library: SkillLibrary) -> None:
    fitting = library.view().find_files("pdf", pattern="*.md", contains="o")

    assert list(fitting.files) == ["SKILL.md", "references/forms.md"]


@pytest.mark.parametrize("total", [200, 201])
def test_two_hundred_files_are_found_at_most(tmp_path: Path, total: int) -> None:
    others = {f"f/{number:03}.md": "" for number in range(total - 1)}
    write_package(tmp_path, "many", others)

    found = open_library(tmp_path).view().find_files("many")

    assert len(found.files) == 200
    assert found.truncated is (total > 200)


def test_a_file_that_has_changed_is_not_searched(content: Path) -> None:
    library = open_library(content)
    write(content / "pdf/scripts/fill.py", "something else entirely")

    with pytest.raises(ChangedFileError):
        library.view().find_files("pdf", contains="filled")

    assert "scripts/fill.py" in library.view().find_files("pdf").files


# Examples


EXAMPLES: dict[str, str | bytes] = {
    "examples/letter.md": "---\ntitle: A letter\ntags: mail\n---\nDear reader\n",
    "examples/tax.md": "# A tax form\n\nFill in the form.\n",
}


@pytest.fixture
def with_examples(content: Path) -> Path:
    """Return the content with a package that has files and tasks as examples."""
    write_package(content, "forms", EXAMPLES, examples=["fill in a customs form"])
    return content


def loaded_titles(library: SkillLibrary, query: str, top_k: int = 3) -> list[str]:
    loaded = library.view().load_examples("forms", query, top_k).loaded
    return [each.example.title for each in loaded.examples]


def test_examples_are_files_and_tasks_of_the_frontmatter(with_examples: Path) -> None:
    library = open_library(with_examples)

    loaded = library.view().load_examples("forms", "mail a customs form", 3).loaded

    shown = [(each.example.file, each.score) for each in loaded.examples]
    assert shown == [("examples/letter.md", 2), (None, 2), ("examples/tax.md", 1)]
    assert (loaded.skill.path, loaded.total, loaded.notes) == ("forms", 3, ())


def test_a_skill_of_the_tree_has_its_tasks_as_examples(content: Path) -> None:
    write_skill(content, "ui/login.md", examples=["add a login", "test a logout"])

    loaded = open_library(content).view().load_examples("login", "logout", 3).loaded

    assert [each.example.text for each in loaded.examples] == ["test a logout"]
    assert loaded.total == 2


def test_without_a_fitting_example_the_first_ones_are_loaded(
    with_examples: Path,
) -> None:
    library = open_library(with_examples)

    assert loaded_titles(library, "zebra", 2) == ["A letter", "A tax form"]


@pytest.mark.parametrize("top_k, count", [(-1, 1), (0, 1), (1, 1), (10, 10), (99, 10)])
def test_one_to_ten_examples_are_loaded(content: Path, top_k: int, count: int) -> None:
    write_package(content, "forms", examples=[f"form {n}" for n in range(12)])

    loaded = open_library(content).view().load_examples("forms", "form", top_k).loaded

    assert len(loaded.examples) == count
    assert loaded.total == 12


def test_a_skill_without_examples_has_none(library: SkillLibrary) -> None:
    loaded = library.view().load_examples("pdf", "form", 3).loaded

    assert (loaded.examples, loaded.total, loaded.notes) == ((), 0, ())


def test_the_examples_of_one_answer_are_together_as_long_as_a_file(
    with_examples: Path,
) -> None:
    rules = {"files": {"max_bytes": 15}}
    library = open_library(with_examples, settings=rules)

    loaded = library.view().load_examples("forms", "zebra", 3).loaded

    # What of the letter's file fits is the beginning of its frontmatter.
    texts = [each.example.text for each in loaded.examples]
    assert sum(len(text.encode()) for text in texts) <= 15
    assert all(each.example.truncated for each in loaded.examples)


def test_an_example_that_has_changed_costs_none_of_the_others(
    with_examples: Path,
) -> None:
    library = open_library(with_examples)
    write(with_examples / "forms/examples/letter.md", "something else entirely")

    loaded = library.view().load_examples("forms", "mail a form", 3).loaded

    titles = [each.example.title for each in loaded.examples]
    assert titles == ["A tax form", "fill in a customs form"]
    assert loaded.total == 2
    [note] = loaded.notes
    assert note.startswith("'examples/letter.md' has changed")


def test_an_example_that_is_handed_out_is_counted(with_examples: Path, spool: Spool) -> None:
    library = open_library(with_examples, settings=COUNTED, spool=spool)

    library.view().load_examples("forms", "customs form", 3)
    library.view().load_examples("forms", "customs", 3)

    assert [event["data"] for event in spooled(spool)] == [
        {
            "skill_path": "forms",
            "file": "examples/tax.md",
            "asset_type": "example",
            "is_inherited": False,
            "size_bytes": 31,
        }
    ]


# Read a file


def read_on(library: SkillLibrary, name: str, file: str, count: int) -> list[ReadFile]:
    """Read a file from its beginning, for as long as there is a next line."""
    parts = [library.view().read_file(name, file)]
    while start := parts[-1].next_line:
        parts.append(library.view().read_file(name, file, LineRange(start, count)))
    return parts


def joined(parts: list[ReadFile]) -> bytes:
    return b"".join(part.part.content.data for part in parts)


_LIMIT = 24
_LINES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n")).filter(
    lambda line: len(line.encode()) < _LIMIT - 1
)
_LINE_ENDS = st.sampled_from(["\n", "\r\n"])


@given(
    lines=st.lists(st.builds(str.__add__, _LINES, _LINE_ENDS), max_size=12),
    last=_LINES,
    count=st.integers(1, 5),
)
def test_reading_on_leads_through_the_whole_file(lines: list[str], last: str, count: int) -> None:
    text = ("".join(lines) + last).encode()
    with tempfile.TemporaryDirectory() as folder:
        write_package(Path(folder), "long", {"long.txt": text})
        rules = {"files": {"max_bytes": _LIMIT}}
        library = open_library(Path(folder), settings=rules)

        parts = read_on(library, "long", "long.txt", count)

    assert joined(parts) == text
    assert all(len(part.part.content.data) <= _LIMIT for part in parts)
    assert [part.part.truncated for part in parts[:-1]] == [True] * (len(parts) - 1)
    assert not parts[-1].part.truncated
    assert not any(part.is_line_cut for part in parts)


def test_sixty_four_kilobytes_are_read_at_once_and_cut_at_a_line(
    tmp_path: Path,
) -> None:
    line = "x" * 99 + "\n"
    write_package(tmp_path, "long", {"a.txt": line * 1000, "b.txt": "x" * 65_536})
    library = open_library(tmp_path)

    cut, whole = (
        library.view().read_file("long", "a.txt"),
        library.view().read_file("long", "b.txt"),
    )

    assert cut.part.content.data.decode() == line * 655  # of 65,536 bytes
    assert (cut.part.truncated, cut.next_line) == (True, 656)
    assert cut.part.size_bytes == 100_000
    assert (whole.part.truncated, whole.next_line) == (False, None)


def test_a_text_is_never_cut_inside_a_character(tmp_path: Path) -> None:
    write_package(tmp_path, "long", {"a.txt": "日本" * 10})
    rules = {"files": {"max_bytes": 10}}
    library = open_library(tmp_path, settings=rules)

    read = library.view().read_file("long", "a.txt")

    assert read.part.content.data.decode() == "日本日"
    assert not read.part.content.is_binary


def test_a_line_that_is_too_long_is_cut_and_the_others_can_be_read(
    tmp_path: Path,
) -> None:
    write_package(tmp_path, "long", {"a.txt": "one\n" + "x" * 50 + "\nthree\n"})
    rules = {"files": {"max_bytes": 20}}
    library = open_library(tmp_path, settings=rules)

    parts = read_on(library, "long", "a.txt", 200)

    assert [part.part.content.data for part in parts] == [
        b"one\n",
        b"x" * 20,
        b"three\n",
    ]
    assert [part.is_line_cut for part in parts] == [False, True, False]


def test_a_file_of_one_line_that_is_too_long_has_no_next_line(tmp_path: Path) -> None:
    write_package(tmp_path, "long", {"a.json": "x" * 50})
    rules = {"files": {"max_bytes": 20}}
    library = open_library(tmp_path, settings=rules)

    beginning = library.view().read_file("long", "a.json")
    line = library.view().read_file("long", "a.json", LineRange(1, 200))

    for read in (beginning, line):
        assert read.part.content.data == b"x" * 20
        assert (read.part.truncated, read.is_line_cut) == (True, True)
        assert read.next_line is None


def test_a_file_whose_lines_nobody_counts_has_no_next_line(tmp_path: Path) -> None:
    write_package(tmp_path, "long", {"a.txt": "line\n" * 50})
    rules = {"files": {"max_bytes": 20}, "assets": {"max_size_bytes": 200}}
    library = open_library(tmp_path, settings=rules)

    read = library.view().read_file("long", "a.txt")

    assert read.part.content.data == b"line\n" * 4
    assert (read.part.truncated, read.next_line) == (True, None)
    with pytest.raises(FileTooLargeError, match="Leave start_line and max_lines out"):
        library.view().read_file("long", "a.txt", LineRange(5, 200))


def test_a_binary_file_is_bytes_as_many_as_fit(tmp_path: Path) -> None:
    write_package(tmp_path, "logo", {"logo.png": PNG})
    whole = open_library(tmp_path)
    rules = {"files": {"max_bytes": 4}}
    cut = open_library(tmp_path, settings=rules)

    for library, data in ((whole, PNG), (cut, PNG[:4])):
        read = library.view().read_file("logo", "logo.png")
        assert read.part.content.data == data
        assert read.part.content.is_binary
        assert read.part.truncated is (data != PNG)
        assert read.next_line is None
        assert not read.is_line_cut


def test_some_lines_are_read(library: SkillLibrary) -> None:
    read = library.view().read_file("pdf", "references/forms.md", LineRange(2, 1))

    part = read.part
    assert part.content.data == b"Two\n"
    assert (part.start_line, part.end_line, part.total_lines) == (2, 2, 3)
    assert read.next_line == 3


@pytest.mark.parametrize("start", [4, 5, 10**18])
def test_a_line_beyond_the_end_is_refused_with_the_number_of_lines(
    library: SkillLibrary, start: int
) -> None:
    with pytest.raises(InvalidArgumentsError, match=f"has 3 lines .got {start}"):
        library.view().read_file("pdf", "references/forms.md", LineRange(start, 1))


def test_an_empty_file_has_nothing_to_read(tmp_path: Path) -> None:
    write_package(tmp_path, "empty", {"empty.txt": ""})
    library = open_library(tmp_path)

    for lines in (None, LineRange(1, 200)):
        read = library.view().read_file("empty", "empty.txt", lines)
        assert (read.part.content.data, read.part.truncated) == (b"", False)
        assert read.next_line is None


HOSTILE = [
    "../a/notes/SKILL.md",
    "references/../../a/notes/SKILL.md",
    "..",
    ".",
    "",
    "/etc/passwd",
    "C:\\Windows\\win.ini",
    "C:/Windows/win.ini",
    "\\\\server\\share",
    "references\\forms.md",
    "./SKILL.md",
    "references//forms.md",
    "references/",
    "SKILL.md\0.txt",
    "SKILL.md ",
    "SKILL.md.",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    "\u202egnp.ogol",
    "aux.txt",
    ".git/config",
    "x" * 2000,
]


def test_a_path_that_could_lead_elsewhere_is_not_looked_up(
    library: SkillLibrary, content: Path
) -> None:
    for file in HOSTILE:
        with pytest.raises(InvalidPathError) as raised:
            library.view().read_file("pdf", file)

        assert str(content) not in str(raised.value), file


@pytest.mark.parametrize(
    "file", ["passwords", "links/passwd", "a/notes/SKILL.md", "etc/passwd", ".env"]
)
def test_what_is_no_file_of_the_skill_is_not_found(
    content: Path, tmp_path: Path, file: str
) -> None:
    secret = write(tmp_path / "secret/passwd", "canary")
    (content / "pdf/passwords").symlink_to(secret)
    (content / "pdf/links").symlink_to(secret.parent)
    write(content / "pdf/.env", "canary")
    library = open_library(content)

    with pytest.raises(UndeclaredFileError, match="find_skill_files") as raised:
        library.view().read_file("pdf", file)

    assert str(tmp_path) not in str(raised.value)


def test_a_file_that_became_a_link_is_not_followed(content: Path, tmp_path: Path) -> None:
    library = open_library(content)
    (content / "pdf/logo.png").unlink()
    (content / "pdf/logo.png").symlink_to(write(tmp_path / "secret", PNG))

    with pytest.raises(ChangedFileError) as raised:
        library.view().read_file("pdf", "logo.png")

    assert str(tmp_path) not in str(raised.value)


def test_a_file_that_is_not_there_leads_to_those_that_are(
    library: SkillLibrary,
) -> None:
    with pytest.raises(UndeclaredFileError, match=r"It has: SKILL\.md, logo\.png, ref"):
        library.view().read_file("pdf", "forms.md")


def test_a_folder_is_answered_with_what_is_in_it(library: SkillLibrary) -> None:
    with pytest.raises(UndeclaredFileError, match=r"That folder has: references/forms\.md\."):
        library.view().read_file("pdf", "references")


def test_a_file_that_is_edited_is_not_read_until_the_skills_are_read_again(
    content: Path,
) -> None:
    library = open_library(content)
    write(content / "pdf/references/forms.md", "Four\nFive\nSix!\n")

    with pytest.raises(ChangedFileError, match="Call refresh_skills"):
        library.view().read_file("pdf", "references/forms.md")
    other = library.view().read_file("pdf", "scripts/fill.py")
    library.sync()
    read = library.view().read_file("pdf", "references/forms.md")

    assert other.part.content.data == b"print('filled')\n"
    assert read.part.content.data == b"Four\nFive\nSix!\n"


def test_a_file_that_is_inherited_is_read_with_where_it_comes_from(
    library: SkillLibrary,
) -> None:
    read = library.view().read_file("pdf", "assets/note.txt")

    assert read.part.content.data == b"Dear all\n"
    assert (read.skill.path, read.resolved_from) == ("pdf", "_root")


def test_a_file_of_its_own_comes_before_an_inherited_one(content: Path) -> None:
    write(content / "pdf/assets/note.txt", "Dear reader\n")

    read = open_library(content).view().read_file("pdf", "assets/note.txt")

    assert read.part.content.data == b"Dear reader\n"
    assert read.resolved_from is None


def test_a_skill_that_does_not_inherit_has_no_files_of_others(content: Path) -> None:
    write_package(content, "alone", inherit=False)

    with pytest.raises(UndeclaredFileError):
        open_library(content).view().read_file("alone", "assets/note.txt")


def test_a_reading_is_counted(content: Path, spool: Spool) -> None:
    library = open_library(content, settings=COUNTED, spool=spool)

    library.view().read_file("pdf", "references/forms.md", LineRange(1, 1))
    library.view().read_file("pdf", "assets/note.txt")
    with pytest.raises(UndeclaredFileError):
        library.view().read_file("pdf", "nothing.txt")

    events = spooled(spool)
    assert [event["type"] for event in events] == ["asset_served"] * 2
    assert [event["data"] for event in events] == [
        {
            "skill_path": "pdf",
            "file": "references/forms.md",
            "asset_type": "file",
            "is_inherited": False,
            "size_bytes": 4,
        },
        {
            "skill_path": "pdf",
            "file": "assets/note.txt",
            "asset_type": "file",
            "is_inherited": True,
            "size_bytes": 9,
        },
    ]


# Skills that the operator does not offer


@pytest.mark.parametrize(
    "visibility",
    [
        {"deny": ["pd*"]},
        {"allow": ["*/notes"]},
        {"enabled_skills": ["notes"]},
        {"enabled_categories": ["writing"]},
    ],
    ids=lambda rule: next(iter(rule)),
)
@pytest.mark.parametrize(
    "use",
    [
        lambda library: library.view().load_skill("pdf"),
        lambda library: library.view().find_files("pdf"),
        lambda library: library.view().read_file("pdf", "SKILL.md"),
        lambda library: library.view().load_examples("pdf", "form", 3),
        lambda library: anyio.run(library.view().run, a_request("cat")),
    ],
    ids=["load", "find_files", "read_file", "load_examples", "run_command"],
)
def test_a_hidden_skill_is_of_no_use(
    content: Path, visibility: dict[str, Any], use: Callable[[SkillLibrary], object]
) -> None:
    write_package(content, "a/notes", metadata={"skillhub": {"category": "Writing"}})
    rules = {"visibility": visibility, "commands": {"enabled": True}}
    library = open_library(content, settings=rules)

    with pytest.raises(SkillDisabledError):
        use(library)

    assert library.view().load_skill("a/notes").skill.category == "writing"
    assert "pdf" not in paths(library.view().search("pdf"))


def test_a_hidden_skill_makes_no_name_ambiguous(content: Path) -> None:
    rules = {"visibility": {"deny": ["b/*"]}}

    loaded = open_library(content, settings=rules).view().load_skill("notes")

    assert loaded.skill.path == "a/notes"


def a_request(command: str, *args: str, skill: str = "pdf") -> CommandRequest:
    return CommandRequest(skill_name=skill, command=command, args=args)


@pytest.mark.parametrize(
    "file",
    [
        "${CLAUDE_SKILL_DIR}/scripts/fill.py",
        "$CLAUDE_SKILL_DIR/scripts/fill.py",
        "${CLAUDE_PLUGIN_ROOT}/skills/pdf/scripts/fill.py",
    ],
)
def test_a_file_is_read_as_the_text_of_a_skill_for_claude_code_names_it(
    tmp_path: Path, file: str
) -> None:
    write_pdf(tmp_path, "plugins/office/skills/pdf")
    view = open_library(tmp_path).view()

    assert view.read_file("pdf", file).file == "scripts/fill.py"
    assert view.read_asset("pdf", file).file == "scripts/fill.py"


@pytest.mark.parametrize(
    "file, error",
    [
        ("${CLAUDE_PLUGIN_ROOT}/scripts/fill.py", UndeclaredFileError),
        ("${CLAUDE_PLUGIN_ROOT}/skills/fax/scripts/fill.py", UndeclaredFileError),
        ("${CLAUDE_SKILL_DIR}/../fax/SKILL.md", InvalidPathError),
        ("${CLAUDE_PLUGIN_ROOT}/skills/pdf/../fax/SKILL.md", InvalidPathError),
        ("${HOME}/scripts/fill.py", UndeclaredFileError),
    ],
)
def test_no_variable_leads_out_of_a_skill(
    tmp_path: Path, file: str, error: type[Exception]
) -> None:
    for name in ("pdf", "fax"):
        write_pdf(tmp_path, f"plugins/office/skills/{name}", name=name, description=f"A {name}.")
    write(tmp_path / "plugins/office/scripts/fill.py")
    view = open_library(tmp_path).view()

    with pytest.raises(error):
        view.read_file("pdf", file)
    with pytest.raises(error):
        view.read_asset("pdf", file)
