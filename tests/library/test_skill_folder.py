"""A skill as a folder: what it holds, and that nobody counts a look into it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from skills_mcp.errors import (
    FileTooLargeError,
    SkillDisabledError,
    SkillNotFoundError,
    UndeclaredFileError,
)
from skills_mcp.events.spool import Spool
from skills_mcp.library.skill_folder import publish_skills, render_skill_file
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.skills.access import EVERYTHING
from tests.packages import package_text, write_package
from tests.support import make_skill, open_library, spooled, write, write_skill

COUNTED = {"analytics": {"enabled": True, "context": "full"}}


@pytest.fixture
def content(tmp_path: Path) -> Path:
    root = tmp_path / "content"
    note = {"file": "assets/note.txt", "description": "A note", "type": "template"}
    write_skill(root, "_root.md", body="Never commit secrets.", assets=[note])
    write(root / "_root/assets/note.txt", "Dear all\n")
    write_package(root, "pdf", description="Fills in forms.", body="Read forms.md.")
    write(root / "pdf/references/forms.md", "# Forms\n")
    return root


@pytest.fixture
def library(content: Path) -> SkillLibrary:
    return open_library(content)


def test_a_folder_has_the_text_that_is_loaded(library: SkillLibrary) -> None:
    folder = library.view().open_folder("pdf")

    assert folder.compose() == library.view().load_skill("pdf").instructions
    assert "Never commit secrets." in folder.compose()


def test_a_folder_has_inherited_files_and_not_its_own_markdown(
    library: SkillLibrary,
) -> None:
    folder = library.view().open_folder("pdf")

    assert folder.files == {"assets/note.txt": 9, "references/forms.md": 8}
    assert folder.read("assets/note.txt").data == b"Dear all\n"
    assert folder.read("references/forms.md").data == b"# Forms\n"


def test_the_own_file_comes_before_the_inherited_one(content: Path) -> None:
    write(content / "pdf/assets/note.txt", "Dear form\n")

    folder = open_library(content).view().open_folder("pdf")

    assert folder.read("assets/note.txt").data == b"Dear form\n"


def test_a_file_that_a_rule_declares_and_does_not_have_is_not_there(
    content: Path,
) -> None:
    (content / "_root/assets/note.txt").unlink()

    folder = open_library(content).view().open_folder("pdf")

    assert folder.files == {"references/forms.md": 8}


def test_a_look_into_a_folder_is_no_event(content: Path, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    library = open_library(content, settings=COUNTED, spool=spool)

    folder = library.view().open_folder("pdf")
    folder.compose()
    folder.read("references/forms.md")

    assert spooled(spool) == []


PACKAGE = """---
name: pdf
description: "Fills in: forms \U0001f389"
license: MIT
allowed-tools: [Read, "Bash(git:*)"]
keywords: [forms]
metadata:
  include_tools: create_request
  version: 1.0
  nested: {a: b}
---

Read forms.md.
"""


def test_a_main_file_has_what_the_standard_knows_of_the_frontmatter(
    content: Path,
) -> None:
    write(content / "pdf/SKILL.md", PACKAGE)
    folder = open_library(content).view().open_folder("pdf")

    text = render_skill_file(folder.skill, "a-name", "The text.", folder.read_fields())

    _, head, body = text.split("---\n")
    assert yaml.safe_load(head) == {
        "name": "a-name",
        "description": "Fills in: forms \U0001f389",
        "license": "MIT",
        "allowed-tools": "Read Bash(git:*)",
        "metadata": {
            "include_tools": "create_request",
            "version": "1.0",
            "path": "pdf",
        },
    }
    assert body == "\nThe text.\n"


def test_a_list_in_the_metadata_becomes_a_text(content: Path) -> None:
    write(content / "pdf/SKILL.md", package_text(metadata={"tags": ["one", "two"]}))
    folder = open_library(content).view().open_folder("pdf")

    text = render_skill_file(folder.skill, "pdf", "", folder.read_fields())

    assert yaml.safe_load(text.split("---\n")[1])["metadata"]["tags"] == "one, two"


def test_what_hosts_load_has_the_types_of_its_frontmatter(content: Path) -> None:
    fields: dict[str, Any] = {"disable-model-invocation": True, "hooks": {"Stop": [{"timeout": 3}]}}
    write(content / "pdf/SKILL.md", package_text(**fields))
    snapshot = open_library(content).view().snapshot

    published = publish_skills(snapshot).compose(snapshot.index.require("pdf"))

    loaded = yaml.safe_load(published.text.split("---\n")[1])
    assert {key: loaded[key] for key in fields} == fields


def test_a_main_file_is_yaml_whatever_the_description_holds() -> None:
    odd = "a: 'b' \"c\" \\ # d\x7f\u2028\ud800\ufffe {e} - | f\n---\ng"

    text = render_skill_file(make_skill("a/b", description=odd), "a-b", "")

    fields = yaml.safe_load(text.removeprefix("---\n").partition("\n---\n")[0])
    assert fields["description"] == "a: 'b' \"c\" \\ # d  {e} - | f\n---\ng"
    assert fields["metadata"] == {"keywords": "example", "path": "a/b"}


def test_a_long_description_is_as_long_as_the_standard_allows() -> None:
    text = render_skill_file(make_skill("a", description="word " * 400), "a", "")

    assert len(yaml.safe_load(text.split("---\n")[1])["description"]) <= 1024


def test_a_rule_and_a_file_that_has_changed_have_no_fields(content: Path) -> None:
    library = open_library(content)
    write(content / "pdf/SKILL.md", PACKAGE)

    assert library.view().open_folder("_root").read_fields() == {}
    assert library.view().open_folder("pdf").read_fields() == {}


@pytest.mark.parametrize("file", ["SKILL.md", "../_root.md", "missing.md"])
def test_no_other_file_is_read(library: SkillLibrary, file: str) -> None:
    with pytest.raises(UndeclaredFileError, match="has no file"):
        library.view().open_folder("pdf").read(file)


def test_a_file_above_the_limit_is_refused(content: Path) -> None:
    library = open_library(content, settings={"assets": {"max_size_bytes": 7}})

    with pytest.raises(FileTooLargeError, match="max_size_bytes"):
        library.view().open_folder("pdf").read("references/forms.md")


def test_a_hidden_skill_has_no_folder(content: Path) -> None:
    library = open_library(content, settings={"visibility": {"deny": ["pdf"]}})

    with pytest.raises(SkillDisabledError):
        library.view().open_folder("pdf")
    with pytest.raises(SkillNotFoundError):
        library.view(EVERYTHING.narrow(("other",), ())).open_folder("pdf")
