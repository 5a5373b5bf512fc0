"""What a skill says together with everything above it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.inheritance import (
    compose,
    find_in_chain,
    inherited_assets,
    inherited_scripts,
)
from skills_mcp.skills.model import Asset, Script, Skill
from tests.support import make_skill


def asset(file: str, description: str = "") -> Asset:
    return Asset(file, description, "other")


def script(file: str) -> Script:
    return Script(file, "", "server", ())


def index_of_73(*, inherit: bool = True) -> tuple[SkillIndex, Skill]:
    """Return the chain that 001 §7.3 draws."""
    auth = make_skill(
        "ui/react/auth",
        assets=(asset("AuthProvider.tsx"), asset("component-base.tsx", "own")),
        inherit=inherit,
    )
    react = make_skill("ui/react/_index", assets=(asset("component-base.tsx"),))
    ui = make_skill("ui/_index", assets=(asset("design-tokens.json"),))
    root = make_skill("_root", assets=(asset("global.css"),))
    return SkillIndex([auth, react, ui, root]), auth


@pytest.mark.spec("6.1")
@pytest.mark.spec("6.2")
def test_the_chain_is_one_text_with_a_header_for_each_part() -> None:
    auth = make_skill("ui/react/auth", body="# Auth\n\nUse the provider.")
    index = SkillIndex(
        [
            make_skill("_root", body="Be kind."),
            make_skill("ui/_index", body="Be usable."),
            make_skill("ui/react/_index", body="Be pure."),
            make_skill("api/_index", body="Not mine."),
            auth,
        ]
    )

    text = compose(index, auth)

    assert (
        text
        == """\
=== GLOBAL RULES (from _root.md) ===

Be kind.

=== UI (from ui/_index.md) ===

Be usable.

=== UI > REACT (from ui/react/_index.md) ===

Be pure.

=== UI > REACT > AUTH (from ui/react/auth.md) ===

# Auth

Use the provider."""
    )


@pytest.mark.spec("6.2")
def test_a_skill_that_does_not_inherit_is_returned_as_it_is() -> None:
    alone = make_skill("no-inherit", body="# Alone\n\nOnly this.", inherit=False)
    index = SkillIndex([make_skill("_root"), alone])

    assert compose(index, alone) == "# Alone\n\nOnly this."


@pytest.mark.spec("6.1")
def test_what_a_parent_does_not_inherit_still_reaches_its_children() -> None:
    child = make_skill("ui/a", body="A.")
    index = SkillIndex(
        [
            make_skill("_root", body="R."),
            make_skill("ui/_index", body="U.", inherit=False),
            child,
        ]
    )

    assert compose(index, child) == (
        "=== GLOBAL RULES (from _root.md) ===\n\nR.\n\n"
        "=== UI (from ui/_index.md) ===\n\nU.\n\n"
        "=== UI > A (from ui/a.md) ===\n\nA."
    )


@pytest.mark.spec("6.2")
@pytest.mark.spec("4.4")
def test_a_missing_parent_leaves_no_header() -> None:
    auth = make_skill("ui/react/auth", body="A.")
    index = SkillIndex([make_skill("ui/_index", body="U."), auth])

    assert compose(index, auth) == (
        "=== UI (from ui/_index.md) ===\n\nU.\n\n"
        "=== UI > REACT > AUTH (from ui/react/auth.md) ===\n\nA."
    )


@pytest.mark.spec("7.3")
def test_assets_of_every_ancestor_are_inherited_and_say_where_from() -> None:
    index, auth = index_of_73()

    found = {item.entry.file: item.source for item in inherited_assets(index, auth)}

    assert found == {"global.css": "_root", "design-tokens.json": "ui/_index"}


@pytest.mark.spec("7.3")
def test_the_most_specific_ancestor_overrides_the_others() -> None:
    leaf = make_skill("ui/react/auth")
    index = SkillIndex(
        [
            make_skill("_root", assets=(asset("x", "root"), asset("y", "root"))),
            make_skill("ui/_index", assets=(asset("x", "ui"),)),
            make_skill("ui/react/_index", assets=(asset("x", "react"),)),
            leaf,
        ]
    )

    found = [
        (item.entry.description, item.source) for item in inherited_assets(index, leaf)
    ]

    assert found == [("react", "ui/react/_index"), ("root", "_root")]


@pytest.mark.spec("7.3")
def test_without_inheritance_no_assets_and_scripts_come_from_above() -> None:
    index, auth = index_of_73(inherit=False)

    assert inherited_assets(index, auth) == ()
    assert inherited_scripts(index, auth) == ()


@pytest.mark.spec("7.3")
def test_scripts_are_inherited_like_assets() -> None:
    leaf = make_skill("ui/a", scripts=(script("own.sh"), script("both.sh")))
    index = SkillIndex(
        [
            make_skill("_root", scripts=(script("both.sh"), script("root.sh"))),
            make_skill("ui/_index", assets=(asset("root.sh"),)),
            leaf,
        ]
    )

    [found] = inherited_scripts(index, leaf)

    assert (found.entry, found.source) == (script("root.sh"), "_root")


@pytest.mark.spec("7.5")
@pytest.mark.parametrize(
    "file, source, owner",
    [
        ("AuthProvider.tsx", None, "ui/react/auth"),
        ("component-base.tsx", None, "ui/react/auth"),
        ("design-tokens.json", "ui/_index", "ui/_index"),
        ("global.css", "_root", "_root"),
    ],
)
def test_a_file_is_looked_up_from_the_skill_to_the_root(
    file: str, source: str | None, owner: str
) -> None:
    index, auth = index_of_73()

    located = find_in_chain(index, auth, file)

    assert located is not None
    assert located.source == source
    assert located.owner.path == owner
    assert located.entry.file == file


@pytest.mark.spec("7.5")
def test_the_skills_own_file_is_found_before_its_parents() -> None:
    index, auth = index_of_73()

    located = find_in_chain(index, auth, "component-base.tsx")

    assert located is not None
    assert located.entry.description == "own"


@pytest.mark.spec("7.5")
def test_a_file_that_nobody_in_the_chain_declares_is_not_found() -> None:
    index, auth = index_of_73()

    assert find_in_chain(index, auth, "other.css") is None


@pytest.mark.spec("7.5")
def test_without_inheritance_only_the_skills_own_files_are_found() -> None:
    index, auth = index_of_73(inherit=False)

    assert find_in_chain(index, auth, "AuthProvider.tsx") is not None
    assert find_in_chain(index, auth, "global.css") is None


FILES = st.sets(st.sampled_from("abcd"))


@pytest.mark.spec("7.3")
@pytest.mark.spec("7.5")
@given(st.lists(FILES, min_size=1, max_size=5))
def test_what_is_listed_is_what_the_lookup_finds(levels: list[set[str]]) -> None:
    folders = ["/".join("x" * depth) for depth in range(1, len(levels))]
    paths = ["_root", *(f"{folder}/_index" for folder in folders)]
    skills = [
        make_skill(path, assets=tuple(map(asset, sorted(files))))
        for path, files in zip(paths, levels, strict=True)
    ]
    index, leaf = SkillIndex(skills), skills[-1]

    listed = {item.entry.file: item.source for item in inherited_assets(index, leaf)}

    for file in "abcd":
        located = find_in_chain(index, leaf, file)
        assert listed.get(file) == (located.source if located else None)
