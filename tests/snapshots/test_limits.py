"""A limit does the same for a folder and for a repository: all or nothing is served."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skills_mcp.bootstrap import Options, build
from skills_mcp.errors import LimitExceededError
from skills_mcp.library import SkillLibrary
from skills_mcp.snapshots import loaded_skills
from tests.packages import package_text
from tests.support import Upstream, write

FILES = {f"skills/{name}/SKILL.md": package_text(body="x" * 500) for name in "abcd"}

EXCEEDED = [
    ("max_files", 5, r"8 files and folders, and limits\.max_files is 5"),
    ("max_total_bytes", 900, r"[\d,]+ bytes, and limits\.max_total_bytes is 900"),
]


Opener = Callable[[str, int], SkillLibrary]


@pytest.fixture(params=["SKILLS_DIR", "SKILLS_REPO"])
def open_limited(request: pytest.FixtureRequest, upstream: Upstream, tmp_path: Path) -> Opener:
    """Return a function that opens the upstream as a folder or as a repository."""
    return lambda key, most: open_source(request.param, upstream, tmp_path, key, most)


def open_source(
    variable: str, upstream: Upstream, folder: Path, key: str, most: int
) -> SkillLibrary:
    file = write(folder / "config.yaml", f"limits: {{{key}: {most}}}")
    options = (
        Options(skills_dir=str(upstream.work), config_file=file)
        if variable == "SKILLS_DIR"
        else Options(repo=upstream.url, config_file=file)
    )
    return build(options, {"SKILLS_MCP_HOME": str(folder / "home")}).library


@pytest.mark.parametrize("key, most, said", EXCEEDED)
def test_a_source_beyond_a_limit_is_refused_with_the_number_and_the_key(
    key: str, most: int, said: str, open_limited: Opener, upstream: Upstream
) -> None:
    upstream.commit(FILES)
    library = open_limited(key, most)

    with pytest.raises(LimitExceededError, match=f"{said}.*raise limits.{key}"):
        library.sync()

    assert not library.is_ready


@pytest.mark.parametrize("key, most, said", EXCEEDED)
def test_what_was_served_stays_when_a_limit_is_exceeded(
    key: str, most: int, said: str, open_limited: Opener, upstream: Upstream
) -> None:
    first = dict(list(FILES.items())[:1])
    upstream.commit(first)
    library = open_limited(key, most)
    library.sync()
    upstream.commit(FILES)

    with pytest.raises(LimitExceededError, match=said):
        library.sync()

    assert [skill.path for skill in library.view().snapshot.index] == ["a"]


def test_what_was_served_stays_when_there_is_too_much_text(
    open_limited: Opener, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.commit(dict(list(FILES.items())[:1]))
    library = open_limited("max_files", 100)
    library.sync()
    upstream.commit(FILES)
    monkeypatch.setattr(loaded_skills, "MAX_CHARACTERS", 900)

    with pytest.raises(LimitExceededError, match=r"[\d,]+ characters, and at most 900 of"):
        library.sync()

    assert [skill.path for skill in library.view().snapshot.index] == ["a"]


def test_files_that_cannot_be_served_do_not_count(open_limited: Opener, upstream: Upstream) -> None:
    upstream.commit(FILES | {f"src/{number}.py": "x" for number in range(50)})
    library = open_limited("max_files", 8)

    library.sync()

    assert len(library.view().snapshot.index) == 4
