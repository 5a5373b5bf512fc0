"""Life cycle and relations of skills, as agents get them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.library.answers import Match
from skills_mcp.library.skill_library import LibraryView
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.skills.access import Access
from tests.clients import ask, connected
from tests.packages import write_package
from tests.support import open_library, write_skill

ALL = ((("*",), ()),)


def serve(root: Path, settings: Mapping[str, Any] | None = None) -> LibraryView:
    return open_library(root, settings=settings).view()


def served(view: LibraryView, task: str, **given: Any) -> Match:
    found = view.route(task, **given)
    assert isinstance(found, Match), found
    return found


# Drafts


def test_a_draft_is_found_by_its_path_alone_and_says_so(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/login.md", keywords=["login"], status="draft")
    view = serve(tmp_path)

    by_task = view.route("login")
    picked = served(view, "login", skill_path="ui/login")

    assert isinstance(by_task, NoMatch)
    assert picked.content.startswith("Draft: ")
    assert not len(view.snapshot.index)
    assert view.load_skill("ui/login").instructions.startswith("Draft: ")


async def test_a_reply_names_a_draft(tmp_path: Path) -> None:
    write_skill(tmp_path, "login.md", keywords=["login"], status="draft")

    async with connected(open_library(tmp_path)) as client:
        reply = await ask(client, "get_skill", context="login", skill_path="login")

    assert reply["status"] == "draft"


def test_drafts_are_routed_to_where_the_operator_wants_it(tmp_path: Path) -> None:
    write_skill(tmp_path, "login.md", keywords=["login"], status="draft")
    view = serve(tmp_path, {"visibility": {"drafts": True}})

    assert served(view, "login").skill.lifecycle.is_draft
    assert [skill.path for skill in view.snapshot.index] == ["login"]


@pytest.mark.parametrize("algorithm", ["keyword", "ranked"])
def test_a_grant_decides_who_sees_drafts(tmp_path: Path, algorithm: str) -> None:
    write_skill(tmp_path, "login.md", keywords=["login"], status="draft")
    write_skill(tmp_path, "refund.md", keywords=["invoice"])
    grants = [{"allow": ["*"], "drafts": True}]
    settings = {"access": grants, "matching": {"algorithm": algorithm}}
    library = open_library(tmp_path, settings=settings)

    author = library.view(Access(ALL, draft_grants=ALL))
    other = library.view(Access(ALL))
    operator = library.view()

    assert served(author, "login").skill.path == "login"
    assert isinstance(other.route("login"), NoMatch)
    with pytest.raises(SkillNotFoundError):
        other.route("login", skill_path="login")
    assert isinstance(operator.route("login"), NoMatch)
    assert served(operator, "login", skill_path="login").skill.path == "login"


def test_problems_of_a_draft_are_for_those_who_see_it(tmp_path: Path) -> None:
    write_skill(tmp_path, "login.md", status="draft", priority="high")
    library = open_library(tmp_path)

    author, other = Access(ALL, draft_grants=ALL), Access(ALL)

    assert len(library.view(author).list_problems()) == 1
    assert library.view(other).list_problems() == ()
    # What is about all skills, such as the words of changes, is for the author alone.
    assert [library.view(access).sees_everything for access in (author, other)] == [True, False]


def test_a_draft_with_grants_is_no_loss(tmp_path: Path) -> None:
    for name in "abcdef":
        write_skill(tmp_path, f"{name}.md", status="draft")
    library = open_library(tmp_path, settings={"access": [{"allow": ["*"], "drafts": True}]})
    write_skill(tmp_path, "g.md")

    library.sync()

    assert [state.loss for state in library.view().states()] == [None]


def test_the_rules_of_a_draft_folder_reach_drafts_alone(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/_index.md", body="Of the folder.", status="draft")
    write_skill(tmp_path, "ui/login.md", keywords=["login"])
    write_skill(tmp_path, "ui/logout.md", keywords=["logout"], status="active")
    view = serve(tmp_path)

    active, draft = served(view, "logout"), served(view, "login", skill_path="ui/login")

    assert "Of the folder." not in active.content
    assert "Of the folder." in draft.content
    assert isinstance(view.route("login"), NoMatch)


# Deprecated skills


def test_a_deprecated_skill_says_so_first(tmp_path: Path) -> None:
    write_skill(tmp_path, "old.md", keywords=["refund"], status="deprecated")
    write_skill(tmp_path, "why.md", keywords=["invoice"], deprecated="Taxes moved.")
    view = serve(tmp_path)

    assert served(view, "refund").content.startswith("Deprecated.\n\n")
    assert served(view, "invoice").content.startswith("Deprecated: Taxes moved.\n\n")


@pytest.mark.parametrize("algorithm", ["keyword", "ranked"])
def test_a_task_gets_the_last_successor_of_a_deprecated_skill(
    tmp_path: Path, algorithm: str
) -> None:
    write_skill(tmp_path, "data/a.md", keywords=["kafka", "topic"], replaced_by="data/b")
    write_skill(tmp_path, "data/b.md", keywords=["stream"], replaced_by="data/events")
    write_skill(tmp_path, "data/events.md", keywords=["event"], body="Publish events.")
    view = serve(tmp_path, {"matching": {"algorithm": algorithm}})

    routed = served(view, "kafka topic")
    picked = served(view, "kafka topic", skill_path="data/a")

    assert (routed.skill.path, routed.replaces) == ("data/events", "data/a")
    assert "Publish events." in routed.content
    assert picked.skill.path == "data/a"
    assert picked.content.startswith("Use data/events instead: this skill is deprecated.\n\n")


def test_many_predecessors_of_one_skill_hide_no_other(tmp_path: Path) -> None:
    for number in range(60):
        name = f"old-{number}"
        write_package(tmp_path, name, description="Publish a kafka event", replaced_by="new")
    write_package(tmp_path, "new", description="Publish an event")
    write_package(tmp_path, "other", description="Publish a page about an event")
    view = serve(tmp_path)

    found = view.snapshot.matcher.score("publish a kafka event", limit=2)

    assert [candidate.skill.path for candidate in found] == ["new", "other"]


def test_a_package_succeeds_a_rule_file(tmp_path: Path) -> None:
    write_skill(tmp_path, "old.md", keywords=["kafka", "topic"], replaced_by="new")
    write_package(tmp_path, "new", name="new", description="Publish an event", replaced_by="")
    write_package(tmp_path, "past", name="past", description="Fill a form", replaced_by="form")
    write_skill(tmp_path, "form.md", keywords=["paper"])
    view = serve(tmp_path)

    assert view.snapshot.algorithm == "mixed"
    assert served(view, "a kafka topic").skill.path == "new"
    assert served(view, "past").skill.path == "form"


@pytest.mark.parametrize("algorithm", ["auto", "ranked"])
def test_a_skill_for_users_alone_succeeds_none_for_a_task(tmp_path: Path, algorithm: str) -> None:
    write_skill(tmp_path, "old.md", keywords=["kafka", "topic"], replaced_by="new")
    hidden: dict[str, Any] = {"disable-model-invocation": True}
    write_package(tmp_path, "new", name="new", description="Publish an event", **hidden)
    view = serve(tmp_path, {"matching": {"algorithm": algorithm}})

    assert served(view, "a kafka topic").skill.path == "old"
    assert served(view, "a kafka topic", skill_path="new").skill.path == "new"


async def test_a_reply_names_both_skills_where_one_replaces_the_other(tmp_path: Path) -> None:
    write_skill(tmp_path, "old.md", keywords=["kafka"], replaced_by="new")
    write_skill(tmp_path, "new.md", keywords=["event"])

    async with connected(open_library(tmp_path)) as client:
        routed = await ask(client, "get_skill", context="kafka")
        picked = await ask(client, "get_skill", context="kafka", skill_path="old")
        listed = await ask(client, "list_skills")

    assert (routed["skill_path"], routed["replaces"]) == ("new", "old")
    assert (picked["skill_path"], picked["replaced_by"]) == ("old", "new")
    assert picked["status"] == "deprecated"
    new, old = listed["tree"]["children"]
    assert (old["status"], "status" in new) == ("deprecated", False)
    assert old["description"].startswith("Deprecated, use new instead: ")


@pytest.mark.parametrize("algorithm", ["keyword", "ranked"])
def test_a_deprecated_skill_is_served_behind_every_other(tmp_path: Path, algorithm: str) -> None:
    write_skill(tmp_path, "a.md", keywords=["kafka", "topic", "stream"], status="deprecated")
    write_skill(tmp_path, "b.md", keywords=["kafka", "topic"])
    settings = {"matching": {"algorithm": algorithm}}
    view = serve(tmp_path, settings)

    alike = view.route("a kafka topic")
    clearly_better = view.route("stream a kafka topic to the stream")

    assert isinstance(alike, Match | Ambiguous)
    first = alike.skill if isinstance(alike, Match) else alike.candidates[0].skill
    assert first.path == "b"
    if isinstance(clearly_better, Ambiguous):
        assert [found.skill.path for found in clearly_better.candidates] == ["b", "a"]
    else:
        assert isinstance(clearly_better, Match)
        assert clearly_better.skill.path == "b"


@pytest.mark.parametrize(
    "successor",
    [{"replaced_by": "old"}, {"status": "draft"}, {"replaced_by": "absent"}],
    ids=["circle", "draft", "missing"],
)
def test_a_chain_without_an_end_replaces_nothing(tmp_path: Path, successor: dict[str, str]) -> None:
    write_skill(tmp_path, "old.md", keywords=["kafka"], replaced_by="new")
    write_skill(tmp_path, "new.md", keywords=["event"], **successor)
    view = serve(tmp_path)

    routed = served(view, "kafka")

    assert (routed.skill.path, routed.replaces) == ("old", None)
    assert routed.content.startswith("Deprecated.\n\n")


def test_a_folder_is_deprecated_with_its_skills(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/_index.md", status="deprecated", deprecated="Use the new kit.")
    write_skill(tmp_path, "ui/login.md", keywords=["login"])
    write_skill(tmp_path, "ui/logout.md", keywords=["logout"], status="active")
    write_package(tmp_path, "ui/pdf", description="Fill in a form")
    view = serve(tmp_path)

    assert served(view, "login").content.startswith("Deprecated: Use the new kit.\n\n")
    assert not served(view, "logout").skill.lifecycle.is_deprecated
    assert view.load_skill("ui/pdf").skill.lifecycle.is_deprecated


def test_the_owner_and_the_review_of_a_folder_are_those_of_its_skills(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/_index.md", owner="team-web", review_by="2027-01-31")
    write_skill(tmp_path, "ui/login.md", keywords=["login"])
    write_skill(tmp_path, "ui/logout.md", keywords=["logout"], owner="Ada")
    view = serve(tmp_path)

    login, logout = served(view, "login").skill, served(view, "logout").skill

    assert (login.owner, logout.owner) == ("team-web", "Ada")
    assert login.lifecycle.review_by == logout.lifecycle.review_by == "2027-01-31"


# Relations


def test_a_required_skill_is_served_with_the_skill(tmp_path: Path) -> None:
    write_skill(tmp_path, "_root.md", body="For all.")
    write_skill(tmp_path, "data/_index.md", body="Of data.")
    write_skill(tmp_path, "data/base.md", body="The base.")
    write_skill(tmp_path, "data/events.md", body="The events.", requires=["data/base"])
    write_skill(
        tmp_path,
        "ui/login.md",
        keywords=["login"],
        body="The login.",
        requires=["events", "data/base"],
    )
    view = serve(tmp_path)

    match = served(view, "login")

    bodies = ("For all.", "Of data.", "The base.", "The events.", "The login.")
    positions = [match.content.index(body) for body in bodies]
    assert positions == sorted(positions)
    assert [match.content.count(body) for body in bodies] == [1] * 5
    assert match.relations.requires == ("data/base", "data/events")
    loaded = view.load_skill("ui/login")
    assert (loaded.instructions, loaded.digest) == (match.content, match.digest)


def test_a_required_skill_that_is_too_long_is_named(tmp_path: Path) -> None:
    write_skill(tmp_path, "long.md", keywords=["long"], body="x" * 20_000)
    write_skill(tmp_path, "short.md", keywords=["short"], body="Short.")
    write_skill(tmp_path, "login.md", keywords=["login"], requires=["long", "short"])
    view = serve(tmp_path, {"responses": {"max_characters": 10_000}})

    match = served(view, "login")

    assert (match.relations.requires, match.relations.omitted) == (("short",), ("long",))
    assert match.content.endswith("left out for its length: long.")


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"requires": ["ui/logni"]}, "ui/logni"),
        ({"requires": ["ui/draft"]}, "which is a draft"),
        ({"requires": ["ui/circle"]}, "requires it in turn"),
        ({"requires": ["ui/login"]}, "requires it in turn"),
    ],
    ids=["missing", "draft", "cycle", "itself"],
)
async def test_a_relation_that_cannot_be_served_is_a_problem_of_the_reply(
    tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    write_skill(tmp_path, "ui/login.md", keywords=["login"], body="The login.", **fields)
    write_skill(tmp_path, "ui/draft.md", keywords=["draft"], status="draft")
    write_skill(tmp_path, "ui/circle.md", keywords=["circle"], requires=["ui/login"])

    async with connected(open_library(tmp_path)) as client:
        reply = await ask(client, "get_skill", context="login")

    assert "The login." in reply["content"]
    assert reason in reply["problems"][0]


def test_programs_are_no_relations(tmp_path: Path) -> None:
    write_skill(tmp_path, "login.md", keywords=["login"], requires=["docker", "node"])

    assert served(serve(tmp_path), "login").relations.problems == ()


async def test_related_skills_are_named(tmp_path: Path) -> None:
    write_skill(tmp_path, "login.md", keywords=["login"], related=["logout", "absent"])
    write_skill(tmp_path, "logout.md", keywords=["logout"])

    async with connected(open_library(tmp_path)) as client:
        reply = await ask(client, "get_skill", context="login")

    assert reply["related"] == ["logout"]
