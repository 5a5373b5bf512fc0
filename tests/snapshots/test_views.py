"""A caller costs a mask, and callers who see the same share it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.skill_index import NO_FILTER, SkillFilter
from skills_mcp.snapshots.skill_snapshot import (
    MAX_COMPOSITIONS,
    MAX_GRANT_VIEWS,
    MAX_SCOPE_VIEWS,
    Snapshot,
)
from tests.packages import write_package
from tests.skills.contents import part_of, take
from tests.support import write_skill


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Return the skills a/one, a/two and b/three."""
    for file in ("a/one.md", "a/two.md", "b/three.md"):
        write_skill(tmp_path / "content", file, keywords=["word"])
    return take(tmp_path / "content")


def granted(*allow: str, scope: Sequence[str] = ()) -> Access:
    return Access(((allow, ()),), tuple(scope))


def paths(snapshot: Snapshot) -> list[str]:
    return [skill.path for skill in snapshot.index]


def test_everything_is_the_snapshot_itself(snapshot: Snapshot) -> None:
    assert snapshot.seen_by(EVERYTHING) is snapshot
    assert len(snapshot.views) == 0


def test_a_thousand_callers_with_five_grants_cost_five_views(
    snapshot: Snapshot,
) -> None:
    patterns = ("a/**", "b/**", "a/one", "a/two", "*")

    views = [snapshot.seen_by(granted(patterns[n % 5])) for n in range(1000)]

    assert len(snapshot.views) == 5
    assert len({id(view) for view in views}) == 5


def test_other_grants_that_show_the_same_share_a_view(snapshot: Snapshot) -> None:
    one, other = granted("a/**"), granted("a/one", "a/two")

    assert snapshot.seen_by(one) is snapshot.seen_by(other)


def test_scopes_of_a_caller_s_choice_evict_no_view_of_grants(tmp_path: Path) -> None:
    skills = [f"s{number}" for number in range(2 * MAX_SCOPE_VIEWS)]
    for skill in skills:
        write_skill(tmp_path / "content", f"{skill}.md")
    snapshot = take(tmp_path / "content")
    kept = [snapshot.seen_by(granted(each, "s0")) for each in skills]

    for each in skills:
        snapshot.seen_by(granted("*", scope=[each]))

    assert [snapshot.seen_by(granted(each, "s0")) for each in skills] == kept
    assert len(snapshot.narrowed) == MAX_SCOPE_VIEWS


def test_a_scope_narrows_the_view_of_the_grants(snapshot: Snapshot) -> None:
    narrowed = snapshot.seen_by(granted("a/**", scope=["a/one", "b/**"]))

    assert paths(narrowed) == ["a/one"]
    assert len(snapshot.views) == 1
    assert narrowed is snapshot.seen_by(granted("a/*", scope=["*one"]))


def test_a_view_is_let_go_after_many_others(tmp_path: Path) -> None:
    for number in range(MAX_GRANT_VIEWS + 1):
        write_skill(tmp_path / "content", f"s{number}.md")
    snapshot = take(tmp_path / "content")

    for number in range(MAX_GRANT_VIEWS + 1):
        assert paths(snapshot.seen_by(granted(f"s{number}"))) == [f"s{number}"]

    assert len(snapshot.views) == MAX_GRANT_VIEWS


def test_a_view_has_no_index_of_its_own(snapshot: Snapshot) -> None:
    view = snapshot.seen_by(granted("a/**"))
    view.prepare()
    view.indexes.ranked()

    assert view.state.texts is not None
    assert view.state.texts is snapshot.state.texts
    assert view.state.keywords is snapshot.state.keywords


def test_threads_that_ask_at_once_get_one_view(snapshot: Snapshot) -> None:
    together = Barrier(8)

    def ask(_: int) -> Snapshot:
        together.wait()
        return snapshot.seen_by(granted("b/**"))

    with ThreadPoolExecutor(8) as pool:
        views = list(pool.map(ask, range(8)))

    assert len({id(view) for view in views}) == 1


def test_a_view_is_prepared_once_it_is_made(snapshot: Snapshot) -> None:
    access = granted("a/**")

    assert not snapshot.is_prepared_for(access)
    snapshot.seen_by(access).prepare()
    assert snapshot.is_prepared_for(access)


def test_problems_are_for_those_who_see_everything(tmp_path: Path) -> None:
    write_skill(tmp_path / "content", "a/one.md", keywords=["the"])
    snapshot = take(tmp_path / "content")

    assert snapshot.problems
    assert snapshot.seen_by(granted("*")).problems == ()


@pytest.mark.parametrize(
    "allow, mounts",
    [
        (["*"], {"", "teams/web", "teams/web/more"}),
        (["teams/**"], {"teams/web", "teams/web/more"}),
        (["teams/web/more/*"], {"teams/web/more"}),
        (["top"], {""}),
        (["absent"], set()),
    ],
)
def test_a_source_is_known_to_those_who_see_one_of_its_skills(
    tmp_path: Path, allow: list[str], mounts: set[str]
) -> None:
    write_skill(tmp_path / "one", "top.md")
    write_skill(tmp_path / "two", "below.md")
    write_skill(tmp_path / "two/inner", "inmost.md")
    snapshot = take(
        part_of(tmp_path / "one"),
        part_of(tmp_path / "two", at="teams/web"),
        part_of(tmp_path / "two/inner", at="teams/web/more"),
    )

    assert snapshot.shown_mounts is None
    assert set(snapshot.seen_by(granted(*allow)).shown_mounts or ()) == mounts


def test_the_algorithm_is_that_of_what_is_seen(tmp_path: Path) -> None:
    write_skill(tmp_path / "content", "a/rules.md", keywords=["react"])
    (tmp_path / "content/pdf").mkdir()
    text = "---\nname: pdf\ndescription: Fills forms.\n---\nDo it.\n"
    (tmp_path / "content/pdf/SKILL.md").write_text(text)
    snapshot = take(tmp_path / "content")

    assert snapshot.algorithm == "mixed"
    view = snapshot.seen_by(granted("a/**"))
    assert view.algorithm == "keyword"
    found = view.matcher.score("react")
    assert [each.skill.path for each in found] == ["a/rules"]


def test_the_key_of_a_list_knows_nothing_of_what_is_hidden(tmp_path: Path) -> None:
    content, access = tmp_path / "content", granted("a/**")
    write_skill(content, "a/one.md", description="One")
    write_skill(content, "b/two.md", description="Two")
    before = take(content)
    write_skill(content, "b/two.md", description="Other")
    write_skill(content, "b/three.md")
    hidden = take(content)
    write_skill(content, "a/one.md", description="One", body="Another text.")
    said = take(content)
    write_skill(content, "a/one.md", description="Changed")
    changed = take(content)

    keys = [each.indexes.listing_key for each in (before, hidden, said, changed)]
    states = (before, hidden, said, changed)
    seen = [each.seen_by(access).indexes.listing_key for each in states]

    assert len(set(keys)) == 3
    assert seen[0] == seen[1] == seen[2]
    assert seen[2] != seen[3]


@pytest.mark.parametrize("allow", [["b/**"], ["b/**", "c/*"], ["*"]])
def test_the_copy_that_a_caller_sees_is_what_every_matcher_finds(
    tmp_path: Path, allow: list[str]
) -> None:
    for folder in ("a", "b", "c"):
        write_package(tmp_path / "content", f"{folder}/pdf", description="Fills forms.")
    write_skill(tmp_path / "content", "b/forms.md", keywords=["forms"])
    snapshot = take(tmp_path / "content", settings={"toolsets": ["core", "packages"]})
    view = snapshot.seen_by(granted(*allow))
    first = "a/pdf" if "*" in allow else "b/pdf"

    assert view.index.resolve("pdf").path == first
    for matcher in (view.matcher, view.ranked):
        for task in ("fills forms", "pdf", first):
            found = [each.skill.path for each in matcher.score(task)]
            assert first in found
            assert "pdf" not in {path for path in found if path != first}
        assert matcher.explain("fills forms", view.index.resolve("pdf"))
    assert view.indexes.names.find_path("a/pdf") == ((0,) if first == "a/pdf" else ())
    within = view.narrow(SkillFilter(below=first))
    assert view.narrow(NO_FILTER) is None
    assert within is not None
    [number] = np.flatnonzero(within)
    assert view.indexes.skills[int(number)].path == first


def test_the_copy_that_is_seen_stands_in_its_own_order(tmp_path: Path) -> None:
    for folder in ("a", "z"):
        write_package(tmp_path / "content", f"{folder}/pdf", description="Fills forms.")
    for folder in ("b", "y"):
        write_package(tmp_path / "content", f"{folder}/doc", description="Fills forms.")
    write_package(tmp_path / "content", "m/forms", description="Fills forms.")
    snapshot = take(tmp_path / "content")
    hidden = Access(((("*",), ("a/*", "b/*")),))

    view = snapshot.seen_by(hidden)

    assert paths(snapshot) == ["a/pdf", "b/doc", "m/forms"]
    assert paths(view) == ["m/forms", "y/doc", "z/pdf"]
    found = [each.skill.path for each in view.matcher.score("fills")]
    assert found == ["m/forms", "y/doc", "z/pdf"]


def test_a_text_is_composed_once_and_anew_for_who_sees_less(tmp_path: Path) -> None:
    write_skill(tmp_path / "content", "_root.md", body="Be kind.")
    write_skill(tmp_path / "content", "a/one.md", keywords=["word"])
    snapshot = take(tmp_path / "content")
    limited = snapshot.seen_by(granted("a/**"))
    skill = limited.index.require("a/one")

    composed = snapshot.compose(skill)

    assert snapshot.compose(skill) is composed
    assert "Be kind." in composed.guidance
    assert "Be kind." not in limited.compose(skill).guidance


def test_few_composed_texts_are_kept_for_all_views_together(tmp_path: Path) -> None:
    for number in range(MAX_COMPOSITIONS + 1):
        write_skill(tmp_path / "content", f"a/n{number}.md", keywords=["word"])
    snapshot = take(tmp_path / "content")
    hiding = [Access(((("a/*",), (f"*/n{number}",)),)) for number in range(2)]
    views = (snapshot, *map(snapshot.seen_by, hiding))

    kept = [view.compose(skill) for view in views for skill in view.index]

    assert len({id(view.composed) for view in views}) == 1
    assert len(snapshot.composed) <= MAX_COMPOSITIONS < len({*map(id, kept)})
