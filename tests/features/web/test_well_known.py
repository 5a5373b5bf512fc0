"""The well-known index over HTTP, as programs that install skills ask for it."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.features.export.commands.export import export_skills
from skills_mcp.features.export.layout import WELL_KNOWN_INDEX, LockedSettings, package_skill
from skills_mcp.features.web import site
from skills_mcp.library.skill_folder import PublishedSkills
from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.model import SkillPath
from tests.features.web.test_rest import ask_in_turn, ask_site
from tests.packages import write_package
from tests.support import open_library, write_skill


def test_the_index_and_its_files_are_those_of_an_export(tmp_path: Path) -> None:
    content, target = tmp_path / "content", tmp_path / "out"
    write_skill(content, "ui/auth.md", body="Sign in to read [forms](../docs/pdf/SKILL.md).")
    write_package(content, "docs/pdf", {"scripts/fill.py": "print()"})
    library = open_library(content)
    settings = LockedSettings(format="well-known", raw=False, select=())
    export_skills(library.view(), target, settings)

    index = ask_site(library, f"/{WELL_KNOWN_INDEX}")

    assert index.content == (target / WELL_KNOWN_INDEX).read_bytes()
    assert len(index.json()["skills"]) == 2
    for each in index.json()["skills"]:
        served = ask_site(library, each["url"])
        assert served.content == (target / each["url"][1:]).read_bytes()
        assert each["digest"] == f"sha256:{sha256(served.content).hexdigest()}"


def test_a_caller_gets_only_what_it_may_see(tmp_path: Path) -> None:
    write_skill(tmp_path, "open.md")
    write_skill(tmp_path, "secret.md")
    library = open_library(tmp_path)
    narrowed = EVERYTHING.narrow(("open",), ())

    everything = ask_site(library, f"/{WELL_KNOWN_INDEX}").json()["skills"]
    index = ask_site(library, f"/{WELL_KNOWN_INDEX}", narrowed).json()["skills"]
    hidden = ask_site(library, "/.well-known/agent-skills/secret/SKILL.md", narrowed)
    unknown = ask_site(library, "/.well-known/agent-skills/open/other.md")

    assert [each["name"] for each in everything] == ["open", "secret"]
    assert [each["name"] for each in index] == ["open"]
    assert (hidden.status_code, unknown.status_code) == (404, 404)


def test_a_link_leads_only_to_what_the_caller_may_see(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/open.md", body="[one](../x/a/SKILL.md) [two](../x/b/SKILL.md)")
    write_package(tmp_path, "x/a")
    write_package(tmp_path, "x/b")
    library, narrowed = open_library(tmp_path), EVERYTHING.narrow(("ui/open", "x/a"), ())

    [entry, other] = ask_site(library, f"/{WELL_KNOWN_INDEX}", narrowed).json()["skills"]
    text = ask_site(library, entry["url"], narrowed).text

    assert text.endswith(f"[one](../{other['name']}/SKILL.md) [two](../x/b/SKILL.md)\n")


def scoped(*scope: str) -> Access:
    return Access(None, scope)


def test_no_scope_of_a_request_packages_a_skill_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        write_skill(tmp_path, f"area-{number % 3}/skill-{number}.md")
    library, packaged = open_library(tmp_path), []

    def package(published: PublishedSkills, path: SkillPath, *its: Any) -> Any:
        packaged.append(path)
        return package_skill(published, path, *its)

    monkeypatch.setattr(site, "package_skill", package)

    answers = ask_in_turn(
        library,
        (f"/{WELL_KNOWN_INDEX}", scoped("area-1/**")),
        (f"/{WELL_KNOWN_INDEX}", EVERYTHING),
        *((f"/{WELL_KNOWN_INDEX}", scoped(f"*{number}", "area-0/**")) for number in range(9)),
    )

    assert len(packaged) == 9
    sizes = [len(each.json()["skills"]) for each in answers]
    assert sizes == [3, 9, *(3 if number % 3 == 0 else 4 for number in range(9))]
    every = answers[1].json()["skills"]
    assert all(skill in every for each in answers for skill in each.json()["skills"])


def test_a_file_outside_of_the_scope_is_not_there(tmp_path: Path) -> None:
    write_skill(tmp_path, "open.md")
    write_skill(tmp_path, "other.md")
    file = "/.well-known/agent-skills/open/SKILL.md"

    answers = ask_in_turn(
        open_library(tmp_path),
        (file, scoped("open")),
        (file, scoped("other")),
        (f"/{WELL_KNOWN_INDEX}", scoped("nothing")),
    )

    assert [each.status_code for each in answers] == [200, 404, 200]
    assert answers[2].json()["skills"] == []


def test_a_scope_of_a_copy_names_the_skill_that_stands_for_it(tmp_path: Path) -> None:
    for path in ("a/pdf", "b/pdf"):
        write_package(tmp_path, path, name="pdf", description="Fills forms.")
    library = open_library(tmp_path)

    every, copy = ask_in_turn(
        library,
        (f"/{WELL_KNOWN_INDEX}", EVERYTHING),
        (f"/{WELL_KNOWN_INDEX}", scoped("b/**")),
    )

    assert every.json() == copy.json()
    assert len(copy.json()["skills"]) == 1


def test_an_index_that_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    write_skill(tmp_path, "one.md")
    library = open_library(tmp_path)
    [first] = ask_in_turn(library, (f"/{WELL_KNOWN_INDEX}", EVERYTHING))

    tag = first.headers["ETag"]
    [same] = ask_in_turn(library, (f"/{WELL_KNOWN_INDEX}", EVERYTHING), tag=f'"x", W/{tag}')
    [other] = ask_in_turn(library, (f"/{WELL_KNOWN_INDEX}", EVERYTHING), tag='"x"')

    assert (same.status_code, same.content) == (304, b"")
    assert (other.status_code, other.content) == (200, first.content)
