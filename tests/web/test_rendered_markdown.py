import re

import pytest

from skills_mcp.web.rendered_markdown import render_markdown


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
    html = render_markdown(text, str)

    assert "".join(re.findall(r"<h(\d)>", html)) == levels
    assert "".join(re.findall(r"</h(\d)>", html)) == levels


def test_code_and_text_are_escaped() -> None:
    html = render_markdown("`<b>` <i>\n\n```<u>\n<s>\n```", str)

    assert set(re.findall(r"<(\w+)", html)) <= {"p", "code", "pre"}


def test_a_table_is_a_table() -> None:
    assert "<td>1</td>" in render_markdown("| a |\n| - |\n| 1 |", str)
