"""Names of exported skills: short, unique, and kept."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.export.commands.export import export_skills
from skills_mcp.features.export.layout import (
    EXPORT_LOCK_FILE,
    LockedSettings,
    assign_names,
    read_lock,
)
from skills_mcp.skills.model import SkillPath, is_standard_name
from tests.support import open_library, write, write_skill

PLAIN = LockedSettings(format="plain", raw=False, select=())
_PARTS = st.sampled_from(["auth", "react", "ui", "web", "ui-react", "API", "api", "名前", "a" * 40])
_PATHS = st.lists(_PARTS, min_size=1, max_size=4).map("/".join).map(SkillPath)


@pytest.mark.parametrize(
    "paths, names",
    [
        ("engineering/release-notes pdf", "release-notes pdf"),
        ("ui/react/auth web/auth", "react-auth web-auth"),
        ("pdf tools/pdf", "pdf tools-pdf"),
        ("a/x/auth b/x/auth", "a-x-auth b-x-auth"),
        # The skill whose last segment is alone comes before one that is spelt like it.
        ("ui/react-auth web/react/auth x/auth", "react-auth web-react-auth x-auth"),
        ("ui/api ui/API", "ui-api-xf8088cf ui-api-xde2f606"),
        ("x/名前", "x-x922c9fe"),
    ],
)
def test_a_name_is_the_shortest_suffix_of_the_path_that_is_unique(paths: str, names: str) -> None:
    assigned = assign_names(map(SkillPath, paths.split()), {})

    assert " ".join(assigned[SkillPath(path)] for path in paths.split()) == names


@given(st.lists(st.tuples(st.booleans(), st.lists(_PATHS, max_size=4)), min_size=10, max_size=10))
def test_a_name_stays_over_any_additions_and_removals(
    changes: list[tuple[bool, list[SkillPath]]],
) -> None:
    paths: set[SkillPath] = set()
    names: dict[SkillPath, str] = {}
    for is_addition, changed in changes:
        paths = paths.union(changed) if is_addition else paths.difference(changed)
        before, names = names, dict(assign_names(paths, names))
        assert {path: names[path] for path in before.keys() & paths} == {
            path: name for path, name in before.items() if path in paths
        }
        assert len(set(names.values())) == len(paths) == len(names)
        assert all(map(is_standard_name, names.values()))


@given(st.permutations(["ui/auth", "web/auth", "auth", "x/ui/auth", "ui-auth"]))
def test_names_do_not_depend_on_the_order_of_the_skills(paths: list[str]) -> None:
    assert assign_names(map(SkillPath, paths), {}) == assign_names(
        map(SkillPath, sorted(paths)), {}
    )


def export(content: Path, target: Path, *, is_frozen: bool = False) -> list[str]:
    library = open_library(content).view()
    return export_skills(library, target, PLAIN, is_frozen=is_frozen).remarks


def test_the_lock_keeps_a_name_when_a_namesake_comes(tmp_path: Path) -> None:
    content, target = tmp_path / "content", tmp_path / "out"
    write_skill(content, "ui/auth.md")
    export(content, target)
    write_skill(content, "web/auth.md")

    export(content, target)

    lock = read_lock(target)
    assert lock is not None
    assert lock.read_names() == {"ui/auth": "auth", "web/auth": "web-auth"}


def test_an_old_export_is_renamed_with_one_line_unless_its_lock_is_frozen(tmp_path: Path) -> None:
    content, target = tmp_path / "content", tmp_path / "out"
    write_skill(content, "ui/auth.md")
    write_skill(content, "ui/forms.md")
    export(content, target)
    old = json.loads((target / EXPORT_LOCK_FILE).read_text())
    for name, long in {"auth": "ui-auth-x0123456", "forms": "ui-forms-x0123456"}.items():
        (target / name).rename(target / long)
        old["skills"][long] = old["skills"].pop(name)
    write(target / EXPORT_LOCK_FILE, json.dumps(old | {"version": 1}))

    frozen = export(content, target, is_frozen=True)
    kept = sorted(entry.name for entry in target.iterdir())
    remarks = export(content, target)

    assert frozen == []
    assert kept == ["skills.lock", "ui-auth-x0123456", "ui-forms-x0123456"]
    assert remarks == ["Renamed 2 skills to short names: ui-auth-x0123456 is now auth"]
    assert sorted(entry.name for entry in target.iterdir()) == ["auth", "forms", "skills.lock"]


def test_a_folder_of_others_keeps_its_name(tmp_path: Path) -> None:
    content, target = tmp_path / "content", tmp_path / "out"
    write_skill(content, "ui/auth.md")
    theirs = write(target / "auth/SKILL.md", "my own")

    export(content, target)

    assert theirs.read_text() == "my own"
    assert (target / "ui-auth/SKILL.md").is_file()


def test_a_lost_lock_leaves_the_names(tmp_path: Path) -> None:
    content, target = tmp_path / "content", tmp_path / "out"
    write_skill(content, "ui/auth.md")
    export(content, target)
    (target / EXPORT_LOCK_FILE).unlink()

    export(content, target)

    assert sorted(entry.name for entry in target.iterdir()) == ["auth", "skills.lock"]
