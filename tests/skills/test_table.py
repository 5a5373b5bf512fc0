"""Skills as records: what comes out is what went in."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.skills.discovery import load_skills
from skills_mcp.skills.model import Argument, Asset, Inventory, Script, Skill, Stamp
from skills_mcp.skills.packing import Kept, pack
from skills_mcp.skills.records import Place, Read
from skills_mcp.skills.table import SkillTable
from tests.support import SKILLS_CONTENT, make_skill

STAMP = Stamp(5, 2**62, 7)
HERE = Path("/content")


def packed(*skills: Skill, place: Place | None = None) -> SkillTable:
    place = place or Place(HERE)
    return pack([(0, Read.of(skill, place, STAMP)) for skill in skills], [place])


def placed(skill: Skill) -> Skill:
    return replace(skill, location=HERE / skill.file)


def test_every_skill_comes_out_as_it_was_read() -> None:
    loaded = load_skills(SKILLS_CONTENT / "skills")
    ordered = sorted(loaded.entries, key=lambda entry: entry.listed.path)

    table = pack([(0, e) for e in ordered], [Place(SKILLS_CONTENT / "skills")])

    assert len(table) > 20
    assert list(table) == sorted(loaded.skills, key=lambda skill: skill.path)
    assert [row.path for row in table.rows()] == [skill.path for skill in table]


def test_nothing_of_a_skill_is_lost() -> None:
    skill = make_skill(
        "ui/react",
        keywords=["a", "b"],
        priority=-3,
        inherit=False,
        category="web",
        scope="repo",
        assets=(Asset("t.tsx", "A template", "template"),),
        scripts=(Script("s.sh", "", "server", (Argument("n", "d", required=True),)),),
        directory=HERE / "ui/react",
        files={"t.tsx": STAMP, "s.sh": Stamp(0, 1, 2)},
        inventory=Inventory(
            script_files=("s.sh",),
            reference_files=(),
            template_files=("t.tsx",),
            total_files=2,
            total_size_bytes=5,
        ),
        examples=("add a button",),
        entry=("python3", "s.py", "two words"),
    )

    table = packed(skill, place=Place(HERE, scope="repo"))

    assert table[0] == placed(skill)
    assert table.main(0) == STAMP
    assert table.stamps(0) == [STAMP, Stamp(0, 1, 2)]
    assert list(table.declared()) == [(["a", "b"], -3)]
    assert table.file(0) == "ui/react.md"
    assert table.owns_folder(0)
    assert table.characters(0) == len(skill.body)


@given(st.text(), st.text(min_size=1), st.integers(-(2**70), 2**70))
def test_any_text_and_any_number_survive(body: str, name: str, priority: int) -> None:
    skill = make_skill("a", body=body, name=name, description=body, priority=priority)

    assert packed(skill)[0] == placed(skill)


def test_a_kept_skill_says_the_same_from_another_folder() -> None:
    skill = make_skill("a", directory=HERE / "a", files={"x": STAMP})
    before = packed(make_skill("_root"), skill)
    now = Stamp(9, 9, 9)
    kept = Kept(table=before, number=1, main=now, files={"x": now})

    table = pack([(0, kept)], [Place(Path("/later"))])

    expected = replace(
        skill,
        directory=Path("/later/a"),
        location=Path("/later/a.md"),
        files={"x": now},
    )
    assert list(table) == [expected]
    assert table.text[:] == before.record(1)
    assert [row.path for row in table.rows()] == ["a"]


def test_a_table_can_be_empty() -> None:
    table = pack([], [])

    assert not [*table, *table.rows(), *table.declared()]


def test_a_skill_that_is_not_there_is_an_index_error() -> None:
    table = packed(make_skill("a"))

    assert table[-1] == table[0]
    assert table[:1] == (table[0],)
    with pytest.raises(IndexError):
        table[1]


@pytest.mark.parametrize(
    "name, value",
    [
        ("record_ends", np.array([0, 10**9], np.uint64)),
        ("record_ends", np.array([0], np.uint64)),
        ("stamp_ends", np.array([1, 1], np.uint32)),
        ("stamps", np.zeros((1, 2), np.int64)),
        ("homes", np.zeros(5, np.uint16)),
    ],
)
def test_arrays_of_another_table_are_refused(name: str, value: np.ndarray) -> None:
    table = packed(make_skill("a"))
    arrays = {**table.arrays, name: value}

    with pytest.raises(ValueError, match="do not fit together"):
        SkillTable(arrays, table.text)
