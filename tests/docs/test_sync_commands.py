"""What the reference shows of sync, status and rollback is what they print."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from tests.docs.pages import REFERENCE, blocks
from tests.docs.test_tutorial import normalised, run_page, steps
from tests.support import Upstream, skill_text

__all__ = ["run"]

_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")


def test_the_examples_of_the_reference_print_what_it_says(
    run: Run, tmp_path: Path, shell_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ada"
    upstream = Upstream.create(folder)
    (folder / "skills.git").symlink_to(upstream.bare)
    monkeypatch.setenv("SKILLS_REPO", f"file://{folder}/skills.git")
    good = upstream.commit({"one.md": skill_text()})
    run("sync")
    bad = upstream.commit({"one.md": skill_text(description="Bad")})
    page = REFERENCE / "cli" / "content.md"
    shown = [step for each in blocks(page, "console") for step in steps(each)]

    printed = run_page(page, folder, shell_path)

    for (command, expected), real in zip(shown, printed, strict=True):
        assert normalised(real) == normalised(expected), command
    said = commits(text for _, text in shown)
    meant = {said[0]: bad, said[2]: good}
    assert commits(printed) == [meant[commit] for commit in said]


def commits(texts: Iterable[str]) -> list[str]:
    return _COMMIT.findall("".join(texts))
