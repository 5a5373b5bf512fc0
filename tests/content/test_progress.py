"""How far a long piece of work has got."""

import pytest

from skills_mcp.content.source import Progress


def test_every_item_counts_when_it_is_done() -> None:
    progress = Progress()

    said = [str(progress) for _ in progress.track("Reading skills", "abc", 3)]

    assert said == [f"Reading skills {done} of 3" for done in range(3)]
    assert str(progress) == "Reading skills 3 of 3"


@pytest.mark.parametrize(
    "progress, said",
    [
        (Progress(), ""),
        (Progress("Keeping the index"), "Keeping the index"),
        (Progress("Finding skills", done=12_400), "Finding skills 12,400"),
        (Progress("Reading skills", total=20_000), "Reading skills 0 of 20,000"),
    ],
)
def test_what_is_not_known_is_not_said(progress: Progress, said: str) -> None:
    assert str(progress) == said


def test_at_the_end_nothing_is_being_done() -> None:
    progress = Progress("Reading skills", 3, 3)

    progress.end()

    assert progress == Progress()
