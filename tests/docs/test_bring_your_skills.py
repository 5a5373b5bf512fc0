"""The guides for packages and for routing print what they say."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks
from tests.docs.test_tutorial import normalised, run_page, steps


@pytest.mark.parametrize(
    "page",
    [
        "bring-your-skills.md",
        "write-a-package.md",
        "test-your-routing.md",
        "my-skill-is-not-chosen.md",
    ],
)
def test_the_guides_print_what_they_say(tmp_path: Path, shell_path: str, page: str) -> None:
    folder = tmp_path / "ada"
    folder.mkdir()
    guide = DOCS / "how-to" / page
    shown = [step for each in blocks(guide, "console") for step in steps(each)]

    printed = run_page(guide, folder, shell_path)

    for (command, expected), real in zip(shown, printed, strict=True):
        assert normalised(real) == normalised(expected), command
    assert shown
