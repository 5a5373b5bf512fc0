"""The recipes of the page are the files that `make test-integrations` runs."""

import re

import pytest

from tests.docs.pages import DOCS, block, blocks, table
from tests.support import PROJECT

_PAGE = DOCS / "how-to" / "other-frameworks.md"
_RECIPES = sorted((PROJECT / "frameworks").glob("*/recipe.py"))


def test_every_recipe_is_on_the_page() -> None:
    titles = {each.title for each in blocks(_PAGE, "python")}

    assert titles == {f"{recipe.parent.name}.py" for recipe in _RECIPES}


@pytest.mark.parametrize("name", [recipe.parent.name for recipe in _RECIPES])
def test_a_recipe_is_what_is_tested(name: str) -> None:
    tested = PROJECT / "frameworks" / name / "recipe.py"

    assert block(_PAGE, "python", f"title={name}.py") == tested.read_text("utf-8")


def test_the_versions_are_those_that_are_tested() -> None:
    [rows] = [table(_PAGE.read_text(encoding="utf-8"))]

    for row in rows:
        package = re.findall(r"install '?([\w-]+)", row["Install"])[0]
        pins = [
            line
            for file in (PROJECT / "frameworks").glob("*/constraints.txt")
            if (file.parent / "recipe.py").exists()
            for line in file.read_text("utf-8").splitlines()
        ]
        versions = {p.partition("==")[2] for p in pins if p.startswith(f"{package}==")}
        assert [v for v in versions if v.startswith(f"{row['Version']}.")], row
