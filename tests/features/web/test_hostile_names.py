"""A name from outside reaches nothing but what the server has listed under it."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import anyio
import httpx
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.cli import program
from skills_mcp.features.authoring.version_store import VersionStore
from skills_mcp.library import SkillLibrary
from skills_mcp.server.replies import ReplyRules, reply_or_error, use_reply_rules
from tests.clients import TOOLS
from tests.features.authoring.intake.archives import GOOD, write_tar, write_zip
from tests.features.web.uploading import INSTALL, open_site
from tests.packages import package_text, write_package
from tests.support import open_library, write

NOON = datetime(2026, 2, 12, 14, 30, tzinfo=UTC)
KEPT = "20260212-143000"
SECRET = "only for the owner of this machine"  # noqa: S105 - of a neighbour's file

SPECS = {spec.name: spec for spec in TOOLS}
AS_JSON = ReplyRules("json", 40_000)

NAMED = (
    *("", ".", "..", "/", "//", "./", "../", "~", "~root", "-rf", "$HOME", "%", "*"),
    *("../ssh", "../../ssh", "../../../ssh", "../../../../ssh", "/etc", "//etc"),
    *("/abs/a/b", "pdf/../../../ssh", "pdf/..", "pdf/", "./pdf", "pdf//", "/pdf"),
    *("..%2f..%2fssh", "%2e%2e/ssh", "%2Fetc", "..%252fssh", "..%c0%afssh", "%00"),
    *("..\\ssh", "..\\..\\ssh", "\\etc", "\\\\host\\share", "C:\\ssh", "C:ssh", "C:"),
    *("\uff0e\uff0e\uff0fssh", "\u2024\u2024\u2215ssh", "..\u2044ssh", "..\u29f8ssh"),
    *(
        "..\0/ssh",
        "pdf\0",
        "\0",
        "pdf\n",
        "\r\npdf",
        "\u202epdf",
        "pdf\u200b",
        "\ud800",
    ),
    *("aux", "con.txt", "NUL", "com1.md", "lpt\u00b9", "PDF~1", "file:///etc", "pdf:x"),
    *("PDF", "Pdf", "\uff50\uff44\uff46", "pdf ", " pdf", "pdf.", "pd\u0192"),
    *("re\u0301sume\u0301", "r\u00e9sum\u00e9", "RE\u0301SUME\u0301"),
    *("x" * 256, "x" * 5_000, "a/" * 40, ".git", ".skills-mcp", "versions", "lock"),
    *("../skills/pdf", "../versions/pdf", "../../pdf", "SKILL.md", "index.json"),
)
PIECES = (
    "..",
    "/",
    "\\",
    "ssh",
    "pdf",
    ".",
    "\0",
    "~",
    ":",
    "%2f",
    "%2e",
    "\uff0f",
    " ",
)

hostile = st.sampled_from(NAMED) | st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map(
    "".join
).filter(lambda name: name not in {"pdf", "ssh"})


class Machine(NamedTuple):
    """A server's folder with a neighbour, and all that may not change."""

    library: SkillLibrary
    outer: Path
    skills: Path
    temporary: Path

    def look(self) -> dict[str, str | None]:
        """Return every path around the folder of skills, and what files hold."""
        return {
            str(path): path.read_text() if path.is_file() else None
            for path in sorted(self.outer.rglob("*"))
        }


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A folder with two skills, an earlier version of one, and a neighbour's key."""
    outer = tmp_path / "outer"
    skills, temporary = outer / "data/content/skills", outer / "tmp"
    temporary.mkdir(parents=True)
    write_package(skills, "pdf", {"a.txt": "now"})
    write_package(skills, "re\u0301sume\u0301")
    older = write_package(outer / "older", "pdf", {"a.txt": "then"})
    shelf = VersionStore(skills)
    shelf.put(older, "pdf", NOON)
    shelf.put(skills / "pdf", "pdf", NOON + timedelta(hours=1))
    # What a versions folder of the neighbour would look like.
    for place in (outer / "ssh", outer / "data/ssh", outer / "data/content/ssh"):
        write(place / "key", SECRET)
        write(place / KEPT / "key", SECRET)
    library = open_library(outer / "data/content", settings={"upload": {"mode": "folder"}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        yield Machine(library, outer, skills, temporary)


@contextmanager
def unchanged(machine: Machine) -> Iterator[None]:
    """Fail if anything around the folder of skills is another one after the block."""
    before = machine.look()
    yield
    assert machine.look() == before


def ask(machine: Machine, method: str, path: str, **sent: Any) -> httpx.Response:
    """Send one request to the pages as a caller who may do everything."""

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(open_site(machine.library))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as it:
            return await it.request(method, path, **sent)

    return anyio.run(run)


def require_refused(reply: httpx.Response, machine: Machine) -> None:
    assert 400 <= reply.status_code < 500, reply.text
    assert SECRET not in reply.text
    assert str(machine.outer) not in reply.text


def encode(name: str) -> str:
    """Return a name as a form sends it, lone surrogates included."""
    return quote(name.encode("utf-8", "surrogatepass"), safe="")


@given(hostile, st.booleans())
@example("../../../ssh", True)  # noqa: FBT003
@example("/abs/a/b", True)  # noqa: FBT003
def test_a_skill_is_restored_by_no_name_but_a_listed_one(
    machine: Machine,
    name: str,
    is_name: bool,  # noqa: FBT001
) -> None:
    asked = (name, KEPT) if is_name else ("pdf", name)
    form = f"name={encode(asked[0])}&version={encode(asked[1])}"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}

    with unchanged(machine):
        reply = ask(machine, "POST", "/add/restore", content=form, headers=kind)

    require_refused(reply, machine)


@given(hostile, st.booleans())
@example("../../../ssh", True)  # noqa: FBT003
def test_the_command_restores_by_no_other_name_either(
    machine: Machine,
    name: str,
    is_name: bool,  # noqa: FBT001
) -> None:
    restored, version = (name, KEPT) if is_name else ("pdf", name)
    if not restored or not version:
        return  # an empty option is one that was left out
    words = [f"--restore={restored}", f"--version={version}"]

    with unchanged(machine):
        done = CliRunner().invoke(program, ["add", *words, "--to", str(machine.skills)])
        listed = CliRunner().invoke(program, ["add", f"--list={name}", "--to", str(machine.skills)])

    assert done.exit_code in {1, 2}, done.output
    assert isinstance(done.exception, SystemExit)
    assert KEPT not in listed.output


@given(hostile, st.sampled_from(["zip", "tgz"]), st.sampled_from(["/add", INSTALL]))
@example("../../../ssh/key", "tgz", INSTALL)
def test_a_member_of_an_archive_stays_in_its_folder(
    machine: Machine, name: str, kind: str, door: str
) -> None:
    files: dict[str, str | bytes] = {**GOOD, f"{name}": "x"}
    with tempfile.TemporaryDirectory(dir=machine.outer.parent) as folder:
        make = write_zip if kind == "zip" else write_tar
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                archive = make(Path(folder, f"a.{kind}"), files)
        except (ValueError, IndexError):
            return  # no archive of this library can hold such a name
        sent = {"file": (archive.name, archive.read_bytes())}

    before = machine.look()
    reply = ask(machine, "POST", "/add", files=sent)
    assert machine.look() == before
    assert reply.status_code < 500
    if reply.status_code >= 400:
        with unchanged(machine):
            require_refused(ask(machine, "POST", door, files=sent), machine)


@given(hostile)
@example("lock")
@example("unpacked")
@example("archive.tar")
def test_a_package_becomes_a_folder_beside_the_others(machine: Machine, name: str) -> None:
    text = package_text(name=name.encode("utf-8", "replace").decode())
    with tempfile.TemporaryDirectory(dir=machine.outer.parent) as folder:
        archive = write_zip(Path(folder, "a.zip"), {"SKILL.md": text})
        sent = {"file": (archive.name, archive.read_bytes())}

    with unchanged(machine):
        reply = ask(machine, "POST", "/add", files=sent)

    assert reply.status_code in {200, 409, 422}, reply.text
    assert str(machine.outer) not in reply.text


@given(hostile, st.booleans())
@example("../../../ssh/key", False)  # noqa: FBT003
def test_a_file_is_served_by_no_name_but_a_listed_one(
    machine: Machine,
    name: str,
    is_raw: bool,  # noqa: FBT001
) -> None:
    told = name if is_raw and name.isascii() and name.isprintable() else encode(name)
    index = ask(machine, "GET", "/.well-known/agent-skills/index.json").json()
    served = {each["url"].rpartition("/agent-skills/")[2] for each in index["skills"]}

    for path in (
        f"/.well-known/agent-skills/{told}/SKILL.md",
        f"/.well-known/agent-skills/pdf/{told}",
        f"/api/skills/pdf/files/{told}",
        f"/api/skills/{told}/files/key",
        f"/skills/{told}",
    ):
        try:
            with unchanged(machine):
                reply = ask(machine, "GET", path)
        except httpx.InvalidURL:
            continue  # no client sends it
        assert reply.status_code < 500
        assert SECRET not in reply.text
        if reply.status_code == 200:
            at = httpx.URL(f"http://x{path}").path
            assert "ssh" not in at
    assert served


@given(hostile, st.booleans())
@example("../../../ssh", True)  # noqa: FBT003
def test_no_tool_reads_by_another_name(
    machine: Machine,
    name: str,
    is_path: bool,  # noqa: FBT001
) -> None:
    path, file = (name, "key") if is_path else ("pdf", name)
    asked = (
        ("get_asset", {"skill_path": path, "file": file}),
        ("read_skill_file", {"skill_name": path, "file_path": file}),
        ("find_skill_files", {"skill_name": path}),
        ("load_skill", {"skill_name": path}),
    )

    async def call(tool: str, given: dict[str, str]) -> str:
        spec = SPECS[tool]
        try:
            arguments = spec.arguments.model_validate(given)
        except ValueError as error:
            return str(error)
        with use_reply_rules(AS_JSON):
            return repr(await reply_or_error(spec.answer(machine.library.view(), arguments)))

    with unchanged(machine):
        said = [anyio.run(call, tool, given) for tool, given in asked]

    assert SECRET not in "".join(said)
    assert str(machine.outer) not in "".join(said[:2])
