"""Links that lead nowhere, out of the skill, or to one machine only."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.authoring.markdown import (
    LinkContext,
    check_links,
    find_links,
    parse_markdown,
)
from tests.features.authoring.validation.findings import problems, said
from tests.packages import write_package
from tests.support import write, write_skill

FILES = {"references/forms.md": "x", "with space.md": "x", "scripts/run.py": "x"}


def check(folder: Path, body: str) -> list[str]:
    """Return the rules that a package with this body breaks."""
    write_package(folder, "pdf", FILES, body=body)
    return [problem.rule for problem in problems(folder / "pdf")]


@pytest.mark.parametrize(
    "body",
    [
        "[a](references/forms.md)",
        "[a](./references/forms.md#top)",
        "[a](references/forms.md?raw=1 'Title')",
        "[a](references)",
        "[a](references/)",
        "[a](with%20space.md)",
        "[a](<with space.md>)",
        "![a](scripts/run.py)",
        "[a][b]\n\n[b]: references/forms.md",
    ],
)
def test_what_is_there_can_be_linked(tmp_path: Path, body: str) -> None:
    assert check(tmp_path, body) == []


@pytest.mark.parametrize(
    "body",
    [
        "[a](https://example.com/x)",
        "[a](mailto:ada@example.com)",
        "[a](//example.com/x)",
        "<https://example.com>",
        "[a](#heading)",
        "[a]()",
        "`[a](gone.md)`",
        "``a ` [a](gone.md)``",
        "```md\n[a](gone.md)\n```",
        "~~~\n[a](gone.md)\n~~~",
        "- item\n\n  ```\n  [a](gone.md)\n  ```",
        "    [a](gone.md)",
        "<!-- [a](gone.md) -->",
        r"\[a](gone.md)",
        "[a](cases/<name>.md)",
        "[a]({baseDir}/x.md)",
        "[a](${ROOT}/x.md)",
        "[a](path/...)",
        "handlers[i](request)",
    ],
)
def test_what_only_looks_like_a_file_is_ignored(tmp_path: Path, body: str) -> None:
    found = check(tmp_path, body)

    assert found == ([] if "handlers" not in body else ["link-broken"])


@pytest.mark.parametrize(
    "link",
    [
        "[a]( gone.md)",
        "[a](<gone.md>)",
        "[a](\ngone.md)",
        "![a](gone.md 'b')",
        "[a](C:/x)",
    ],
)
def test_a_wrong_link_is_found_however_it_is_written(tmp_path: Path, link: str) -> None:
    assert check(tmp_path, f"[b](https://example.com) {link}") in (
        ["link-broken"],
        ["link-absolute"],
    )


@pytest.mark.parametrize(
    "body, rule",
    [
        ("[a](gone.md)", "link-broken"),
        ("![a](gone.png)", "link-broken"),
        ("[a][b]\n\n[b]: gone.md", "link-broken"),
        ("[a](../gone/SKILL.md)", "link-broken"),
        ("[a](../word/SKILL.md)", "link-outside"),
        ("[a](../../../etc/passwd)", "link-outside"),
        ("[a](/docs/x.md)", "link-absolute"),
        ("[a](~/x.md)", "link-absolute"),
        (r"[a](C:\\x.md)", "link-absolute"),
    ],
)
def test_a_link_that_fails_elsewhere_is_a_warning(tmp_path: Path, body: str, rule: str) -> None:
    write_package(tmp_path / "skills", "word")
    write_package(tmp_path / "skills", "pdf", FILES, body=f"One.\n\nTwo {body}")

    [problem] = problems(tmp_path / "skills")

    assert (problem.rule, problem.level) == (rule, "warning")
    assert problem.line == 8


def test_a_file_of_that_name_elsewhere_is_suggested(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf", FILES, body="[a](forms.md)")

    [problem] = problems(tmp_path / "pdf")

    assert problem.hint == "did you mean references/forms.md?"


def test_a_link_without_the_extension_is_completed(tmp_path: Path) -> None:
    write_package(tmp_path, "pdf", FILES, body="[a](references/forms/)")

    [problem] = problems(tmp_path / "pdf")

    assert problem.hint == "did you mean references/forms.md?"


def test_links_of_a_reference_begin_at_the_file_or_at_the_package(
    tmp_path: Path,
) -> None:
    text = "[a](other.md)\n[b](scripts/run.py)\n[c](../SKILL.md)\n[d](gone.md)\n"
    files = {**FILES, "references/forms.md": text, "references/other.md": "x"}
    write_package(tmp_path, "pdf", files)

    assert said(tmp_path / "pdf") == [("forms.md", 4, "link-broken")]


@pytest.mark.parametrize("file", ["assets/page.md", "templates/page.md", "references/TEMPLATE.md"])
def test_links_of_a_template_are_for_what_is_made_of_it(tmp_path: Path, file: str) -> None:
    write_package(tmp_path, "pdf", {file: "[a](gone.md)"})

    assert said(tmp_path / "pdf") == []


def test_rule_files_may_link_to_each_other_and_to_their_own_files(
    tmp_path: Path,
) -> None:
    body = "[a](forms.md) [b](../_index.md) [c](assets/x.txt) [d](auth/assets/x.txt)"
    assets = [{"file": "assets/x.txt"}]
    write_skill(tmp_path, "_root.md")
    write_skill(tmp_path, "ui/_index.md", keywords=["ui"])
    write_skill(tmp_path, "ui/react/_index.md", keywords=["react"])
    write_skill(tmp_path, "ui/react/forms.md", keywords=["forms"], body="[e](gone.md)")
    write_skill(tmp_path, "ui/react/auth.md", keywords=["auth"], body=body, assets=assets)
    write(tmp_path / "ui/react/auth/assets/x.txt")

    assert said(tmp_path) == [("forms.md", 7, "link-broken")]


def test_lines_are_those_of_the_file_also_after_line_breaks() -> None:
    text = "---\na: b\n---\n\nOne\n[a](x) two\\\n![b](y)\n\n> - three\n>   [c](z)\n"

    found = list(find_links(parse_markdown(text.encode())))

    assert found == [("x", 6), ("y", 7), ("z", 10)]


@pytest.mark.parametrize("text", [b"x" * 262_144 + b"[a](gone.md)", b"[" * 5_000 + b"[a](gone.md)"])
def test_a_text_that_takes_too_long_to_parse_is_left_alone(tmp_path: Path, text: bytes) -> None:
    markdown = parse_markdown(text)

    assert list(check_links(markdown, LinkContext(tmp_path, "", (".",)))) == []


def test_of_many_wrong_links_the_first_are_reported(tmp_path: Path) -> None:
    markdown = parse_markdown(b"[a](gone.md)\n" * 150)

    found = list(check_links(markdown, LinkContext(tmp_path, "", (".",))))

    assert [finding.line for finding in found] == list(range(1, 101))


@given(st.text(alphabet="[]()!<>`\\ \n#a-\0\t|&*", max_size=60))
def test_any_text_ends_in_links(text: str) -> None:
    markdown = parse_markdown(text.encode())

    for link in find_links(markdown):
        assert 1 <= link.line <= text.count("\n") + 1
