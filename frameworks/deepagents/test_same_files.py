"""The backend answers as deepagents' own `FilesystemBackend` for the same files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import BackendProtocol

import skills_mcp
from frameworks.content import write_skills
from skills_mcp.deepagents import SkillsBackend
from skills_mcp.features.frameworks.skill_names import SkillNameCache
from skills_mcp.library.skill_folder import render_skill_file

ODD_FILES = {
    "empty.txt": b"",
    "blank.txt": b" \n\n",
    "windows.txt": b"one form\r\ntwo\rthree form",
    "long.md": b"".join(b"line %d\n" % number for number in range(300)),
    "separated.txt": "one form\u2028two\x0cthree form\n".encode(),
    "blob.bin": b"\xff\xfe\x00form\n",
    "late.txt": b"form\n" * 3000 + b"\xff",
    "picture.png": b"\x89PNG\r\n\x1a\n",
    "drawing.svg": b"<svg>form</svg>\n",
    "références/été.md": "Une form à remplir — 表 🎉\n".encode(),
    "references/deep/er/notes.md": b"A form.\n",
}


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[BackendProtocol, BackendProtocol]]:
    """Return our backend, and that of a folder with the same files."""
    top = tmp_path_factory.mktemp("both")
    content, copy = write_skills(top / "skills"), top / "copy"
    for file, data in ODD_FILES.items():
        place = content / "pdf" / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    with skills_mcp.open_sync(directory=content, home=top / "home") as skills:
        for name, skill in SkillNameCache(skills).read().by_name.items():
            folder = skills.open_folder(skill.path)
            texts = {f: folder.read(f).data for f in folder.files}
            whole = render_skill_file(skill, name, folder.compose(), folder.read_fields())
            texts["SKILL.md"] = whole.encode()
            for file, data in texts.items():
                place = copy / name / file
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
        yield SkillsBackend(skills), FilesystemBackend(copy, virtual_mode=True)


def without_times(entries: Any) -> Any:
    """Return entries without their times: files of a commit have none that is true."""
    if entries is None:
        return None
    return [{key: value for key, value in each.items() if key != "modified_at"} for each in entries]


AUTH = "ui-react-auth-x709ad3c"

PLACES = [
    "",
    "/",
    ".",
    "/pdf",
    "/pdf/",
    "pdf",
    "//pdf//references",
    "/./pdf/./références",
    "/pdf/references/deep",
    f"/{AUTH}",
    f"/{AUTH}/assets",
    f"/{AUTH}/assets/login-form.tsx",
    "/nope",
    "/pdf/nope",
    "/PDF",
    "/pdf/ref",
    "/pdf/SKILL.md",
    "/pdf/SKILL.md/",
    "/pdf/SKILL.md/x",
    "/pdf/empty.txt",
    "/pdf/picture.png",
    "/pdf/blob.bin",
    "/pdf/références/été.md",
    "/pdf/re\u0301fe\u0301rences/e\u0301te\u0301.md",
    "/etc/passwd",
]


@pytest.mark.parametrize("place", PLACES)
def test_ls_is_the_same(both: tuple[BackendProtocol, BackendProtocol], place: str) -> None:
    ours, theirs = (backend.ls(place) for backend in both)

    assert without_times(ours.entries) == without_times(theirs.entries)
    assert ours.error == theirs.error


WINDOWS = [(0, 2000), (0, 2), (1, 1), (100, 100), (299, 5), (-3, 2), (0, 0), (9999, 5)]
FILES = [f"/pdf/{file}" for file in [*ODD_FILES, "SKILL.md", "references/forms.md"]]


@pytest.mark.parametrize("place", [*PLACES, *FILES])
@pytest.mark.parametrize("window", WINDOWS)
def test_read_is_the_same(
    both: tuple[BackendProtocol, BackendProtocol],
    place: str,
    window: tuple[int, int],
) -> None:
    ours, theirs = (backend.read(place, *window) for backend in both)

    if theirs.error and "codec can't decode" in theirs.error:  # it reads in blocks
        assert ours.error is not None
        assert ours.error.partition(" byte")[0] == theirs.error.partition(" byte")[0]
    else:
        assert ours == theirs


PATTERNS = [
    *("*", "*.md", "**/*.md", "/*.md", "SKILL.md", "/SKILL.md", "*/SKILL.md"),
    *("references/**", "**/deep/**/*.md", "*.{txt,png}", "été.*", "[!a-p]*.md"),
    *("pdf/*", "nope", "*.{py", "../*.md", "/pdf/../*", ""),
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("place", [None, "/", "/pdf", "/pdf/SKILL.md", "/nope"])
def test_glob_is_the_same(
    both: tuple[BackendProtocol, BackendProtocol],
    pattern: str,
    place: str | None,
) -> None:
    ours, theirs = (backend.glob(pattern, place) for backend in both)

    assert without_times(ours.matches) == without_times(theirs.matches)
    assert ours.error == theirs.error


@pytest.mark.parametrize("pattern", ["form", "FORM", "Une form à", "表", "a.*b", ""])
@pytest.mark.parametrize("place", [None, "/", "/pdf", "/pdf/references", "/nope"])
@pytest.mark.parametrize("include", [None, "*.md", "/*.txt", "**/*.md", "../*"])
def test_grep_is_the_same(
    both: tuple[BackendProtocol, BackendProtocol],
    pattern: str,
    place: str | None,
    include: str | None,
) -> None:
    ours, theirs = (backend.grep(pattern, place, include) for backend in both)

    found, expected = (
        sorted((m["path"], m["line"], m["text"]) for m in result.matches or [])
        for result in (ours, theirs)
    )
    whole = [match for match in expected if match[0] != "/pdf/late.txt"]
    assert found == whole  # theirs has the lines before a byte that is no text
    if not (theirs.error or "").startswith("One or more files could not"):
        assert ours.error == theirs.error


@pytest.mark.parametrize("most", [1, 3, 10_000, None])
def test_grep_stops_where_it_is_told(
    both: tuple[BackendProtocol, BackendProtocol], most: int | None
) -> None:
    ours, theirs = (backend.grep("form", "/", "*.md", max_count=most) for backend in both)

    assert len(ours.matches or []) == len(theirs.matches or [])
    assert ours.truncated == theirs.truncated


def test_grep_of_a_file_searches_that_file(
    both: tuple[BackendProtocol, BackendProtocol],
) -> None:
    found = both[0].grep("form", "/pdf/references/forms.md", "*.txt").matches or []

    assert {match["path"] for match in found} <= {"/pdf/references/forms.md"}


@pytest.mark.parametrize("place", [*PLACES, *FILES])
def test_downloads_are_the_same(both: tuple[BackendProtocol, BackendProtocol], place: str) -> None:
    [ours], [theirs] = (backend.download_files([place]) for backend in both)

    if theirs.error == "invalid_path":  # a file is no folder: nothing is there
        assert ours.error == "file_not_found"
    else:
        assert ours == theirs


async def test_what_is_awaited_is_the_same(
    both: tuple[BackendProtocol, BackendProtocol],
) -> None:
    ours, theirs = both

    assert await ours.aread("/pdf/long.md", 5, 2) == theirs.read("/pdf/long.md", 5, 2)
    assert await ours.als("/pdf/nope") == theirs.ls("/pdf/nope")
    assert await ours.adownload_files(FILES) == theirs.download_files(FILES)
    globbed = await ours.aglob("*.png")
    assert without_times(globbed.matches) == without_times(theirs.glob("*.png").matches)
    grepped = await ours.agrep("Une form à", max_count=5)
    assert grepped.matches == theirs.grep("Une form à", max_count=5).matches


@pytest.mark.parametrize("place", ["/..", "/../etc/passwd", "/pdf/../pdf/SKILL.md", "~"])
def test_a_way_out_leads_nowhere(both: tuple[BackendProtocol, BackendProtocol], place: str) -> None:
    ours, _ = both

    assert ours.ls(place).error == f"Path '{place}': path_not_found"
    assert ours.read(place).error == f"File '{place}' not found"
    assert ours.grep("form", place).matches == []
    assert ours.glob("*", place).matches == []
    assert ours.download_files([place])[0].error == "file_not_found"


async def test_nothing_can_be_written(
    both: tuple[BackendProtocol, BackendProtocol],
) -> None:
    ours, _ = both

    assert "read-only" in str(ours.write("/pdf/SKILL.md", "x").error)
    assert "read-only" in str(ours.edit("/pdf/SKILL.md", "a", "b").error)
    assert "read-only" in str((await ours.awrite("/new/SKILL.md", "x")).error)
    [refused] = ours.upload_files([("/pdf/SKILL.md", b"x")])
    assert (refused.path, refused.error) == ("/pdf/SKILL.md", "permission_denied")


def test_a_skill_that_goes_while_the_skills_are_listed_is_not_there(
    tmp_path: Path,
) -> None:
    content = write_skills(tmp_path / "skills")

    with skills_mcp.open_sync(directory=content, home=tmp_path / "home") as skills:
        ours = SkillsBackend(skills)
        paths = [f"{entry['path']}SKILL.md" for entry in ours.ls("/").entries or []]
        (content / "pdf/SKILL.md").unlink()
        skills.refresh()

        downloads = ours.download_files(paths)

    assert [each.error for each in downloads] == ["file_not_found", None, None, None]


def test_a_file_above_the_limit_says_how_to_raise_it(tmp_path: Path) -> None:
    content = write_skills(tmp_path / "skills")
    (content / "pdf/huge.txt").write_text("form\n" * 300_000)

    with skills_mcp.open_sync(directory=content, home=tmp_path / "home") as skills:
        ours = SkillsBackend(skills)

        assert "assets.max_size_bytes" in str(ours.read("/pdf/huge.txt").error)
        [download] = ours.download_files(["/pdf/huge.txt"])
        assert "assets.max_size_bytes" in str(download.error)
        assert len(ours.grep("form", "/pdf/huge.txt").matches or []) == 0
        assert len(ours.glob("huge.*").matches or []) == 1
