"""Skills as records: what comes out is what went in."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Limits
from skills_mcp.files.arrays import DamagedTextError
from skills_mcp.skills.model import (
    Argument,
    Asset,
    Inventory,
    Problem,
    Script,
    Skill,
    Stamp,
)
from skills_mcp.skills.skill_discovery import RootWalk, read_skill
from skills_mcp.skills.source_layout import FolderTree, RelativeRoot, SkillRoot
from skills_mcp.snapshots.skill_records import NO_KEY, RECORD_KEY_BYTES, ContentRecord, SkillTable
from tests.support import SKILLS_CONTENT, make_skill

STAMP = Stamp(5, 2**62, 7)
HERE = Path("/content")


def recorded(skill: Skill, home: SkillRoot, number: int = 1) -> ContentRecord:
    key = number.to_bytes(RECORD_KEY_BYTES, "big")
    return ContentRecord.of(key, home, skill.file, (skill, ()))


def packed(*skills: Skill, home: SkillRoot | None = None) -> SkillTable:
    home = home or SkillRoot(HERE)
    records = [recorded(skill, home, number) for number, skill in enumerate(skills, 1)]
    return SkillTable.pack([(0, record) for record in records], [home])


def placed(skill: Skill) -> Skill:
    return replace(skill, location=HERE / skill.file)


def test_every_skill_comes_out_as_it_was_read() -> None:
    home = SkillRoot(SKILLS_CONTENT / "skills")
    walk = RootWalk(FolderTree(home.directory), RelativeRoot(""), Limits()).run()
    found = [each for each in walk if not isinstance(each, Problem)]
    read = [(each.file, read_skill(home, each)) for each in found]
    skills = [skill for _, (skill, _) in read if skill]

    table = SkillTable.pack(
        [(0, ContentRecord.of(NO_KEY, home, file, its)) for file, its in read if its[0]],
        [home],
    )

    assert len(table) > 20
    assert list(table) == skills
    assert [row.path for row in table.listed] == [skill.path for skill in skills]


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
        always_apply=True,
    )

    home = SkillRoot(HERE, scope="repo")
    table = packed(skill, home=home)

    assert table[0] == placed(skill)
    assert list(table.declared()) == [(["a", "b"], -3)]
    assert [row.always_apply for row in table.listed] == [True]
    assert table.files()[0] == "ui/react.md"
    [record] = table.records()
    assert SkillTable.pack([(0, record)], [home])[0] == placed(skill)


@given(st.text(), st.text(min_size=1), st.integers(-(2**70), 2**70))
def test_any_text_and_any_number_survive(body: str, name: str, priority: int) -> None:
    skill = make_skill("a", body=body, name=name, description=body, priority=priority)

    assert packed(skill)[0] == placed(skill)


def test_a_skill_is_decoded_when_more_than_its_listing_is_read() -> None:
    skill = make_skill("ui/react", name="React")
    table = packed(skill)

    damaged = SkillTable(table.arrays, bytes(len(table.text)))[0]

    assert (damaged.path, damaged.name) == ("ui/react", "React")
    with pytest.raises(DamagedTextError):
        _ = damaged.body
    assert placed(skill) == table[0] == table[0]
    assert replace(table[0], name="Vue") == replace(placed(skill), name="Vue")


def test_a_skill_does_not_hold_the_text_that_was_read() -> None:
    read = packed(make_skill("ui/react", body="Long."))[0]

    assert read.body == "Long."
    with pytest.raises(AttributeError):
        object.__getattribute__(read, "body")


def test_a_record_says_the_same_from_another_folder() -> None:
    skill = make_skill("a", directory=HERE / "a", files={"x": STAMP})
    before = packed(make_skill("_root"), skill)
    [_, kept] = before.records()

    table = SkillTable.pack([(0, kept)], [SkillRoot(Path("/later"))])

    expected = replace(skill, directory=Path("/later/a"), location=Path("/later/a.md"))
    assert list(table) == [expected]
    assert table.keys == before.keys[1:]


def test_a_table_can_be_empty() -> None:
    table = SkillTable.pack([], [])

    assert not [*table, *table.listed, *table.declared(), *table.records()]


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
        ("keys", np.zeros((1, 5), np.uint8)),
    ],
)
def test_arrays_of_another_table_are_refused(name: str, value: np.ndarray) -> None:
    table = packed(make_skill("a"))
    arrays = {**table.arrays, name: value}

    with pytest.raises(ValueError, match="do not fit together"):
        SkillTable(arrays, table.text)
