import pytest

from skills_mcp.library.answers import Match
from skills_mcp.library.skill_library import LibraryView
from skills_mcp.routing.tokenizer import split_intents
from tests.clients import ask, connected
from tests.support import PROJECT, open_library

PACKAGES = PROJECT / "fixtures/packages-content"
TASK = "write the incident report, then announce the release"


@pytest.fixture
def view() -> LibraryView:
    return open_library(PACKAGES).view()


def test_a_task_with_two_intents_gets_both_skills_under_what_they_share(view: LibraryView) -> None:
    match = view.route(TASK)

    assert isinstance(match, Match), match
    assert match.also is not None
    texts = [view.load_skill(path).skill.body for path in (match.skill.path, match.also.path)]
    assert [match.content.count(text.splitlines()[0]) for text in texts] == [1, 1]
    assert match.content.count("=== GLOBAL RULES") <= 1


async def test_the_reply_names_both() -> None:
    async with connected(open_library(PACKAGES)) as client:
        reply = await ask(client, "get_skill", context=TASK)

    assert reply["skill_path"] == reply["skill_paths"][0]
    assert len(reply["skill_paths"]) == 2
    assert reply["message"].startswith("Both apply: ")


WISHES = {
    "engineering/release-notes": ("write the release notes", "turn the commits into release notes"),
    "engineering/api-review": ("review the API design", "do the API review of the new endpoint"),
    "engineering/incident-report": ("write the incident report", "report on the incident"),
    "documents/meeting-minutes": ("take the meeting minutes", "write minutes of the meeting"),
    "documents/release-announcement": ("announce the release", "write the release announcement"),
    "documents/pdf-forms": ("fill in the PDF form", "fill the fields of the PDF form"),
    "documents/expense-claim": ("file the expense claim", "claim the travel expenses"),
}
JOINS = (", then ", " and then ", " and ", "; ", ". Then ")


def pairs() -> list[tuple[str, set[str]]]:
    """Forty tasks with two wishes, each skill and conjunction as often as the others."""
    names = [*WISHES]
    distances = [(n, n + step) for step in (1, 2, 3) for n in range(len(names))]
    tasks = []
    for number, (one, two) in enumerate((*distances, *distances[:19])):
        first, second = names[one % len(names)], names[two % len(names)]
        wishes = WISHES[first][number % 2], WISHES[second][(number + 1) % 2]
        tasks.append((JOINS[number % len(JOINS)].join(wishes), {first, second}))
    return tasks


def test_four_of_five_tasks_with_two_intents_get_both(view: LibraryView) -> None:
    missed = []
    for task, expected in pairs():
        found = view.route(task)
        both = (
            {found.skill.path, found.also.path}
            if isinstance(found, Match) and found.also
            else set()
        )
        if both != expected:
            missed.append((task, both, found))

    assert len(missed) <= len(pairs()) // 5, missed


@pytest.mark.parametrize(
    "task",
    [
        "write release notes and a changelog",
        "fill in and sign the PDF form",
        "take minutes of the meeting and list the decisions",
        "report on the incident, with a timeline and the causes",
    ],
)
def test_one_wish_with_a_conjunction_gets_no_second_skill(view: LibraryView, task: str) -> None:
    found = view.route(task)

    assert not (isinstance(found, Match) and found.also)


def test_a_task_is_split_at_conjunctions_alone() -> None:
    assert [*split_intents("understand the standard")] == []
    assert [*split_intents("a and b")] == []
    assert [*split_intents("schreib den Bericht, dann kündige es an")] == [
        ("schreib den Bericht", "kündige es an")
    ]
