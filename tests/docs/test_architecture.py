"""The modules and functions that the explanation of the architecture names."""

import re
from pathlib import Path

import skills_mcp
from tests.docs.pages import DOCS, SOURCES, block, codes, section


def test_the_tree_of_modules_is_that_of_the_source() -> None:
    folders: dict[int, str] = {}
    shown = set()
    lines = block(DOCS / "explanation" / "architecture.md", "text", "modules")
    for line in lines.splitlines()[1:]:
        rails, name = re.match(r"([│├└─ ]+)(\S+)", line).groups()  # type: ignore[union-attr]
        depth = len(rails) // 4
        folders[depth] = name
        if name.endswith(".py"):
            shown.add("".join(folders[d] for d in range(1, depth + 1)))

    root = Path(skills_mcp.__file__).parent
    assert shown == {source.relative_to(root).as_posix() for source in SOURCES}


def test_the_walk_of_a_request_names_functions_that_exist() -> None:
    walk = section(
        DOCS / "explanation" / "architecture.md", "## The walk of one request"
    )
    code_base = "\n".join(source.read_text(encoding="utf-8") for source in SOURCES)
    names = [name.rpartition(".")[2] for name in codes(walk)]

    assert [n for n in names if not re.search(rf"(?:def|class) {n}\b", code_base)] == [
        "get_skill"  # the tool
    ]
