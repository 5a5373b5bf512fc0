"""How else the words of a task may be written."""

from fractions import Fraction

import pytest

from tests.routing.matchers import matcher_of, ranking, scores, silent


@pytest.mark.parametrize(
    "name, task",
    [
        ("postmortem-writing", "Write a post-mortem of the outage"),
        ("postmortem-writing", "Write a post mortem of the outage"),
        ("post-mortem-writing", "Write a postmortem of the outage"),
        ("sha256-sums", "Check the SHA 256 of the service"),
        ("web-hooks", "Sign each webhook of the service"),
    ],
)
def test_a_word_is_found_with_and_without_its_hyphen(name: str, task: str) -> None:
    skills = [
        silent(name, name=name, description="For teams."),
        silent("incidents", name="incidents", description="Handle an outage."),
        silent("others", name="others", description="Post, login, hook, write."),
    ]

    found = matcher_of(skills).score(task)

    assert found[0].skill.path == name
    assert found[0].exact_score > Fraction(1, 5)


@pytest.mark.parametrize(
    "text, task",
    [
        ("Version 10 of the web", "Points 1, 0"),  # no part of one number
        ("The pro made it fit.", "Raise the profit"),  # never side by side
        ("post" + "mortem" * 9, "post " + "mortem" * 9),  # longer than a word
    ],
)
def test_words_are_not_taken_together_or_apart_by_chance(text: str, task: str) -> None:
    assert ranking([silent("a", description=text)], task) == []


@pytest.mark.parametrize(
    "typed, found",
    [
        ("kuberntes", True),  # a letter is missing
        ("kubernnetes", True),  # one too many
        ("kubernotes", True),  # a wrong one
        ("kubrenetes", True),  # two have changed places
        ("kubrentes", False),  # two errors
        ("uberkubernetes", False),
        ("kube", False),  # too short to tell
    ],
)
def test_a_word_with_a_typing_error_finds_what_it_means(
    typed: str,
    found: bool,  # noqa: FBT001 - the expectation
) -> None:
    skills = [
        silent("deploy", description="Deploy to kubernetes with qualify"),
        silent("other", description="Something else"),
    ]

    assert ("deploy" in scores(skills, f"{typed} xylophone")) is found


def test_a_word_that_some_skill_has_is_no_typing_error() -> None:
    skills = [
        silent("other", description="Wires and cables"),
        silent("wirse", description="The unit of Wirse"),
    ]

    assert set(scores(skills, "wirse")) == {"wirse"}
