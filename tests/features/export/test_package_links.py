"""Links of exported texts lead to where their files went."""

import re
from pathlib import Path

import pytest

from skills_mcp.features.export.commands.export import export_skills
from skills_mcp.features.export.layout import LockedSettings
from tests.packages import write_package
from tests.support import open_library, write, write_skill

LINK = re.compile(r"\]\(([^)]+)\)")


@pytest.fixture
def content(tmp_path: Path) -> Path:
    root = tmp_path / "content"
    body = (
        "[Incident](incident-report/SKILL.md), [form](incident-report/references/form.md#top), "
        "[rule](../ui/auth.md), [style](../style.txt), [gone](gone.md), [swap](../b/a/SKILL.md), "
        "[site](https://acme.test), `[code](../ui/auth.md.txt)`\n\n[ref]\n\n[ref]: ../ui/auth.md\n"
    )
    write_package(root, "engineering", body=body)
    form = {"references/form.md": "[Up](../../SKILL.md), [main](../SKILL.md) and [pdf](../../../a)"}
    write_package(root, "engineering/incident-report", form)
    write_skill(root, "ui/auth.md", body="See [the shared rules](_index.md).")
    write_skill(root, "ui/_index.md", body="See [a](../a/SKILL.md).")
    write_package(root, "a", body="[b](../b/a/SKILL.md)")
    write_package(root, "b/a")
    write(root / "style.txt", "Plain.")
    return root


def read_links(content: Path, target: Path, kind: str = "plain") -> dict[str, list[str]]:
    settings = LockedSettings(format=kind, raw=False, select=())
    export_skills(open_library(content).view(), target, settings)
    files = sorted(target.rglob("*.md"))
    return {
        file.relative_to(target).as_posix(): LINK.findall(file.read_text("utf-8")) for file in files
    }


def test_a_link_to_another_package_follows_it(content: Path, tmp_path: Path) -> None:
    links = read_links(content, tmp_path / "out")

    text = (tmp_path / "out/engineering/SKILL.md").read_text("utf-8")
    assert links["engineering/SKILL.md"] == [
        "../incident-report/SKILL.md",
        "../incident-report/references/form.md#top",
        "../auth/SKILL.md",
        "gone.md",
        "../b-a/SKILL.md",
        "https://acme.test",
        "../ui/auth.md.txt",
    ]
    assert "\n[ref]: ../auth/SKILL.md\n" in text
    assert links["a/SKILL.md"] == ["../b-a/SKILL.md"]


def test_files_and_inherited_rules_have_their_own_links(content: Path, tmp_path: Path) -> None:
    links = read_links(content, tmp_path / "out")

    form = links["incident-report/references/form.md"]
    assert form == ["../../engineering/SKILL.md", "../SKILL.md", "../../a"]
    assert links["auth/SKILL.md"] == ["../a/SKILL.md"]


def test_a_link_to_what_is_not_exported_becomes_its_words_and_path(
    content: Path, tmp_path: Path
) -> None:
    settings = LockedSettings(format="plain", raw=False, select=())

    report = export_skills(open_library(content).view(), tmp_path / "out", settings)

    text = (tmp_path / "out/engineering/SKILL.md").read_text("utf-8")
    assert "[rule](../auth/SKILL.md), style (`style.txt`), [gone](gone.md)" in text
    assert "See the shared rules (`ui/_index.md`)." in (tmp_path / "out/auth/SKILL.md").read_text(
        "utf-8"
    )
    assert report.remarks == [
        "Wrote as text 2 links to files that are not exported, in engineering, ui/auth"
    ]


def test_a_plugin_links_to_its_own_packages_alone(content: Path, tmp_path: Path) -> None:
    links = read_links(content, tmp_path / "out", "marketplace")

    form = tmp_path / "out/plugins/engineering/skills/incident-report/references/form.md"
    assert form.read_text("utf-8").startswith("Up (`engineering/SKILL.md`), [main](../SKILL.md)")
    assert "../incident-report/SKILL.md" not in links["plugins/general/skills/engineering/SKILL.md"]
