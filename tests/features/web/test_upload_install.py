"""Programs add skills over REST, if they may, and each try leaves a line in the log."""

import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from jsonschema import Draft202012Validator

from skills_mcp.config import Http
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import LocalFolder, Mount
from skills_mcp.errors import ConfigError
from skills_mcp.features.authoring.version_store import VersionStore
from skills_mcp.library import SkillLibrary
from tests.features.authoring.intake.archives import (
    GOOD,
    special,
    write_entry,
    write_tar,
    write_unnamed,
    write_zip,
)
from tests.features.web.test_rest import ask_site
from tests.features.web.uploading import INSTALL, open_site, send
from tests.http.test_sign_in import bearer, fields, settings
from tests.issuer import Issuer, running_issuer
from tests.packages import package_text, write_package
from tests.support import open_library, write_skill

UPLOADS = {"upload": {"mode": "folder"}}


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """A folder of skills that is served."""
    write_skill(tmp_path / "content/skills", "payments/refund.md")
    write_package(tmp_path / "content/skills", "old", {"a.txt": "1"})
    return tmp_path / "content"


@pytest.fixture
def library(content: Path) -> SkillLibrary:
    return open_library(content, settings=UPLOADS)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


def test_an_archive_becomes_a_skill_that_is_served(
    library: SkillLibrary, content: Path, tmp_path: Path
) -> None:
    reply = send(library, write_zip(tmp_path / "pdf.zip"))

    assert reply.status_code == 201
    told = reply.json()
    assert (told["skillId"], told["path"], told["isActive"]) == ("pdf", "pdf", True)
    assert told["description"] == "Fill in PDF forms."
    assert told["fileInventory"]["hasScripts"]
    assert told["fileInventory"]["scriptFiles"] == ["scripts/fill.py"]
    assert told["replacedVersion"] is None
    assert (content / "skills/pdf/scripts/fill.py").is_file()
    assert "Do it." in library.view().load_skill("pdf").instructions


def test_a_skill_file_is_installed_as_a_zip(library: SkillLibrary, tmp_path: Path) -> None:
    assert send(library, write_zip(tmp_path / "pdf.skill")).json()["skillId"] == "pdf"


def test_the_reply_is_that_of_the_document(library: SkillLibrary, tmp_path: Path) -> None:
    told = send(library, write_tar(tmp_path / "pdf.tar.gz")).json()

    components = ask_site(library, "/api/openapi.json").json()["components"]
    schema = {"$ref": "#/components/schemas/UploadReply", "components": components}
    Draft202012Validator(schema).validate(told)
    assert set(told) == set(components["schemas"]["UploadReply"]["properties"])


def test_the_version_before_is_kept(library: SkillLibrary, content: Path, tmp_path: Path) -> None:
    text = package_text(name="old", body="Newer.")

    told = send(library, write_zip(tmp_path / "a.zip", {"SKILL.md": text})).json()

    kept = VersionStore(content / "skills").versions("old")
    assert kept == (told["replacedVersion"],)
    assert "Newer." in library.view().load_skill("old").instructions


def test_the_reply_says_how_many_skills_are_gone_since(
    library: SkillLibrary, content: Path, tmp_path: Path
) -> None:
    for name in "abcd":
        write_skill(content / "skills", f"ui/{name}.md")
    archive = write_zip(tmp_path / "pdf.zip").read_bytes()

    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(open_site(library))
        async with (
            anyio.create_task_group() as tasks,
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as it,
        ):
            tasks.start_soon(library.refresher.run)
            await library.refresh()
            shutil.rmtree(content / "skills/ui")
            files = {"file": ("pdf.zip", archive)}
            replies = [await it.post(INSTALL, files=files) for _ in range(2)]
            tasks.cancel_scope.cancel()
        return replies

    first, second = anyio.run(run)

    assert "4 of 6 skills are gone" in first.json()["warning"]
    assert second.json()["warning"] is None


def link(path: Path) -> Path:
    return write_tar(path.with_suffix(".tar.gz"), {}, special(tarfile.SYMTYPE, "l", "/"))


def encrypted(path: Path) -> Path:
    data = bytearray(write_zip(path).read_bytes())
    place = data.index(b"PK\x01\x02")
    data[place + 8] |= 1
    path.write_bytes(data)
    return path


def bomb(path: Path) -> Path:
    return write_zip(path, {**GOOD, "zeros": bytes(8 << 20)})


def traversal(path: Path) -> Path:
    return write_entry(path, zipfile.ZipInfo("../out.txt"))


def absolute(path: Path) -> Path:
    return write_entry(path, zipfile.ZipInfo("/etc/cron.d/x"))


def deep(path: Path) -> Path:
    files = {f"{'/'.join([str(n)] * 32)}/f": "" for n in range(80)}
    return write_zip(path, {**GOOD, **files})


@pytest.mark.parametrize("make", [link, encrypted, bomb, traversal, absolute, deep, write_unnamed])
def test_a_hostile_archive_changes_nothing_and_is_logged(
    library: SkillLibrary,
    content: Path,
    tmp_path: Path,
    make: Callable[[Path], Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = sorted(content.rglob("*"))

    reply = send(library, make(tmp_path / "a.zip"))

    assert (reply.status_code, reply.json()["error"]["code"]) == (
        422,
        "PACKAGE_REFUSED",
    )
    assert sorted(content.rglob("*")) == before
    [line] = [each for each in caplog.messages if "upload" in each]
    assert line.startswith("Refused an upload of ada: PACKAGE_REFUSED, SHA-256 ")


def test_an_upload_is_one_line_without_its_content(
    library: SkillLibrary, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    told = send(library, write_zip(tmp_path / "pdf.zip")).json()

    [line] = [each for each in caplog.messages if "has added" in each]
    assert line == (f"ada has added pdf, SHA-256 {told['digest']}; the version before: none")
    assert "Fill in PDF forms" not in caplog.text


def test_no_folder_of_other_skills_is_replaced(
    library: SkillLibrary, content: Path, tmp_path: Path
) -> None:
    text = package_text(name="payments")

    reply = send(library, write_zip(tmp_path / "a.zip", {"SKILL.md": text}))

    assert reply.status_code == 409
    assert "a folder with other skills" in reply.json()["error"]["message"]
    assert (content / "skills/payments/refund.md").is_file()


@pytest.mark.parametrize("name", ["skills", "plugins"])
def test_no_package_changes_where_the_others_are_served(tmp_path: Path, name: str) -> None:
    write_package(tmp_path / "content", "old")
    library = open_library(tmp_path / "content", settings=UPLOADS)
    files = {
        "SKILL.md": package_text(name=name),
        "a/skills/b/SKILL.md": package_text(name="b"),
    }

    reply = send(library, write_zip(tmp_path / "a.zip", files))

    assert reply.status_code == 409
    assert "laid out" in reply.json()["error"]["message"]
    assert library.view().load_skill("old").skill.path == "old"


def test_a_refusal_names_no_path_of_the_server(
    library: SkillLibrary, content: Path, tmp_path: Path
) -> None:
    (content / "skills/pdf").symlink_to(tmp_path)
    in_place_of_a_folder = send(library, write_zip(tmp_path / "a.zip"))
    (content / "skills/pdf").rename(content / "skills/PDF")
    nearly_of_that_name = send(library, write_zip(tmp_path / "a.zip"))
    (content / "skills/PDF").rename(content / "skills/.skills-mcp")
    with_linked_versions = send(library, write_zip(tmp_path / "a.zip"))
    content.rename(tmp_path / "moved")
    without_a_folder = send(library, write_zip(tmp_path / "a.zip"))

    for reply, said in (
        (in_place_of_a_folder, "pdf in the source is a link"),
        (nearly_of_that_name, "PDF in the source has the same name"),
        (with_linked_versions, "behind a link"),
        (without_a_folder, "cannot be read now"),
    ):
        assert reply.status_code == 409
        assert said in reply.json()["error"]["message"]
        assert str(tmp_path) not in reply.text


def test_a_body_without_an_archive_is_refused(library: SkillLibrary, tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "pdf.zip")

    refused = send(library, archive, field="archive")
    unknown = send(library, archive.rename(tmp_path / "pdf.rar"))

    assert refused.status_code == 400
    assert "in the field file" in refused.json()["error"]["message"]
    assert unknown.status_code == 422


@pytest.mark.parametrize(
    "http, status",
    [
        (Http(), 201),
        (Http(host="0.0.0.0", allow_anonymous=True), 403),  # noqa: S104 - no port is opened
        (Http(trust_proxy_headers=True, anonymous=("skills:read",)), 403),
        (Http(base_url="https://skills.example.com", anonymous=()), 403),
        (Http(anonymous=("skills:read",)), 403),
        (
            Http(base_url="https://skills.example.com", anonymous=("skills:upload",)),
            201,
        ),
    ],
)
def test_without_sign_in_only_this_machine_or_a_named_scope_adds_skills(
    library: SkillLibrary, tmp_path: Path, http: Http, status: int
) -> None:
    reply = send(library, write_zip(tmp_path / "pdf.zip"), http)

    assert reply.status_code == status
    assert ("pdf" in [each.path for each in library.view().snapshot.index.offered]) == (
        status == 201
    )


def test_a_token_needs_the_scope_of_uploads(
    library: SkillLibrary,
    tmp_path: Path,
    issuer: Issuer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    http, archive = settings(issuer.url), write_zip(tmp_path / "pdf.zip")
    reader = bearer(issuer.token(scope="skills:read skills:feedback skills:refresh"))

    stranger = send(library, archive, http)
    refused = send(library, archive, http, reader)
    taken = send(library, archive, http, bearer(issuer.token(scope="skills:upload")))

    assert stranger.status_code == 401
    assert fields(stranger)["scope"] == "skills:upload"
    assert refused.status_code == 403
    assert "skills:upload" in fields(refused)["scope"]
    assert "who lacks the scope skills:upload" in caplog.text
    assert taken.status_code == 201


def test_without_the_setting_there_is_no_such_address(content: Path, tmp_path: Path) -> None:
    reply = send(open_library(content), write_zip(tmp_path / "pdf.zip"))

    assert reply.status_code in {404, 405}


def test_a_source_that_is_no_folder_is_refused_at_the_start(content: Path) -> None:
    library = open_library(
        Mounts((Mount(source=LocalFolder(content), at="teams/web"),)),
        settings={"upload": {"mode": "folder", "source": "teams/app"}},
    )

    with pytest.raises(ConfigError, match="Write one of: 'teams/web'"):
        open_site(library)
