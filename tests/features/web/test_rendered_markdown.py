import re
from itertools import count
from pathlib import Path

import pytest

from skills_mcp.features.web.skill_page import convert_to_html
from skills_mcp.skills.access import EVERYTHING, Access
from tests.features.web.test_rest import ask_site
from tests.support import open_library, skill_text, write, write_skill


@pytest.mark.parametrize(
    "text, levels",
    [
        ("# A\n## B\n# C", "343"),
        ("### A\n## B\n#### C", "334"),
        ("# A\n#### B\n##### C\n###### D\n# E", "34563"),
    ],
)
def test_headings_begin_below_those_of_the_page_and_leave_no_level_out(
    text: str, levels: str
) -> None:
    html = convert_to_html(text, str)

    assert "".join(re.findall(r"<h(\d)>", html)) == levels
    assert "".join(re.findall(r"</h(\d)>", html)) == levels


def test_code_and_text_are_escaped() -> None:
    html = convert_to_html("`<b>` <i>\n\n```<u>\n<s>\n```", str)

    assert set(re.findall(r"<(\w+)", html)) <= {"p", "code", "pre"}


def test_a_table_is_a_table() -> None:
    assert "<td>1</td>" in convert_to_html("| a |\n| - |\n| 1 |", str)


def test_a_paragraph_that_is_too_long_is_shown_as_it_is() -> None:
    html = convert_to_html(f"*a*\n\n{'*b* <i>![' * 3_000}\n\n# *c*", str)

    assert re.findall("<em>(.)</em>", html) == ["a", "c"]
    assert html.count("*b* &lt;i&gt;![") == 3_000


def test_rendering_stops_between_paragraphs_when_nobody_waits_for_it() -> None:
    steps = count(1)

    def check() -> None:
        if next(steps) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        convert_to_html("a\n\n" * 100, str, check)
    assert next(steps) == 4


def test_a_link_to_the_file_of_another_rule_leads_to_its_page(tmp_path: Path) -> None:
    write(tmp_path / "ui/_index.md", skill_text(body="[far](../api/login.md)"))
    write(tmp_path / "ui/forms.md", skill_text(body="[other](other.md) [none](none.md)"))
    for name in ("ui/other.md", "api/login.md"):
        write_skill(tmp_path, name)
    library = open_library(tmp_path)
    hidden = Access(((("ui/forms",), ()),))

    def follow(file: str, access: Access = EVERYTHING) -> str:
        answer = ask_site(library, "/skills/ui/forms", access, file=file)
        return str(answer.headers.get("location"))

    assert follow("other.md") == "/skills/ui/other"
    assert follow("../api/login.md") == "/skills/api/login"
    assert follow("none.md") == "None"
    assert follow("other.md", hidden) == "None"
