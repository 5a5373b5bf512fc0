"""A push, and which sources could have moved with it."""

from pathlib import Path

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Push, Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import LocalFolder, Mount

ADDRESSES = (
    "https://git.acme.com/platform/skills.git",
    "git@git.acme.com:platform/skills.git",
    "https://git.acme.com/platform/skills",
)
MAIN = Push(ADDRESSES, "refs/heads/main", "main")
SKILLS = "https://git.acme.com/platform/skills.git"


@pytest.mark.parametrize(
    "url",
    [
        SKILLS,
        "https://git.acme.com/platform/skills",
        "https://git.acme.com/Platform/Skills.git/",
        "https://GIT.acme.com:8443/platform/skills.git",
        "https://ada@git.acme.com/platform/skills.git",
        "http://git.acme.com/platform%2Fskills.git",
        "git@git.acme.com:platform/skills.git",
        "ssh://git@git.acme.com:2222/platform/skills.git",
    ],
)
def test_a_repository_is_known_by_each_of_its_addresses(url: str) -> None:
    assert MAIN.may_move(Remote(url, "main"))


@pytest.mark.parametrize(
    "url",
    [
        "https://git.acme.com/platform/other.git",
        "https://git.acme.com/platform/skills-2.git",
        "https://git.acme.com/skills.git",
        "git@git.acme.com:other/skills.git",
    ],
)
def test_another_repository_of_the_same_host_has_not_moved(url: str) -> None:
    assert not MAIN.may_move(Remote(url, "main"))


@pytest.mark.parametrize(
    "url",
    [
        "/srv/mirrors/skills.git",
        "file:///srv/mirrors/anything.git",
        "https://mirror.acme.com/skills-copy.git",
        "git@alias-of-our-forge:platform/skills.git",
        "https://[broken/skills.git",
    ],
)
def test_a_mirror_or_an_alias_may_have_moved(url: str) -> None:
    assert MAIN.may_move(Remote(url, "main"))


@pytest.mark.parametrize("addresses", [(), ("",), ("no address",), ("https://[x",)])
def test_a_push_without_an_address_may_be_of_any_repository(
    addresses: tuple[str, ...],
) -> None:
    assert Push(addresses, "refs/heads/main").may_move(Remote(SKILLS, "main"))


@pytest.mark.parametrize(
    "followed, ref, may_move",
    [
        ("main", "refs/heads/main", True),
        ("main", "refs/heads/next", False),
        ("main", "refs/tags/main", False),
        ("main", "", True),
        ("release/2", "refs/heads/release/2", True),
        ("release/2", "refs/heads/main", False),
        ("", "refs/heads/main", True),
        ("", "refs/heads/trunk", True),  # followed where there is no main
        ("", "refs/heads/next", False),
        ("HEAD", "refs/heads/trunk", True),
        ("HEAD", "refs/heads/next", False),
    ],
)
def test_only_the_branch_that_is_followed_counts(
    followed: str, ref: str, *, may_move: bool
) -> None:
    push = Push(ADDRESSES, ref, "trunk")

    assert push.may_move(Remote(SKILLS, followed)) is may_move


@pytest.mark.parametrize("followed", ["", "HEAD"])
def test_without_a_default_branch_each_branch_may_be_it(followed: str) -> None:
    assert Push(ADDRESSES, "refs/heads/next").may_move(Remote(SKILLS, followed))


def test_a_tag_counts_for_what_is_pinned_to_it() -> None:
    pinned = Remote(SKILLS, "main", pin="v2")

    assert Push(ADDRESSES, "refs/tags/v2").may_move(pinned)
    assert not Push(ADDRESSES, "refs/tags/v3").may_move(pinned)
    assert not MAIN.may_move(pinned)


def test_a_commit_that_is_pinned_never_moves() -> None:
    assert not MAIN.may_move(Remote(SKILLS, "", pin="a" * 40))


def test_of_several_sources_one_is_enough(tmp_path: Path) -> None:
    def mounts(*urls: str) -> Mounts:
        followed = (RemoteBranch(Remote(url, "main"), tmp_path) for url in urls)
        return Mounts([Mount(source=each, at=str(n)) for n, each in enumerate(followed)])

    other = "https://git.acme.com/platform/other.git"

    assert mounts(other, SKILLS).may_move(MAIN)
    assert not mounts(other).may_move(MAIN)


def test_folders_alone_are_read_again_after_each_push(tmp_path: Path) -> None:
    folder = Mount(source=LocalFolder(tmp_path), at="folder")
    other = RemoteBranch(Remote("https://git.acme.com/other.git", "main"), tmp_path)

    assert Mounts([folder]).may_move(MAIN)
    assert not Mounts([folder, Mount(source=other, at="other")]).may_move(MAIN)
