"""Skills as resources, in both eras: what is listed, and what can be read."""

import base64
import json
from pathlib import Path

import anyio.to_thread
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, Resource, TextResourceContents

from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import LocalFolder, Mount
from skills_mcp.events.spool import Spool
from skills_mcp.library.skill_folder import PublishedNames
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server import callers
from skills_mcp.server.app import create_server
from skills_mcp.server.resources import (
    META_PREFIX,
    PAGE_SIZE,
    derive_uri,
    find_resource,
)
from skills_mcp.skills.skill_index import SkillIndex
from tests.clients import SlowSource, ask, connected
from tests.content.sources import checkout_of
from tests.packages import PNG, write_package, write_pdf
from tests.server.conftest import branch_of
from tests.support import (
    PATIENCE_SECONDS,
    SKILLS_CONTENT,
    Upstream,
    make_skill,
    open_library,
    sha256_of,
    skill_text,
    spooled,
    write,
    write_skill,
)

AUTH = "skill://ui-react-auth-x709ad3c/SKILL.md"

NOT_FOUND = {"auto": -32602, "legacy": -32002}


async def read_text(client: Client, uri: str) -> TextResourceContents:
    with anyio.fail_after(PATIENCE_SECONDS):
        [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert content.uri == uri
    return content


async def read_error(client: Client, uri: str) -> tuple[int, str, str]:
    """Return the code of the protocol, ours, and the message; the data has the URI."""
    with anyio.fail_after(PATIENCE_SECONDS), pytest.raises(MCPError) as raised:
        await client.read_resource(uri)
    error = raised.value.error
    assert error.data["uri"] == uri
    return error.code, error.data["code"], error.message


def without_frontmatter(text: str) -> str:
    """Return what is below the frontmatter that every text begins with."""
    opening, _, body = text.partition("---\n\n")
    assert opening.startswith("---\nname: ")
    return body.removesuffix("\n")


def meta_of(content: TextResourceContents | BlobResourceContents) -> dict[str, object]:
    """Return what is known of a resource, without the prefix of the keys."""
    return {k.removeprefix(META_PREFIX): v for k, v in (content.meta or {}).items()}


async def list_all(client: Client) -> list[list[Resource]]:
    pages = [await client.list_resources()]
    while pages[-1].next_cursor:
        pages.append(await client.list_resources(cursor=pages[-1].next_cursor))
    return [page.resources for page in pages]


# What is listed


async def test_every_skill_is_listed_by_its_name_but_no_rules_of_a_folder(
    library: SkillLibrary, era: str
) -> None:
    async with connected(library, era) as client:
        [page] = await list_all(client)
        read = await read_text(client, AUTH)

    paths = [row.path for row in library.view().snapshot.index]
    assert [each.title for each in page] == [
        path for path in paths if not path.endswith(("_root", "_index"))
    ]
    [auth] = [each for each in page if each.title == "ui/react/auth"]
    assert (auth.uri, auth.name) == (AUTH, "ui-react-auth-x709ad3c")
    assert auth.mime_type == "text/markdown"
    assert auth.description == (
        "Login, logout, session handling and protected views in the React web app"
    )
    assert auth.size == len(read.text.encode())
    assert auth.meta == {f"{META_PREFIX}path": "skills/ui/react/auth.md"}


async def test_a_skill_that_is_hidden_is_neither_listed_nor_read(tmp_path: Path, era: str) -> None:
    write_skill(tmp_path, "ui/auth.md")
    write_pdf(tmp_path)
    rules = {"visibility": {"deny": ["pdf"]}}

    async with connected(open_library(tmp_path, settings=rules), era) as client:
        [page] = await list_all(client)
        of_text = await read_error(client, "skill://pdf/SKILL.md")
        of_file = await read_error(client, "skill://pdf/references/forms.md")

    assert [each.title for each in page] == ["ui/auth"]
    assert of_text[:2] == of_file[:2] == (NOT_FOUND[era], "SKILL_DISABLED")


async def test_many_skills_are_listed_page_by_page(tmp_path: Path) -> None:
    for number in range(2 * PAGE_SIZE + 1):
        write_skill(tmp_path, f"s{number:03}.md")

    async with connected(open_library(tmp_path)) as client:
        pages = await list_all(client)

    assert [len(page) for page in pages] == [PAGE_SIZE, PAGE_SIZE, 1]
    names = [each.name for page in pages for each in page]
    assert names == [f"s{number:03}" for number in range(2 * PAGE_SIZE + 1)]


async def test_a_page_that_is_just_full_is_the_last(tmp_path: Path) -> None:
    for number in range(PAGE_SIZE):
        write_skill(tmp_path, f"s{number:03}.md")

    async with connected(open_library(tmp_path)) as client:
        pages = await list_all(client)

    assert [len(page) for page in pages] == [PAGE_SIZE]


async def test_a_refresh_between_two_pages_repeats_and_loses_nothing(tmp_path: Path) -> None:
    for number in range(PAGE_SIZE + 2):
        write_skill(tmp_path, f"s{number:03}.md")

    async with connected(open_library(tmp_path)) as client:
        first = await client.list_resources()
        (tmp_path / "s000.md").unlink()
        (tmp_path / f"s{PAGE_SIZE - 1:03}.md").unlink()
        await ask(client, "refresh_skills")
        second = await client.list_resources(cursor=first.next_cursor)

    names = [each.name for each in second.resources]
    assert names == [f"s{PAGE_SIZE:03}", f"s{PAGE_SIZE + 1:03}"]


@pytest.mark.parametrize("cursor", ["x", "not a cursor", "/w==", "_w==", "🙂"])
async def test_a_cursor_that_is_none_of_ours_is_refused(library: SkillLibrary, cursor: str) -> None:
    async with connected(library) as client:
        with pytest.raises(MCPError, match="Begin again without one") as raised:
            await client.list_resources(cursor=cursor)

    assert raised.value.error.code == -32602


async def test_a_long_description_is_cut(tmp_path: Path) -> None:
    write_skill(tmp_path, "a.md", description="x" * 2000)

    async with connected(open_library(tmp_path)) as client:
        [[listed]] = await list_all(client)

    assert len(listed.description or "") == 1024


async def test_how_addresses_are_made_is_said(library: SkillLibrary) -> None:
    async with connected(library) as client:
        listing = await client.list_resource_templates()

    assert [each.uri_template for each in listing.resource_templates] == [
        "skill://{+skill_path}/SKILL.md",
        "skill://{+skill_path}/{+file}",
    ]


async def test_the_list_may_be_kept_for_no_time_and_by_nobody_else(
    library: SkillLibrary,
) -> None:
    async with connected(library, "auto") as client:
        listing = await client.list_resources()

    assert (listing.ttl_ms, listing.cache_scope) == (0, "private")


async def test_a_list_asked_for_at_once_has_what_is_in_a_folder() -> None:
    async with connected(open_library(SKILLS_CONTENT, load=False)) as client:
        listing = await client.list_resources()

    assert AUTH in [each.uri for each in listing.resources]


async def test_a_list_has_what_was_cloned_before_and_does_not_wait_for_the_remote() -> None:
    source = SlowSource(SKILLS_CONTENT)
    source.here = checkout_of("a1b2c3", SKILLS_CONTENT)

    async with connected(open_library(source, load=False)) as client:
        listing = await client.list_resources()
        arrived = source.arrived.is_set()

    assert len(listing.resources) > 1
    assert not arrived


async def test_a_list_does_not_wait_for_ever_for_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "_STORED_CONTENT_SECONDS", 0.01)
    library = open_library(SKILLS_CONTENT, load=False)

    # Without a background that would read the folder.
    async with Client(create_server(library)) as client:
        with anyio.fail_after(PATIENCE_SECONDS):
            listing = await client.list_resources()

    assert listing.resources == []


async def test_before_there_is_content_the_list_is_empty_and_does_not_wait() -> None:
    source = SlowSource(SKILLS_CONTENT)

    async with connected(open_library(source, load=False)) as client:
        listing = await client.list_resources()
        templates = await client.list_resource_templates()
        arrived = source.arrived.is_set()

    assert listing.resources == []
    assert len(templates.resource_templates) == 2
    assert not arrived


# What can be read


async def test_a_rule_is_read_below_the_rules_that_it_inherits(library: SkillLibrary) -> None:
    async with connected(library) as client:
        read = await read_text(client, "skill://ui/react/auth/SKILL.md")
        loaded = await ask(client, "get_skill", context="x", skill_path="ui/react/auth")

    assert without_frontmatter(read.text) == loaded["content"]
    assert read.mime_type == "text/markdown"
    assert meta_of(read) == {
        "path": "skills/ui/react/auth.md",
        "sha256": sha256_of(read.text),
    }


@pytest.mark.parametrize("path", ["_root", "ui/_index"])
async def test_the_rules_of_a_folder_have_an_address_too(library: SkillLibrary, path: str) -> None:
    async with connected(library) as client:
        read = await read_text(client, f"skill://{path}/SKILL.md")

    assert "Northwind Parcel engineering conventions" in read.text
    assert meta_of(read)["path"] == f"skills/{path}.md"


async def test_a_package_is_read_below_its_frontmatter(tmp_path: Path) -> None:
    write_pdf(tmp_path)

    async with connected(open_library(tmp_path)) as client:
        read = await read_text(client, "skill://pdf/SKILL.md")

    assert without_frontmatter(read.text) == "Do it."


async def test_a_file_is_read_as_a_text_or_as_bytes(tmp_path: Path) -> None:
    write_pdf(tmp_path)

    async with connected(open_library(tmp_path)) as client:
        markdown = await read_text(client, "skill://pdf/references/forms.md")
        script = await read_text(client, "skill://pdf/scripts/fill.py")
        [logo] = (await client.read_resource("skill://pdf/logo.png")).contents

    assert (markdown.text, markdown.mime_type) == ("One\nTwo\nThree\n", "text/markdown")
    assert (script.text, script.mime_type) == ("print('filled')\n", "text/plain")
    assert meta_of(markdown) == {
        "path": "pdf/references/forms.md",
        "sha256": sha256_of(markdown.text),
    }
    assert isinstance(logo, BlobResourceContents)
    assert meta_of(logo)["sha256"] == sha256_of(PNG)
    assert (base64.b64decode(logo.blob), logo.mime_type) == (PNG, "image/png")


async def test_an_inherited_file_is_read_from_the_skill_that_has_it(library: SkillLibrary) -> None:
    async with connected(library) as client:
        read = await read_text(client, "skill://ui/react/auth/assets/design-tokens.json")

    assert json.loads(read.text)["version"]
    assert meta_of(read)["path"] == "skills/ui/_index/assets/design-tokens.json"


async def test_the_commits_of_other_sources_are_beside_the_own_one(
    tmp_path: Path, upstream: Upstream
) -> None:
    text = skill_text(body="Never commit secrets.")
    commit = upstream.commit({"skills/_root.md": text})
    write_skill(tmp_path / "notes", "auth.md", body="Log in.")
    mounts = (
        Mount(source=branch_of(upstream, tmp_path)),
        Mount(source=LocalFolder(tmp_path / "notes"), at="mine"),
    )

    async with connected(open_library(Mounts(mounts), load=False)) as client:
        root = await read_text(client, "skill://_root/SKILL.md")
        own = await read_text(client, "skill://mine/auth/SKILL.md")

    assert "Never commit secrets." in own.text
    assert meta_of(root) == {
        "commit": commit,
        "path": "skills/_root.md",
        "sha256": sha256_of(root.text),
    }
    assert meta_of(own) == {
        "path": "auth.md",
        "inherited_commits": {"_root": commit},
        "sha256": sha256_of(own.text),
    }


async def test_names_that_no_uri_can_hold_are_escaped(tmp_path: Path) -> None:
    write_skill(tmp_path, "größe #1/50 %.md", body="Percent.")
    uri = derive_uri("größe #1/50 %")

    async with connected(open_library(tmp_path)) as client:
        [[listed]] = await list_all(client)
        named = await read_text(client, listed.uri)
        read = await read_text(client, uri)

    assert uri.isascii()
    assert not set(uri) & set(" #?")
    assert named.text == read.text
    assert without_frontmatter(read.text) == "Percent."


async def test_a_read_waits_for_the_first_content() -> None:
    source = SlowSource(SKILLS_CONTENT)
    texts: list[str] = []

    async with connected(open_library(source, load=False)) as client:

        async def read() -> None:
            texts.append((await read_text(client, "skill://_root/SKILL.md")).text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.to_thread.run_sync(source.wait_until_asked)
            source.arrived.set()

    assert "Northwind Parcel" in texts[0]


async def test_without_content_a_read_says_why(tmp_path: Path) -> None:
    library = open_library(tmp_path / "nowhere", load=False)

    async with connected(library) as client:
        code, ours, message = await read_error(client, "skill://a/SKILL.md")

    assert (code, ours) == (-32603, "CONTENT_UNAVAILABLE")
    assert "nowhere" in message


@pytest.mark.parametrize(
    "uri, code",
    [
        ("skill://ui/react/auht/SKILL.md", "SKILL_NOT_FOUND"),
        ("skill://ui/react/auth", "SKILL_NOT_FOUND"),
        ("skill://ui/react/auth/SKILL.md/", "INVALID_PATH"),
        ("skill://", "SKILL_NOT_FOUND"),
        ("skill://SKILL.md", "SKILL_NOT_FOUND"),
        ("file:///etc/passwd", "SKILL_NOT_FOUND"),
        ("skill:ui/react/auth/SKILL.md", "SKILL_NOT_FOUND"),
        ("skill://ui/react/auth/assets/none.txt", "FILE_NOT_FOUND"),
        ("skill://ui/react/auth/../../../../../etc/passwd", "INVALID_PATH"),
        ("skill://ui/react/auth/%2e%2e/%2E%2E/etc/passwd", "INVALID_PATH"),
        ("skill://ui/react/auth/..%2f..%2fetc%2fpasswd", "INVALID_PATH"),
        ("skill://ui/react/auth//etc/passwd", "INVALID_PATH"),
        ("skill://ui/react/auth/assets%00", "INVALID_PATH"),
        ("skill://ui/react/auth.md", "SKILL_NOT_FOUND"),
        ("skill://" + "a/" * 50_000 + "SKILL.md", "SKILL_NOT_FOUND"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_an_address_that_leads_nowhere_is_an_error_of_the_protocol(
    library: SkillLibrary, uri: str, code: str
) -> None:
    async with connected(library) as client:
        found, ours, message = await read_error(client, uri)

    assert (found, ours) == (NOT_FOUND["auto"], code)
    assert "/etc/passwd" not in message or uri.startswith("file:")


async def test_a_file_that_cannot_be_handed_out_says_why(tmp_path: Path, era: str) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    files = {"large.txt": "x" * 30, "edited.txt": "a", "pointer.txt": pointer}
    write_package(tmp_path, "pdf", files)
    rules = {"assets": {"max_size_bytes": 29}}
    library = open_library(tmp_path, settings=rules)
    write(tmp_path / "pdf/edited.txt", "another text")

    # Without a background that would read the folder again.
    async with Client(create_server(library), mode=era) as client:
        errors = [await read_error(client, f"skill://pdf/{file}") for file in files]

    assert [(code, ours) for code, ours, _ in errors] == [
        (-32603, "FILE_TOO_LARGE"),
        (-32603, "FILE_CHANGED"),
        (-32603, "LFS_POINTER"),
    ]


async def test_what_is_read_is_counted_as_the_tools_count_it(spool: Spool) -> None:
    counted = {"analytics": {"enabled": True}}
    library = open_library(SKILLS_CONTENT, settings=counted, spool=spool)

    async with connected(library) as client:
        await read_text(client, "skill://ui/react/auth/SKILL.md")
        await read_text(client, "skill://ui/_index/assets/design-tokens.json")

    events = [(event["type"], event["data"]) for event in spooled(spool)]
    assert [kind for kind, _ in events] == ["skill_served", "asset_served"]
    assert [data["skill_path"] for _, data in events] == ["ui/react/auth", "ui/_index"]


# Addresses


@pytest.mark.parametrize("path", ["pdf", "ui/react/auth", "_root", "größe/50 %", "a?b#c", "日本/x"])
def test_an_address_leads_back_to_its_skill(path: str) -> None:
    index = SkillIndex([make_skill(path)])

    found = find_resource(index, PublishedNames(index), derive_uri(path))

    assert found == (path, "SKILL.md")


@pytest.mark.parametrize(
    "uri, expected",
    [
        ("skill://a/SKILL.md", ("a", "SKILL.md")),
        ("skill://a/b/SKILL.md", ("a/b", "SKILL.md")),
        ("skill://a/b/x.txt", ("a/b", "x.txt")),
        ("skill://a/c/x.txt", ("a", "c/x.txt")),
        ("SKILL://a/SKILL.md", ("a", "SKILL.md")),
    ],
)
def test_of_skills_inside_of_each_other_the_innermost_is_meant(
    uri: str, expected: tuple[str, str]
) -> None:
    index = SkillIndex([make_skill("a"), make_skill("a/b")])

    assert find_resource(index, PublishedNames(index), uri) == expected
