"""The tools of 000 §3 and 003, as a client sees them."""

import base64
import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import anyio
import anyio.to_thread
import pytest
from mcp.client.client import Client
from mcp_types import CallToolResult, TextContent

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.events.spool import Spool
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.scripts.execution import CONFINING_TIERS, SandboxName
from tests.clients import Lifeline, Reports, ask, connected
from tests.packages import (
    PDF_FILES,
    PNG,
    contents,
    is_gone,
    package_text,
    write_package,
    write_pdf,
)
from tests.support import (
    PATIENCE_SECONDS,
    Upstream,
    open_library,
    sha256_of,
    spooled,
    write,
    write_skill,
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="programs of POSIX")

ON = {"toolsets": ["core", "packages"]}
COMMANDS = {
    "enabled": True,
    "allowed": ["python", "python3", "sh", "cat", "env", "printf"],
}
# What a test watches from outside, a sandbox keeps in.
IN_THE_OPEN = {"commands": COMMANDS, "scripts": {"sandbox": "off"}}


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """Return packages without any rules above them; two of them share a name."""
    root = tmp_path / "content"
    write_pdf(root, metadata={"skillhub": {"category": "Documents"}})
    write_package(root, "a/notes", description="Takes notes at meetings.")
    write_package(root, "b/notes", description="Writes release notes.")
    return root


def opened(content: Path, **settings: Any) -> SkillLibrary:
    return open_library(content, settings={**ON, **settings})


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


# search_skills


async def test_a_search_answers_with_exactly_the_documented_fields(content: Path) -> None:
    async with connected(opened(content)) as client:
        reply = await ask(client, "search_skills", query=" pdf ")

    assert reply == {
        "skills": [
            {
                "name": "pdf",
                "description": "Fill in PDF forms.",
                "score": 1.0,
                "category": "documents",
                "skill_path": "pdf",
                "scope": "org",
                "reason": "exact_path",
            }
        ],
        "count": 1,
        "truncated": False,
    }


async def test_a_search_says_why_each_skill_is_where_it_is(content: Path) -> None:
    write_package(content, "notes-of-releases", name="notes-of-releases")

    async with connected(opened(content)) as client:
        by_name = await ask(client, "search_skills", query="notes")
        by_words = await ask(client, "search_skills", query="taking notes at meetings")

    assert [(hit["skill_path"], hit["reason"]) for hit in by_name["skills"]] == [
        ("a/notes", "exact_name"),
        ("b/notes", "exact_name"),
        ("notes-of-releases", "prefix"),
    ]
    assert by_words["skills"][0]["skill_path"] == "a/notes"
    assert by_words["skills"][0]["reason"] == "token_overlap"
    assert 0 < by_words["skills"][0]["score"] < 1


async def test_a_search_says_whether_there_are_more(content: Path) -> None:
    async with connected(opened(content)) as client:
        reply = await ask(client, "search_skills", query="notes", limit=1)

    assert (reply["count"], reply["truncated"]) == (1, True)
    assert [hit["skill_path"] for hit in reply["skills"]] == ["a/notes"]


async def test_the_limit_of_the_operator_holds_where_the_caller_has_none(content: Path) -> None:
    library = opened(content, search={"limit": 1})

    async with connected(library) as client:
        reply = await ask(client, "search_skills", query="notes", limit=None)
        more = await ask(client, "search_skills", query="notes", limit=2)

    assert (reply["count"], more["count"]) == (1, 2)


async def test_a_search_may_be_for_the_skills_of_one_scope(content: Path) -> None:
    async with connected(opened(content)) as client:
        theirs = await ask(client, "search_skills", query="notes", scope="org")
        own = await ask(client, "search_skills", query="notes", scope="user")

    assert (theirs["count"], own["count"]) == (2, 0)


async def test_a_search_without_a_hit_is_no_error(content: Path) -> None:
    async with connected(opened(content)) as client:
        reply = await ask(client, "search_skills", query="zebra")

    assert reply == {
        "skills": [],
        "count": 0,
        "truncated": False,
        "message": "No skill fits. Go on without one, or try other words once.",
    }


# load_skill


async def test_a_load_answers_with_exactly_the_documented_fields(content: Path) -> None:
    async with connected(opened(content)) as client:
        reply = await ask(client, "load_skill", skill_name="pdf")

    digest = reply.pop("digest")
    files = contents(content / "pdf")
    assert reply == {
        "name": "pdf",
        "skill_path": "pdf",
        "path": str(content / "pdf"),
        "description": "Fill in PDF forms.",
        "category": "documents",
        "scope": "org",
        "instructions": "Do it.",
        "files": ["SKILL.md", *sorted(PDF_FILES)],
        "files_truncated": False,
        "file_inventory": {
            "hasSkillMd": True,
            "hasScripts": True,
            "hasReferences": True,
            "scriptFiles": ["scripts/fill.py"],
            "referenceFiles": ["references/forms.md"],
            "templateFiles": ["templates/letter.txt"],
            "totalFiles": 5,
            "totalSizeBytes": sum(map(len, files.values())),
        },
        "sha256": sha256_of("Do it."),
        "commit": None,
        "source_path": "pdf/SKILL.md",
    }
    assert len(digest) == 16


@pytest.mark.parametrize(
    "body",
    [
        "# Title\n\n- one\n  - two\n\n```sh\n\techo  \n```\n\nend",
        "a\n\n---\n\nb\n\n\n\nc",
        "===\n\n日本 \U0001f600 \u00a0 é",
        '{"json": "\\n"} <tag> & \\ "quoted"',
    ],
)
async def test_the_instructions_are_the_body_character_for_character(
    content: Path, body: str
) -> None:
    write_package(content, "own", body=body)

    async with connected(opened(content)) as client:
        reply = await ask(client, "load_skill", skill_name="own")

    assert reply["instructions"] == body


async def test_the_rules_of_the_organisation_reach_a_package_in_both_ways(content: Path) -> None:
    write_skill(content, "_root.md", body="Never commit secrets.")
    write_skill(content, "a/_index.md", body="Be brief.")

    async with connected(opened(content)) as client:
        loaded = await ask(client, "load_skill", skill_name="a/notes")
        routed = await ask(client, "get_skill", context="take notes", skill_path="a/notes")

    assert loaded["instructions"] == (
        "=== GLOBAL RULES (from _root.md) ===\n\nNever commit secrets.\n\n"
        "=== A (from a/_index.md) ===\n\nBe brief.\n\n"
        "=== A > NOTES (from a/notes/SKILL.md) ===\n\nDo it."
    )
    assert routed["content"] == loaded["instructions"]
    assert routed["digest"] == loaded["digest"]


async def test_a_skill_of_the_tree_can_be_loaded_too(content: Path) -> None:
    write_skill(content, "ui/forms.md", body="Label every field.", description="Forms")

    async with connected(opened(content)) as client:
        reply = await ask(client, "load_skill", skill_name="forms")

    assert len(reply.pop("digest")) == 16
    assert reply == {
        "name": "forms",
        "skill_path": "ui/forms",
        "path": None,
        "description": "Forms",
        "category": None,
        "scope": "org",
        "instructions": "Label every field.",
        "files": [],
        "files_truncated": False,
        "sha256": sha256_of("Label every field."),
        "commit": None,
        "source_path": "ui/forms.md",
    }


@pytest.mark.parametrize(
    "tool, more",
    [
        ("load_skill", {}),
        ("read_skill_file", {"file_path": "SKILL.md"}),
        ("find_skill_files", {}),
        ("run_skill_command", {"command": "cat", "args": ["SKILL.md"]}),
    ],
)
async def test_a_name_that_two_skills_have_is_refused_with_both_paths(
    content: Path, tool: str, more: dict[str, Any]
) -> None:
    library = opened(content, commands=COMMANDS)

    async with connected(library) as client:
        by_name = await ask(client, tool, skill_name="notes", **more)
        by_path = await ask(client, tool, skill_name="b/notes", **more)

    assert by_name == {
        "error": {
            "code": "SKILL_AMBIGUOUS",
            "message": "Several skills are named 'notes'. Pass the path of the one you "
            "mean: a/notes (org), b/notes (org).",
        }
    }
    assert "error" not in by_path


@pytest.mark.parametrize(
    "tool, more",
    [
        ("load_skill", {}),
        ("read_skill_file", {"file_path": "SKILL.md"}),
        ("find_skill_files", {}),
        ("run_skill_command", {"command": "cat"}),
    ],
)
async def test_a_name_that_nobody_has_is_not_found(
    content: Path, tool: str, more: dict[str, Any]
) -> None:
    async with connected(opened(content, commands=COMMANDS)) as client:
        reply = await ask(client, tool, skill_name="note", **more)

    assert reply["error"]["code"] == "SKILL_NOT_FOUND"
    assert "a/notes" in reply["error"]["message"]


@pytest.mark.parametrize("total", [200, 201])
async def test_a_load_lists_two_hundred_files_and_says_if_there_are_more(
    tmp_path: Path, total: int
) -> None:
    others = {f"references/{number:03}.md": "" for number in range(total - 1)}
    write_package(tmp_path, "many", others)

    async with connected(opened(tmp_path)) as client:
        reply = await ask(client, "load_skill", skill_name="many")

    assert len(reply["files"]) == 200
    assert reply["files_truncated"] is (total > 200)
    assert reply["file_inventory"]["totalFiles"] == total


# known_digest


@pytest.mark.parametrize(
    "tool, name",
    [
        ("load_skill", {"skill_name": "pdf"}),
        ("get_skill", {"context": "pdf", "skill_path": "pdf"}),
        ("get_skill", {"context": "fill in a PDF form"}),
    ],
)
async def test_who_has_the_text_gets_a_reminder(
    content: Path, tool: str, name: dict[str, Any]
) -> None:
    async with connected(opened(content)) as client:
        whole = await ask(client, tool, **name)
        again = await ask(client, tool, **name, known_digest=whole["digest"])
        other = await ask(client, tool, **name, known_digest="0123456789abcdef")
        full = await ask(client, tool, **name, known_digest=whole["digest"], full=True)

    kept = {"name", "skill_path", "path", "score", "matched_keywords", "digest"}
    kept |= {"commit", "source_path"}
    assert again == {
        **{key: value for key, value in whole.items() if key in kept},
        "unchanged": True,
        "message": "The text of pdf that you had is still current. Its headings and must-lines "
        "are here; call again with full set to true for the whole text.",
    }
    assert other == full == whole


async def test_one_skills_digest_is_not_anothers(content: Path) -> None:
    async with connected(opened(content)) as client:
        one = await ask(client, "load_skill", skill_name="a/notes")
        other = await ask(client, "load_skill", skill_name="b/notes", known_digest=one["digest"])

    assert other["instructions"] == "Do it."


async def test_a_digest_outlives_commits_that_change_something_else(
    tmp_path: Path, upstream: Upstream
) -> None:
    upstream.commit({"skills/pdf/SKILL.md": package_text(), "skills/pdf/a.md": "a"})
    remote = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")
    library = open_library(remote, settings=ON, load=False)
    replies: list[dict[str, Any]] = []

    async with connected(library) as client:

        async def commit_and_load(files: dict[str, str | None]) -> None:
            upstream.commit(files)
            await ask(client, "refresh_skills")
            reply = await ask(
                client,
                "load_skill",
                skill_name="pdf",
                known_digest=replies[-1]["digest"],
            )
            replies.append(reply)

        replies.append(await ask(client, "load_skill", skill_name="pdf"))
        await commit_and_load({"skills/word/SKILL.md": package_text(name="word")})
        await commit_and_load({"skills/pdf/SKILL.md": package_text(body="Better.")})
        await commit_and_load({"skills/pdf/b.md": "b"})
        await commit_and_load({"skills/_root.md": package_text(keywords=["all"])})

    told = [reply.get("unchanged", False) for reply in replies]
    assert told == [False, True, False, False, False]
    # Every commit has a folder of its own, and a reminder names the newest.
    assert len({reply["path"] for reply in replies}) == 5
    assert len({reply["digest"] for reply in replies}) == 4
    assert "instructions" not in replies[1]


# read_skill_file


async def test_a_text_is_read_with_exactly_the_documented_fields(content: Path) -> None:
    async with connected(opened(content)) as client:
        reply = await ask(
            client, "read_skill_file", skill_name="pdf", file_path="references/forms.md"
        )

    assert reply == {
        "skill_path": "pdf",
        "file_path": "references/forms.md",
        "content": "One\nTwo\nThree\n",
        "encoding": "utf-8",
        "truncated": False,
        "size_bytes": 14,
        "start_line": 1,
        "end_line": 3,
        "sha256": sha256_of(PDF_FILES["references/forms.md"]),
        "commit": None,
        "path": "pdf/references/forms.md",
    }


@pytest.mark.parametrize(
    "lines, expected",
    [
        ({"start_line": 2}, ("Two\nThree\n", 2, 3, None)),
        ({"max_lines": 1}, ("One\n", 1, 1, 2)),
        ({"start_line": 2, "max_lines": 1}, ("Two\n", 2, 2, 3)),
        ({"start_line": 3, "max_lines": None}, ("Three\n", 3, 3, None)),
    ],
)
async def test_some_lines_are_read_with_the_number_of_the_next(
    content: Path, lines: dict[str, int], expected: tuple[str, int, int, int | None]
) -> None:
    async with connected(opened(content)) as client:
        reply = await ask(
            client,
            "read_skill_file",
            skill_name="pdf",
            file_path="references/forms.md",
            **lines,
        )

    text, start, end, following = expected
    assert reply == {
        "skill_path": "pdf",
        "file_path": "references/forms.md",
        "content": text,
        "encoding": "utf-8",
        "truncated": following is not None,
        "size_bytes": 14,
        "start_line": start,
        "end_line": end,
        "total_lines": 3,
        **({"next_line": following} if following else {}),
        "sha256": sha256_of(text),
        "commit": None,
        "path": "pdf/references/forms.md",
    }


async def test_two_hundred_lines_are_read_if_only_the_first_is_named(content: Path) -> None:
    write(content / "pdf/long.txt", "line\n" * 500)

    async with connected(opened(content)) as client:
        reply = await ask(
            client,
            "read_skill_file",
            skill_name="pdf",
            file_path="long.txt",
            start_line=101,
        )

    assert (reply["end_line"], reply["next_line"]) == (300, 301)
    assert reply["content"] == "line\n" * 200


async def test_a_long_text_is_read_to_its_end_by_its_next_lines(content: Path) -> None:
    text = "".join(f"{number} zwölf 日本\n" for number in range(9000))
    write(content / "pdf/long.txt", text)
    wanted = {"skill_name": "pdf", "file_path": "long.txt"}

    async with connected(opened(content)) as client:
        replies = [await ask(client, "read_skill_file", **wanted)]
        while "next_line" in replies[-1]:
            more = {"start_line": replies[-1]["next_line"], "max_lines": 10_000}
            replies.append(await ask(client, "read_skill_file", **wanted, **more))

    assert "".join(reply["content"] for reply in replies) == text
    assert len(replies) == 3
    assert all(len(reply["content"].encode()) <= 65_536 for reply in replies)
    assert [reply["truncated"] for reply in replies] == [True, True, False]


async def test_a_line_that_is_cut_is_said(content: Path) -> None:
    write(content / "pdf/data.json", "x" * 30)
    library = opened(content, files={"max_bytes": 20})

    async with connected(library) as client:
        reply = await ask(client, "read_skill_file", skill_name="pdf", file_path="data.json")

    assert reply == {
        "skill_path": "pdf",
        "file_path": "data.json",
        "content": "x" * 20,
        "encoding": "utf-8",
        "truncated": True,
        "size_bytes": 30,
        "start_line": 1,
        "end_line": 1,
        "line_truncated": True,
        "sha256": sha256_of("x" * 20),
        "commit": None,
        "path": "pdf/data.json",
    }


async def test_a_binary_file_comes_as_base64(content: Path) -> None:
    async with connected(opened(content)) as client:
        reply = await ask(client, "read_skill_file", skill_name="pdf", file_path="logo.png")

    assert reply == {
        "skill_path": "pdf",
        "file_path": "logo.png",
        "content": base64.b64encode(PNG).decode(),
        "encoding": "base64",
        "mime_type": "image/png",
        "truncated": False,
        "size_bytes": len(PNG),
        "sha256": sha256_of(PNG),
        "commit": None,
        "path": "pdf/logo.png",
    }


async def test_a_file_of_a_skill_above_is_read_with_where_it_comes_from(content: Path) -> None:
    write_skill(content, "_root.md", assets=[{"file": "assets/note.txt"}])
    write(content / "_root/assets/note.txt", "Dear all\n")

    async with connected(opened(content)) as client:
        reply = await ask(client, "read_skill_file", skill_name="pdf", file_path="assets/note.txt")

    assert reply == {
        "skill_path": "pdf",
        "file_path": "assets/note.txt",
        "content": "Dear all\n",
        "encoding": "utf-8",
        "truncated": False,
        "size_bytes": 9,
        "start_line": 1,
        "end_line": 1,
        "resolved_from": "_root",
        "sha256": sha256_of("Dear all\n"),
        "commit": None,
        "path": "_root/assets/note.txt",
    }


HOSTILE = {
    "../a/notes/SKILL.md": "INVALID_PATH",
    "/etc/passwd": "INVALID_PATH",
    "C:\\Windows\\win.ini": "INVALID_PATH",
    "references/../../b/notes/SKILL.md": "INVALID_PATH",
    "SKILL.md\0": "INVALID_PATH",
    "references\\forms.md": "INVALID_PATH",
    "./SKILL.md": "INVALID_PATH",
    "references/": "INVALID_PATH",
    ".git/config": "INVALID_PATH",
    "": "INVALID_PATH",
    "passwords": "FILE_NOT_FOUND",
    "references": "FILE_NOT_FOUND",
    "nothing.md": "FILE_NOT_FOUND",
    "~root": "INVALID_PATH",
}


async def test_a_path_of_evil_leads_nowhere_and_shows_no_place_on_the_disk(
    content: Path, tmp_path: Path
) -> None:
    (content / "pdf/passwords").symlink_to(write(tmp_path / "secret", "canary"))

    async with connected(opened(content)) as client:
        replies = {
            file: await ask(client, "read_skill_file", skill_name="pdf", file_path=file)
            for file in HOSTILE
        }

    assert {file: reply["error"]["code"] for file, reply in replies.items()} == HOSTILE
    messages = [reply["error"]["message"] for reply in replies.values()]
    assert [text for text in messages if str(tmp_path) in text or "canary" in text] == []


async def test_lines_beyond_the_end_or_of_no_text_are_refused(content: Path) -> None:
    async with connected(opened(content)) as client:
        beyond = await ask(
            client,
            "read_skill_file",
            skill_name="pdf",
            file_path="references/forms.md",
            start_line=4,
        )
        binary = await ask(
            client,
            "read_skill_file",
            skill_name="pdf",
            file_path="logo.png",
            start_line=1,
        )

    for reply in (beyond, binary):
        assert reply["error"]["code"] == "INVALID_ARGUMENTS"
        assert reply["error"]["message"].startswith("start_line: ")


async def test_a_file_that_is_edited_is_served_after_a_refresh(content: Path) -> None:
    wanted = {"skill_name": "pdf", "file_path": "references/forms.md"}
    library = opened(content, commands=COMMANDS)

    async with connected(library) as client:
        await ask(client, "refresh_skills")  # nothing is read by itself after this
        write(content / "pdf/references/forms.md", "Four\nFive\nSix!\n")
        changed = [
            await ask(client, "read_skill_file", **wanted),
            await ask(client, "find_skill_files", skill_name="pdf", contains="One"),
            await ask(client, "run_skill_command", skill_name="pdf", command="env"),
        ]
        await ask(client, "refresh_skills")
        reply = await ask(client, "read_skill_file", **wanted)

    for answer in changed:
        assert answer["error"]["code"] == "FILE_CHANGED"
        assert "refresh_skills" in answer["error"]["message"]
    assert reply["content"] == "Four\nFive\nSix!\n"


# find_skill_files


async def test_files_are_found_with_exactly_the_documented_fields(content: Path) -> None:
    async with connected(opened(content)) as client:
        reply = await ask(client, "find_skill_files", skill_name="pdf")
        loaded = await ask(client, "load_skill", skill_name="pdf")

    files = contents(content / "pdf")
    assert reply == {
        "skill_path": "pdf",
        "files": [{"file": file, "size_bytes": len(data)} for file, data in files.items()],
        "truncated": False,
        "digest": loaded["digest"],
        "commit": None,
        "path": "pdf/SKILL.md",
    }
    assert len(files) == 5


@pytest.mark.parametrize(
    "wanted, found",
    [
        ({"pattern": "*.md"}, ["SKILL.md", "references/forms.md"]),
        ({"pattern": "scripts/**"}, ["scripts/fill.py"]),
        ({"contains": "tHrEe"}, ["references/forms.md"]),
        ({"pattern": "**/*.py", "contains": "filled"}, ["scripts/fill.py"]),
        ({"pattern": "**/*.py", "contains": "three"}, []),
        ({"pattern": None, "contains": None}, ["SKILL.md", *sorted(PDF_FILES)]),
    ],
)
async def test_files_are_found_by_a_pattern_and_a_text(
    content: Path, wanted: dict[str, str], found: list[str]
) -> None:
    async with connected(opened(content)) as client:
        reply = await ask(client, "find_skill_files", skill_name="pdf", **wanted)

    assert [each["file"] for each in reply["files"]] == found


async def test_two_hundred_files_are_found_and_it_is_said_if_there_are_more(tmp_path: Path) -> None:
    write_package(tmp_path, "many", {f"{number:03}.md": "" for number in range(250)})

    async with connected(opened(tmp_path)) as client:
        every = await ask(client, "find_skill_files", skill_name="many")
        some = await ask(client, "find_skill_files", skill_name="many", pattern="00?.md")

    assert (len(every["files"]), every["truncated"]) == (200, True)
    assert (len(some["files"]), some["truncated"]) == (10, False)


# load_skill_examples


EXAMPLES: dict[str, str | bytes] = {
    "examples/tax.md": "---\ntitle: A tax form\ntags: [tax]\n---\nUse form 7.\n",
    "examples/visa.md": "# A visa\n\nUse form 9.\n",
}


@pytest.fixture
def with_examples(content: Path) -> Path:
    """Return the content with a package that has files and a task as examples."""
    write_package(content, "forms", EXAMPLES, examples=["apply for a permit"])
    return content


async def test_examples_are_loaded_with_exactly_the_documented_fields(with_examples: Path) -> None:
    wanted = {"skill_name": "forms", "query": "a tax form, or a permit"}

    async with connected(opened(with_examples)) as client:
        reply = await ask(client, "load_skill_examples", **wanted)

    assert reply == {
        "skill_path": "forms",
        "examples": [
            {
                "title": "A tax form",
                "file": "examples/tax.md",
                "tags": ["tax"],
                "score": 4,
                "text": "Use form 7.",
                "truncated": False,
                "sha256": sha256_of("Use form 7."),
            },
            {
                "title": "A visa",
                "file": "examples/visa.md",
                "tags": [],
                "score": 1,
                "text": "# A visa\n\nUse form 9.",
                "truncated": False,
                "sha256": sha256_of("# A visa\n\nUse form 9."),
            },
            {
                "title": "apply for a permit",
                "file": None,
                "tags": [],
                "score": 1,
                "text": "apply for a permit",
                "truncated": False,
                "sha256": sha256_of("apply for a permit"),
            },
        ],
        "total": 3,
        "commit": None,
        "path": "forms/SKILL.md",
    }


@pytest.mark.parametrize(
    "top_k, count",
    [({}, 3), ({"top_k": None}, 3), ({"top_k": 0}, 1), ({"top_k": 99}, 10)],
)
async def test_three_examples_are_loaded_if_nobody_says_how_many(
    content: Path, top_k: dict[str, int], count: int
) -> None:
    write_package(content, "forms", examples=[f"form {n}" for n in range(12)])
    wanted = {"skill_name": "forms", "query": "form", **top_k}

    async with connected(opened(content)) as client:
        reply = await ask(client, "load_skill_examples", **wanted)

    assert (len(reply["examples"]), reply["total"]) == (count, 12)


async def test_an_example_that_is_left_out_is_said(with_examples: Path) -> None:
    write(with_examples / "forms/examples/image.md", PNG)
    wanted = {"skill_name": "forms", "query": "tax"}

    async with connected(opened(with_examples)) as client:
        reply = await ask(client, "load_skill_examples", **wanted)

    assert reply["notes"] == ["'examples/image.md' is no UTF-8 text, so it was left out."]
    assert [each["title"] for each in reply["examples"]] == ["A tax form"]


@pytest.mark.parametrize(
    "name, code", [("nobody", "SKILL_NOT_FOUND"), ("notes", "SKILL_AMBIGUOUS")]
)
async def test_examples_need_a_name_that_one_skill_has(content: Path, name: str, code: str) -> None:
    wanted = {"skill_name": name, "query": "form"}

    async with connected(opened(content)) as client:
        reply = await ask(client, "load_skill_examples", **wanted)

    assert reply["error"]["code"] == code


# run_skill_command


async def call(client: Client, *words: str) -> dict[str, Any]:
    command, *args = words
    return await ask(client, "run_skill_command", skill_name="pdf", command=command, args=args)


@posix
async def test_a_command_answers_with_exactly_the_documented_fields(content: Path) -> None:
    script = "cat references/forms.md; echo oh >&2; exit 3"

    async with connected(opened(content, commands=COMMANDS)) as client:
        reply = await call(client, "sh", "-c", script)

    sandbox = reply.pop("sandbox")
    assert sandbox in get_args(SandboxName)
    assert reply.pop("confined") is (sandbox in CONFINING_TIERS)
    assert list(reply.items()) == [
        ("stdout", "One\nTwo\nThree\n"),
        ("stderr", "oh\n"),
        ("exit_code", 3),
        ("timeout", False),
        ("truncated", {"stdout": False, "stderr": False}),
        ("sha256", None),
        ("stdout_bytes", 14),
        ("stderr_bytes", 3),
        ("commit", None),
        ("path", "pdf/SKILL.md"),
    ]


@posix
async def test_a_command_may_have_no_arguments(content: Path) -> None:
    async with connected(opened(content, commands=COMMANDS)) as client:
        left_out = await ask(client, "run_skill_command", skill_name="pdf", command="cat")
        null = await ask(client, "run_skill_command", skill_name="pdf", command="cat", args=None)

    assert left_out == null
    assert left_out["exit_code"] == 0


@posix
async def test_a_command_that_takes_too_long_is_an_answer_and_no_error(content: Path) -> None:
    library = opened(content, commands={**COMMANDS, "timeout_seconds": 1})

    async with connected(library) as client:
        reply = await call(client, "sh", "-c", "echo begun; exec sleep 60")

    assert (reply["timeout"], reply["exit_code"]) == (True, 137)
    assert reply["stdout"] == "begun\n"
    assert reply["stderr"] == "[skills-mcp] Script killed: timeout exceeded."


@posix
async def test_output_is_cut_at_the_limit_and_each_stream_says_so(content: Path) -> None:
    library = opened(content, commands={**COMMANDS, "max_output_bytes": 8})

    async with connected(library) as client:
        reply = await call(client, "printf", "%s", "123456789000")

    assert reply["stdout"] == (
        "123456\n[skills-mcp] Output truncated: 4 bytes are left out here.\n00"
    )
    assert reply["truncated"] == {"stdout": True, "stderr": False}
    assert (reply["stdout_bytes"], reply["stderr_bytes"]) == (12, 0)


@posix
async def test_a_command_writes_into_a_copy(content: Path) -> None:
    before = contents(content)
    script = "echo x > SKILL.md; rm -r references; touch new; ls"

    async with connected(opened(content, commands=COMMANDS)) as client:
        reply = await call(client, "sh", "-c", script)
        again = await call(client, "cat", "references/forms.md")

    assert reply["stdout"] == "SKILL.md\nlogo.png\nnew\nscripts\ntemplates\n"
    assert again["stdout"] == "One\nTwo\nThree\n"
    assert contents(content) == before


@posix
async def test_a_command_sees_no_secret_of_ours(
    content: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "ANTHROPIC_API_KEY", "SKILLS_REPO", "LD_PRELOAD"):
        monkeypatch.setenv(name, "canary")

    async with connected(opened(content, commands=COMMANDS)) as client:
        reply = await call(client, "env")

    assert "canary" not in reply["stdout"]
    assert "PATH=" in reply["stdout"]


@posix
async def test_python_runs_through_uv_where_there_is_one(content: Path, tmp_path: Path) -> None:
    write(tmp_path / "bin/uv", '#!/bin/sh\nprintf "%s|" uv "$@"\n').chmod(0o755)
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    settings = {**ON, "commands": COMMANDS}
    library = open_library(content, settings=settings, environment=environment)

    async with connected(library) as client:
        reply = await call(client, "python", "scripts/fill.py", "in.pdf")

    assert reply["stdout"] == "uv|run|--no-project|scripts/fill.py|in.pdf|"


@posix
async def test_python_runs_by_itself_where_there_is_no_uv(content: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    environment = {"PATH": str(tmp_path / "bin")}
    settings = {**ON, "commands": COMMANDS}
    library = open_library(content, settings=settings, environment=environment)

    async with connected(library) as client:
        reply = await call(client, "python", "scripts/fill.py")

    assert (reply["stdout"], reply["exit_code"]) == ("filled\n", 0)


# run_skill_entry


@pytest.fixture
def entered(content: Path) -> Path:
    """Return the content with a package that declares an entry, and others."""
    files = {"scripts/say.sh": 'printf "%s|" "$@"\n'}
    entry = {"entry": "sh scripts/say.sh 'to you' --loud"}
    write_package(content, "say", files, metadata=entry)
    write_package(content, "wild", metadata={"entry": "bash -c id"})
    write_package(content, "path", metadata={"entry": "/bin/cat SKILL.md"})
    write_package(content, "gone", metadata={"entry": "nowhere"})
    return content


@posix
async def test_an_entry_answers_with_exactly_the_documented_fields(entered: Path) -> None:
    async with connected(opened(entered, commands=COMMANDS)) as client:
        reply = await ask(client, "run_skill_entry", skill_name="say", args="'a b' $HOME;id")

    sandbox = reply.pop("sandbox")
    assert sandbox in get_args(SandboxName)
    assert reply.pop("confined") is (sandbox in CONFINING_TIERS)
    assert list(reply.items()) == [
        ("stdout", "to you|--loud|a b|$HOME;id|"),
        ("stderr", ""),
        ("exit_code", 0),
        ("timeout", False),
        ("truncated", {"stdout": False, "stderr": False}),
        ("sha256", sha256(b'printf "%s|" "$@"\n').hexdigest()),
        ("stdout_bytes", 27),
        ("stderr_bytes", 0),
        ("command", ["sh", "scripts/say.sh", "to you", "--loud", "a b", "$HOME;id"]),
        ("commit", None),
        ("path", "say/SKILL.md"),
    ]


@posix
async def test_an_entry_needs_no_more_words(entered: Path) -> None:
    async with connected(opened(entered, commands=COMMANDS)) as client:
        left_out = await ask(client, "run_skill_entry", skill_name="say")
        null = await ask(client, "run_skill_entry", skill_name="say", args=None)

    assert left_out["stdout"] == null["stdout"] == "to you|--loud|"


@pytest.mark.parametrize(
    "skill, args, code",
    [
        ("pdf", "", "ENTRY_NOT_DECLARED"),
        ("wild", "", "COMMAND_NOT_ALLOWED"),
        ("path", "", "COMMAND_NOT_ALLOWED"),
        ("gone", "", "RUNNER_NOT_FOUND"),
        ("say", "'", "INVALID_ARGUMENTS"),
        ("say", "a\0b", "INVALID_ARGUMENTS"),
        ("say", "x" * 10_001, "INVALID_ARGUMENTS"),
        ("nothing", "", "SKILL_NOT_FOUND"),
        ("notes", "", "SKILL_AMBIGUOUS"),
    ],
)
async def test_an_entry_that_may_not_run_says_why(
    entered: Path, skill: str, args: str, code: str
) -> None:
    rules = {**COMMANDS, "allowed": ["sh", "nowhere"]}

    async with connected(opened(entered, commands=rules)) as client:
        reply = await ask(client, "run_skill_entry", skill_name=skill, args=args)

    assert reply["error"]["code"] == code


async def test_who_loads_a_skill_sees_its_entry(entered: Path) -> None:
    async with connected(opened(entered)) as client:
        said = await ask(client, "load_skill", skill_name="say")
        other = await ask(client, "load_skill", skill_name="pdf")

    assert said["entry"] == "sh scripts/say.sh 'to you' --loud"
    assert "entry" not in other


async def test_another_entry_is_another_digest(entered: Path) -> None:
    async with connected(opened(entered)) as client:
        before = await ask(client, "load_skill", skill_name="say")
        entry = "sh scripts/say.sh 'to her' --loud"  # the file is as long as before
        write_package(entered, "say", metadata={"entry": entry})
        await ask(client, "refresh_skills")
        after = await ask(client, "load_skill", skill_name="say", known_digest=before["digest"])

    assert after["entry"] == entry


# A command that does not run


@pytest.mark.parametrize(
    "words, code",
    [
        (("bash", "-c", "true"), "COMMAND_NOT_ALLOWED"),
        (("/bin/cat",), "COMMAND_NOT_ALLOWED"),
        (("./scripts/fill.py",), "COMMAND_NOT_ALLOWED"),
        (("",), "COMMAND_NOT_ALLOWED"),
        (("cat", "a\0b"), "INVALID_ARGUMENTS"),
        (("nowhere",), "RUNNER_NOT_FOUND"),
        (("cat", *["x"] * 201), "INVALID_ARGUMENTS"),
    ],
)
async def test_a_command_that_may_not_run_says_why(
    content: Path, words: tuple[str, ...], code: str
) -> None:
    library = opened(content, commands={"enabled": True, "allowed": ["cat", "nowhere"]})

    async with connected(library) as client:
        reply = await call(client, *words)

    assert reply["error"]["code"] == code


@posix
async def test_a_cancelled_call_ends_its_command_and_leaves_no_copy(
    content: Path, tmp_path: Path, era: str, lifeline: Lifeline
) -> None:
    where = tmp_path / "where"
    script = f"pwd -P > {where}\n{lifeline.script()}"

    async with connected(opened(content, **IN_THE_OPEN), era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, client, "sh", "-c", script)
            await anyio.to_thread.run_sync(lifeline.wait_for_start)
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(lifeline.wait_for_end)
        reply = await call(client, "cat", "SKILL.md")

    assert reply["exit_code"] == 0
    assert is_gone(where.read_text())


@posix
async def test_a_long_command_reports_that_it_is_alive(content: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    reports = Reports(then=go.touch)
    script = f"until [ -e {go} ]; do sleep 0.01; done; echo done"
    arguments = {"skill_name": "pdf", "command": "sh", "args": ["-c", script]}

    async with connected(opened(content, **IN_THE_OPEN)) as client:
        with anyio.fail_after(PATIENCE_SECONDS):
            result = await client.call_tool(
                "run_skill_command", arguments, progress_callback=reports
            )

    assert json.loads(texts(result)[0])["stdout"] == "done\n"
    assert reports.messages[0] == "Run a command of a skill: 0 s"


# Skills that the operator does not offer


HIDDEN = {"visibility": {"deny": ["secret/*"]}, "commands": COMMANDS}


@pytest.fixture
def with_secret(content: Path) -> Path:
    """Return the content with a skill that `HIDDEN` hides."""
    script = {"file": "run.sh", "execution": "server"}
    folder = "secret/plans"
    write_package(content, folder, {"run.sh": "true"}, description="Plans of PDF.")
    write_skill(content, "secret/rules.md", scripts=[script])
    write(content / "secret/rules/run.sh", "true")
    return content


@pytest.mark.parametrize(
    "tool, arguments",
    [
        ("get_skill", {"context": "plans", "skill_path": "secret/plans"}),
        ("list_skills", {"path": "secret/plans"}),
        ("get_asset", {"skill_path": "secret/plans", "file": "run.sh"}),
        ("run_script", {"skill_path": "secret/rules", "file": "run.sh", "args": {}}),
        ("report_usage", {"skill_path": "secret/plans", "useful": True}),
        ("load_skill", {"skill_name": "secret/plans"}),
        ("load_skill", {"skill_name": "plans"}),
        ("load_skill", {"skill_name": "secret/plans", "known_digest": "x"}),
        ("read_skill_file", {"skill_name": "plans", "file_path": "SKILL.md"}),
        ("find_skill_files", {"skill_name": "plans"}),
        ("load_skill_examples", {"skill_name": "plans", "query": "a"}),
        ("run_skill_command", {"skill_name": "plans", "command": "cat"}),
    ],
)
async def test_a_hidden_skill_is_disabled_in_every_tool(
    with_secret: Path, tool: str, arguments: dict[str, Any]
) -> None:
    async with connected(opened(with_secret, **HIDDEN)) as client:
        reply = await ask(client, tool, **arguments)

    assert reply["error"]["code"] == "SKILL_DISABLED"
    assert "not offered here" in reply["error"]["message"]


async def test_a_hidden_skill_is_in_no_list_and_found_by_no_search(with_secret: Path) -> None:
    async with connected(opened(with_secret, **HIDDEN)) as client:
        tree = await ask(client, "list_skills")
        named = await ask(client, "search_skills", query="plans")
        described = await ask(client, "search_skills", query="plans of PDF")
        routed = await ask(client, "get_skill", context="plans")

    assert "secret" not in json.dumps([tree, named, described, routed])
    assert [hit["skill_path"] for hit in described["skills"]] == ["pdf"]
    assert routed["no_match"] is True


async def test_a_skill_that_is_offered_is_where_it_was(with_secret: Path) -> None:
    async with connected(opened(with_secret)) as client:
        reply = await ask(client, "load_skill", skill_name="plans")

    assert reply["skill_path"] == "secret/plans"


# Blocks


@pytest.mark.parametrize(
    "tool, arguments, prose",
    [
        ("load_skill", {"skill_name": "pdf"}, "instructions"),
        (
            "read_skill_file",
            {"skill_name": "pdf", "file_path": "references/forms.md"},
            "content",
        ),
    ],
)
async def test_markdown_comes_in_a_block_of_its_own_if_the_operator_wants_it(
    content: Path, tool: str, arguments: dict[str, Any], prose: str
) -> None:
    async with connected(opened(content)) as client:
        whole = await ask(client, tool, **arguments)
    async with connected(opened(content, responses={"format": "markdown"})) as c:
        result = await c.call_tool(tool, arguments)

    metadata, text = texts(result)
    assert text == whole[prose]
    told = json.loads(metadata)
    assert told["skill_path"] == whole["skill_path"]
    assert told == {key: whole[key] for key in told}
    assert "sha256" not in told


async def test_answers_without_prose_stay_one_block(content: Path) -> None:
    library = opened(content, responses={"format": "markdown"})

    async with connected(library) as client:
        whole = await client.call_tool("load_skill", {"skill_name": "pdf"})
        digest = json.loads(texts(whole)[0])["digest"]
        known = await ask(client, "load_skill", skill_name="pdf", known_digest=digest)
        image = await ask(client, "read_skill_file", skill_name="pdf", file_path="logo.png")
        found = await ask(client, "search_skills", query="pdf")

    assert known["unchanged"] is True
    assert image["encoding"] == "base64"
    assert found["count"] == 1


async def test_an_answer_has_no_structured_content(content: Path) -> None:
    async with connected(opened(content)) as client:
        result = await client.call_tool("load_skill", {"skill_name": "pdf"})

    assert result.structured_content is None


# Packages alone


async def test_who_has_packages_only_can_search_load_read_and_refresh(content: Path) -> None:
    library = open_library(content, settings={"toolsets": ["packages"]})

    async with connected(library) as client:
        found = await ask(client, "search_skills", query="fill in a PDF form")
        name = found["skills"][0]["name"]
        loaded = await ask(client, "load_skill", skill_name=name)
        await ask(client, "refresh_skills")  # nothing is read by itself after this
        write(content / "pdf/references/forms.md", "New\n")
        refreshed = await ask(client, "refresh_skills")
        read = await ask(
            client,
            "read_skill_file",
            skill_name=name,
            file_path=loaded["file_inventory"]["referenceFiles"][0],
        )

    assert refreshed["success"] is True
    assert read["content"] == "New\n"


async def test_what_is_done_is_counted(content: Path, spool: Spool) -> None:
    settings = {**ON, "commands": COMMANDS, "analytics": {"enabled": True}}
    library = open_library(content, settings=settings, spool=spool)

    async with connected(library) as client:
        await ask(client, "search_skills", query="pdf")
        await ask(client, "search_skills", query="zebra")
        await ask(client, "load_skill", skill_name="pdf")
        await ask(client, "find_skill_files", skill_name="pdf")
        await ask(client, "read_skill_file", skill_name="pdf", file_path="SKILL.md")
        await call(client, "cat", "SKILL.md")
        await call(client, "bash")

    assert [event["type"] for event in spooled(spool)] == [
        "no_match",
        "skill_served",
        "asset_served",
        "script_executed",
    ]
