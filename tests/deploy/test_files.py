"""What holds for everything that is deployed."""

import re
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY
from tests.support import PROJECT

FILES = sorted(file for file in DEPLOY.rglob("*") if file.is_file())

every_file = pytest.mark.parametrize(
    "file", FILES, ids=[str(file.relative_to(DEPLOY)) for file in FILES]
)


@every_file
def test_pages_that_a_file_names_exist(file: Path) -> None:
    named = re.findall(r"docs/[\w/-]+\.md", file.read_text(encoding="utf-8"))

    assert [page for page in named if not (PROJECT / page).is_file()] == []


@every_file
def test_images_have_a_version(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    images = re.findall(r"docker\.io/[\w/.-]+(?::[\w.-]+)?", text)

    assert all(re.search(r":\d+\.\d", image) for image in images)
