"""Paths of skills as names of frameworks: valid, readable, and never twice."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skills_mcp
from skills_mcp.errors import SkillNotFoundError
from skills_mcp.features.frameworks.skill_names import SkillNameCache, name_skills
from skills_mcp.skills import model as legal_names
from skills_mcp.skills.model import Skill, SkillPath, is_standard_name, to_standard_name
from tests.packages import write_package
from tests.support import make_skill, write_skill

# As google.adk.skills.models and agent_framework check it, and as the standard says.
STRICTEST = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

NAMES = st.from_regex(STRICTEST, fullmatch=True).filter(lambda name: len(name) <= 64)
SEGMENTS = NAMES | st.sampled_from(["_root", "_index", "Ünïcode", "名前", "a_b", "A"])
PATHS = (
    st.lists(SEGMENTS, min_size=1, max_size=6).map("/".join)
    | st.text(min_size=1)
    # Those that end as if they had a digest already.
    | st.builds("{}-x{}".format, NAMES, st.from_regex(r"[0-9a-f]{7}", fullmatch=True))
)


def skills(*paths: str) -> tuple[Skill, ...]:
    return tuple(make_skill(path) for path in paths)


@given(PATHS)
def test_every_path_has_a_name_that_the_strictest_framework_allows(path: str) -> None:
    name = to_standard_name(path)

    assert STRICTEST.fullmatch(name)
    assert 1 <= len(name) <= 64
    assert is_standard_name(name)


@given(NAMES)
def test_a_path_that_is_a_name_stays_as_it_is(path: str) -> None:
    if not re.search("-x[0-9a-f]{7}$|-x[0-9a-f]{39}$", path):
        assert to_standard_name(path) == path


@given(st.sets(PATHS, min_size=2, max_size=20))
def test_no_two_paths_have_one_name(paths: set[str]) -> None:
    named = name_skills(skills(*paths))

    assert len(named.by_name) == len(paths)
    assert {named.find(name).path for name in named.by_name} == paths
    assert {named.by_name[name].path: name for name in named.by_name} == named.names


@given(PATHS)
def test_no_path_is_spelled_like_the_name_of_another(path: str) -> None:
    name = to_standard_name(path)

    assert name == path or to_standard_name(name) != name


@given(st.sets(PATHS, min_size=2, max_size=20))
def test_a_name_does_not_depend_on_the_other_skills(paths: set[str]) -> None:
    one = min(paths)

    alone, among = name_skills(skills(one)), name_skills(skills(*paths))

    assert alone.names[SkillPath(one)] == among.names[SkillPath(one)]


@pytest.mark.parametrize(
    "path, name",
    [
        ("pdf", "pdf"),
        ("code-review", "code-review"),
        ("report-20260214", "report-20260214"),
        ("ui/react/auth", "ui-react-auth-x709ad3c"),
        ("_root", "root-x02ed4e3"),
        ("Ünïcode/名前", "unicode-xfc10789"),
        ("名前", "skill-x7ec2629"),
        ("a-x1234567", "a-x1234567-x6ca423e"),
    ],
)
def test_a_name_can_be_read_and_stays_the_same_for_ever(path: str, name: str) -> None:
    assert to_standard_name(path) == name


def test_a_long_path_keeps_its_end() -> None:
    name = to_standard_name("department/" * 10 + "invoices")

    assert "-invoices-x" in name


def test_two_paths_with_the_same_few_digits_have_longer_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(legal_names, "sha256", _AlmostTheSame)

    named = name_skills(skills("UI/auth", "ui/auth", "ui/forms"))

    assert len(named.by_name) == 3
    assert named.names[SkillPath("ui/forms")] == "ui-forms-x0000000"
    assert {len(named.names[SkillPath(path)]) for path in ("UI/auth", "ui/auth")} == {
        len("ui-auth-x") + 39
    }


class _AlmostTheSame:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def hexdigest(self) -> str:
        return "0" * 20 + self.data.hex().rjust(44, "0")[::-1]


def test_a_path_is_taken_for_the_name_of_its_skill() -> None:
    named = name_skills(skills("pdf", "ui/react/auth"))

    assert named.find("ui/react/auth").path == "ui/react/auth"
    assert named.find(" ui-react-auth-x709ad3c ").path == "ui/react/auth"


@pytest.mark.parametrize("wanted", ["ui-react-auth", "ui/react/aut", "UI/React/Auth"])
def test_a_name_that_is_almost_right_is_answered_with_the_right_one(
    wanted: str,
) -> None:
    named = name_skills(skills("pdf", "ui/react/auth"))

    with pytest.raises(SkillNotFoundError, match=r"mean ui-react-auth-x709ad3c\?"):
        named.find(wanted)


@pytest.mark.parametrize("wanted", ["", "  ", "../../etc/passwd", "x" * 100_000])
def test_a_name_unlike_any_other_is_not_found(wanted: str) -> None:
    named = name_skills(skills("pdf"))

    with pytest.raises(SkillNotFoundError, match="Pass a name from the list"):
        named.find(wanted)


def test_the_names_are_made_once_for_each_revision(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    write_package(folder, "pdf")

    with skills_mcp.open_sync(directory=folder, home=home) as opened:
        names = SkillNameCache(opened.to_async())
        first, again = names.read(), names.read()
        write_skill(folder, "ui/react.md")
        opened.refresh()
        after = names.read()

    assert first is again
    assert list(first.by_name) == ["pdf"]
    assert list(after.by_name) == ["pdf", to_standard_name("ui/react")]
