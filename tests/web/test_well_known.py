"""The well-known index over HTTP, as programs that install skills ask for it."""

from hashlib import sha256
from pathlib import Path

from skills_mcp.export import LockedSettings, export_skills
from skills_mcp.export.layout import INDEX
from skills_mcp.identity.access import EVERYTHING
from tests.packages import write_package
from tests.support import open_library, write_skill
from tests.web.test_rest import ask_site


def test_the_index_and_its_files_are_those_of_an_export(tmp_path: Path) -> None:
    content, target = tmp_path / "content", tmp_path / "out"
    write_skill(content, "ui/auth.md", body="Sign in.")
    write_package(content, "pdf", {"scripts/fill.py": "print()"})
    library = open_library(content)
    settings = LockedSettings(format="well-known", raw=False, select=())
    export_skills(library, target, settings)

    index = ask_site(library, f"/{INDEX}")

    assert index.content == (target / INDEX).read_bytes()
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

    everything = ask_site(library, f"/{INDEX}").json()["skills"]
    index = ask_site(library, f"/{INDEX}", narrowed).json()["skills"]
    hidden = ask_site(library, "/.well-known/agent-skills/secret/SKILL.md", narrowed)
    unknown = ask_site(library, "/.well-known/agent-skills/open/other.md")

    assert [each["name"] for each in everything] == ["open", "secret"]
    assert [each["name"] for each in index] == ["open"]
    assert (hidden.status_code, unknown.status_code) == (404, 404)
