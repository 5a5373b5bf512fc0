"""The MCP extension for skills, in both eras: what is listed is what can be read."""

import base64
import json
from pathlib import Path

import pytest
import yaml
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, TextResourceContents

from skills_mcp.library import skill_folder as published_skills
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server import resources
from skills_mcp.server.resources import EXTENSION, INDEX_URI
from tests.clients import (
    ExtensionMethod,
    SlowSource,
    ask,
    ask_extension,
    connected,
    list_published,
)
from tests.packages import write_package, write_pdf
from tests.support import (
    SKILLS_CONTENT,
    open_library,
    sha256_of,
    skill_text,
    write,
    write_skill,
)

FOLDER: ExtensionMethod = "resources/directory/read"

AUTH = "skill://ui-react-auth-x709ad3c/SKILL.md"


async def read_bytes(client: Client, uri: str) -> bytes:
    [content] = (await client.read_resource(uri)).contents
    if isinstance(content, BlobResourceContents):
        return base64.b64decode(content.blob)
    assert isinstance(content, TextResourceContents)
    return content.text.encode()


async def refusal(client: Client, method: ExtensionMethod, **given: str) -> str:
    """Return the message of the error that the extension has for what is not there."""
    with pytest.raises(MCPError) as raised:
        await ask_extension(client, method, **given)
    error = raised.value.error
    assert error.code == -32602
    assert error.data["uri"] == given["uri"]
    return error.message


@pytest.fixture
def packages(tmp_path: Path) -> SkillLibrary:
    write_pdf(tmp_path, license="MIT", metadata={"author": "ada", "version": 1.0})
    write_package(tmp_path, "group/a/notes", {"größe 1.txt": "\ufeffx\r\n"})
    write_package(tmp_path, "group/b/notes")
    return open_library(tmp_path)


async def test_the_extension_is_declared(library: SkillLibrary, era: str) -> None:
    async with connected(library, era) as client:
        capabilities = client.server_capabilities
        listed = await ask_extension(client, "skills/list")

    assert capabilities is not None
    declared = capabilities.model_dump()["extensions"]
    assert declared == {EXTENSION: {"directoryRead": True}}
    assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private")


@pytest.mark.parametrize("content", ["library", "packages"])
async def test_what_is_listed_is_exactly_what_is_read(
    content: str, request: pytest.FixtureRequest, era: str
) -> None:
    library: SkillLibrary = request.getfixturevalue(content)

    async with connected(library, era) as client:
        skills = await list_published(client)
        listed = (await client.list_resources()).resources
        files = [file for skill in skills for file in skill["resources"]]
        read = {each["uri"]: await read_bytes(client, each["uri"]) for each in files}

    assert len(read) == len(files)
    for each in files:
        data = read[each["uri"]]
        assert each["size"] == len(data)
        assert each["digest"] == f"sha256:{sha256_of(data)}"
    for skill, resource in zip(skills, listed, strict=True):
        head = read[skill["uri"]].decode().split("---\n")[1]
        told = skill["frontmatter"]
        assert yaml.safe_load(head) == told
        assert skill["uri"] == f"skill://{told['name']}/SKILL.md" == resource.uri
        assert (resource.name, resource.description, resource.size) == (
            told["name"],
            told["description"],
            len(read[skill["uri"]]),
        )
    assert len({skill["frontmatter"]["name"] for skill in skills}) == len(skills)


async def test_what_an_author_wrote_of_a_package_is_kept(packages: SkillLibrary) -> None:
    async with connected(packages) as client:
        skills = await list_published(client)

    told = {each["frontmatter"]["metadata"]["path"]: each for each in skills}
    assert list(told) == ["group/a/notes", "group/b/notes", "pdf"]
    assert told["pdf"]["frontmatter"] == {
        "name": "pdf",
        "description": "Fill in PDF forms.",
        "license": "MIT",
        "metadata": {"author": "ada", "version": "1.0", "path": "pdf"},
    }


async def test_one_skill_is_the_same_entry_as_in_the_list(library: SkillLibrary) -> None:
    async with connected(library) as client:
        skills = await list_published(client)
        answer = await ask_extension(client, "skills/get", uri=AUTH)

    assert answer["skill"] in skills
    assert answer["skill"]["frontmatter"]["metadata"]["path"] == "ui/react/auth"


@pytest.mark.parametrize(
    "uri",
    [
        "skill://none/SKILL.md",
        "skill://_root/SKILL.md",
        AUTH.removesuffix("/SKILL.md"),
        "skill://SKILL.md",
        "file:///etc/passwd",
    ],
)
async def test_an_address_of_no_skill_is_refused(library: SkillLibrary, era: str, uri: str) -> None:
    async with connected(library, era) as client:
        message = await refusal(client, "skills/get", uri=uri)

    assert "skills/list has them all" in message


async def test_a_folder_has_its_direct_children(packages: SkillLibrary) -> None:
    async with connected(packages) as client:
        top = await ask_extension(client, "resources/directory/read", uri="skill://pdf")
        [folder] = [each for each in top["resources"] if each["name"] == "references"]
        below = await ask_extension(client, "resources/directory/read", uri=folder["uri"])
        text = await read_bytes(client, "skill://pdf/SKILL.md")

    assert top["resources"][0] == {
        "name": "pdf",
        "uri": "skill://pdf/SKILL.md",
        "description": "Fill in PDF forms.",
        "mimeType": "text/markdown",
        "size": len(text),
    }
    kinds = {each["name"]: each["mimeType"] for each in top["resources"][1:]}
    assert kinds == {
        "logo.png": "image/png",
        "references": "inode/directory",
        "scripts": "inode/directory",
        "templates": "inode/directory",
    }
    assert [each["uri"] for each in below["resources"]] == ["skill://pdf/references/forms.md"]


@pytest.mark.parametrize(
    "uri", ["skill://pdf/SKILL.md", "skill://pdf/none", "skill://group", "skill://", ""]
)
async def test_what_is_no_folder_is_refused(packages: SkillLibrary, uri: str) -> None:
    async with connected(packages) as client:
        await refusal(client, "resources/directory/read", uri=uri)
        message = await refusal(client, "resources/directory/read", uri="skill://pdf", cursor="x")

    assert "Unknown cursor" in message


async def test_an_empty_cursor_is_none(packages: SkillLibrary) -> None:
    async with connected(packages) as client:
        folder = {"uri": "skill://pdf"}
        plain = await ask_extension(client, "resources/directory/read", **folder)
        children = await ask_extension(client, "resources/directory/read", **folder, cursor="")
        skills = await ask_extension(client, "skills/list", cursor="")
        listed = await client.list_resources(cursor="")

    assert children == plain
    assert skills["skills"]
    assert listed.resources


async def test_many_skills_come_in_pages(
    library: SkillLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "PAGE_SIZE", 5)

    async with connected(library) as client:
        first = await ask_extension(client, "skills/list")
        skills = await list_published(client)

    paths = [each["frontmatter"]["metadata"]["path"] for each in skills]
    assert len(first["skills"]) == 5
    assert paths == sorted(set(paths))
    assert len(paths) == 16


async def test_a_skill_beyond_the_limits_of_hosts_is_not_published(
    packages: SkillLibrary, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(published_skills, "MAX_PUBLISHED_FILES", 4)

    async with connected(packages) as client:
        skills = await list_published(client)
        await refusal(client, "skills/get", uri="skill://pdf/SKILL.md")
        read = await read_bytes(client, "skill://pdf/SKILL.md")

    assert len(skills) == 2
    assert b"Do it." in read
    [told] = [each for each in caplog.messages if each.startswith("Not published")]
    assert "pdf: the skill, which has 5 files" in told


async def test_a_file_that_cannot_be_read_is_not_promised(tmp_path: Path) -> None:
    write_pdf(tmp_path)
    limit = {"assets": {"max_size_bytes": 15}}

    async with connected(open_library(tmp_path, settings=limit)) as client:
        [skill] = await list_published(client)

    names = [each["uri"].rpartition("/")[2] for each in skill["resources"]]
    assert names == ["SKILL.md", "logo.png", "forms.md", "letter.txt"]


async def test_the_name_of_a_skill_comes_before_the_path_of_another(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/react/auth.md", body="The one by its name.")
    write_skill(tmp_path, "ui-react-auth-x709ad3c.md", body="The other.")

    async with connected(open_library(tmp_path)) as client:
        skills = await list_published(client)
        texts = [await read_bytes(client, each["uri"]) for each in skills]

    assert len({each["uri"] for each in skills}) == 2
    told = {each["frontmatter"]["metadata"]["path"] for each in skills}
    assert told == {"ui/react/auth", "ui-react-auth-x709ad3c"}
    assert b"The other." in texts[0]
    assert b"The one by its name." in texts[1]


async def test_the_index_names_every_published_skill(library: SkillLibrary) -> None:
    async with connected(library) as client:
        skills = await list_published(client)
        index = json.loads(await read_bytes(client, INDEX_URI))

    assert index["skills"] == [
        {
            "name": each["frontmatter"]["name"],
            "type": "skill-md",
            "description": each["frontmatter"]["description"],
            "url": each["uri"],
        }
        for each in skills
    ]


async def test_an_unchanged_skill_keeps_its_digests(tmp_path: Path) -> None:
    write_pdf(tmp_path)
    write_skill(tmp_path, "auth.md")

    async with connected(open_library(tmp_path)) as client:
        before = await list_published(client)
        write(tmp_path / "auth.md", skill_text(body="Another text."))
        await ask(client, "refresh_skills")
        after = await list_published(client)

    assert before[1] == after[1]
    assert before[0]["resources"] != after[0]["resources"]


async def test_a_list_waits_for_the_disk_and_not_for_the_remote() -> None:
    async with connected(open_library(SKILLS_CONTENT, load=False)) as client:
        stored = await list_published(client)

    source = SlowSource(SKILLS_CONTENT)
    async with connected(open_library(source, load=False)) as client:
        nothing = await list_published(client)
        arrived = source.arrived.is_set()

    assert len(stored) == 16
    assert nothing == []
    assert not arrived


async def test_without_content_the_error_says_why(tmp_path: Path) -> None:
    library = open_library(tmp_path / "nowhere", load=False)

    async with connected(library) as client:
        with pytest.raises(MCPError, match="nowhere") as raised:
            await ask_extension(client, "skills/get", uri="skill://a/SKILL.md")

    assert raised.value.error.code == -32603
    assert raised.value.error.data["code"] == "CONTENT_UNAVAILABLE"
