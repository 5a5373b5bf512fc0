"""The page of conformance is that of a run with the programs that are pinned."""

from tests.docs.pages import DOCS
from tests.e2e.test_conformance import VERSIONS
from tests.e2e.test_programs_of_others import NPM, PYPI

PAGE = DOCS / "conformance.md"


def test_the_page_names_each_program_in_its_version() -> None:
    text = PAGE.read_text(encoding="utf-8")

    judged = {**NPM, "skills-ref": PYPI["skills-ref"], "FastMCP": PYPI["fastmcp"]}
    judged["skills (npm)"] = judged.pop("skills")
    judged["agentskills-testing"] = PYPI["agentskills-testing"]
    suite = "@modelcontextprotocol/conformance"
    rows = [*judged.items(), *((suite, number) for number in VERSIONS.values())]
    assert [row for row in rows if f"| {row[0]} | {row[1]} |" not in text] == []
