import gc
import json
import sys
import weakref
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread
import pytest
from mcp_types import TextContent

from skills_mcp.content.source import Hold, SourceState
from skills_mcp.errors import (
    AccessRefusedError,
    ContentUnavailableError,
    FileTooLargeError,
    InvalidArgumentsError,
    InvalidPathError,
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
    SyncError,
    UndeclaredFileError,
)
from skills_mcp.library.answers import Match, Provenance, RanScript, ServedFile
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.routing.decision import Ambiguous
from skills_mcp.routing.matcher import Candidate
from skills_mcp.scripts.execution import ScriptResult
from skills_mcp.server import replies
from skills_mcp.server.replies import (
    Reply,
    ReplyRules,
    derive_protocol_error,
    render_tool_result,
    reply_or_error,
)
from skills_mcp.skills.inheritance import Inherited
from skills_mcp.skills.model import (
    Argument,
    Asset,
    Inventory,
    Script,
    Skill,
    SkillPath,
)
from skills_mcp.skills.skill_files import FileContent
from skills_mcp.snapshots.skill_snapshot import Refreshed, SkillChanges
from tests.clients import ERAS, ask, connected
from tests.support import make_skill

LIMIT = 40_000


def _texts(reply: Reply, style: str) -> list[str]:
    form: Literal["json", "markdown"] = "markdown" if style == "markdown" else "json"
    result = render_tool_result(reply, ReplyRules(form, LIMIT))
    return [block.text for block in result.content if isinstance(block, TextContent)]


def test_letters_of_every_script_stay_readable() -> None:
    [text] = _texts(Reply({"message": "Créer une tâche 日本"}), "json")

    assert text == '{"message": "Créer une tâche 日本"}'


def test_json_holds_the_prose_too() -> None:
    [text] = _texts(Reply({"a": 1, "content": "# Rules"}, prose="content"), "json")

    assert json.loads(text) == {"a": 1, "content": "# Rules"}


def test_markdown_takes_the_prose_out_of_the_metadata() -> None:
    texts = _texts(Reply({"a": 1, "content": "# Rules"}, prose="content"), "markdown")

    assert texts == ['{"a":1}', "# Rules"]


def test_an_error_is_marked_as_one() -> None:
    result = render_tool_result(Reply({"error": {}}, is_error=True), ReplyRules("json", LIMIT))

    assert result.is_error
    assert result.structured_content is None


@pytest.mark.spec("8.1")
def test_a_match_renders_inherited_files_with_their_source() -> None:
    script = Script("s.sh", "Checks", "server", (Argument("id", "The id", True),))  # noqa: FBT003
    parent = SkillPath("ui/_index")
    match = Match(
        skill=make_skill("ui/auth", assets=(Asset("a.txt", "A", "other"),)),
        score=7 / 8,
        matched_keywords=("auth",),
        content="text",
        inherited_assets=(Inherited(Asset("b.txt", "B", "template"), parent),),
        inherited_scripts=(Inherited(script, parent),),
        digest="0123456789abcdef",
        provenance=Provenance("a1b2c3d", "skills/pdf/SKILL.md"),
    )

    data = replies.match(match).data

    assert data["score"] == 0.875
    assert data["assets"] == [{"file": "a.txt", "description": "A", "type": "other"}]
    assert data["inherited_assets"] == [
        {"file": "b.txt", "description": "B", "type": "template", "from": "ui/_index"}
    ]
    assert data["inherited_scripts"] == [
        {
            "file": "s.sh",
            "description": "Checks",
            "execution": "server",
            "args": [{"name": "id", "description": "The id", "required": True}],
            "from": "ui/_index",
        }
    ]


@pytest.mark.parametrize("number, is_cut", [(200, False), (201, True)])
@pytest.mark.parametrize("kind", ["assets", "scripts"])
def test_a_match_lists_two_hundred_files_of_a_kind_and_says_if_there_are_more(
    kind: str, number: int, *, is_cut: bool
) -> None:
    entries: dict[str, Any] = {
        "assets": tuple(Asset(f"{n}.md", "", "reference") for n in range(number)),
        "scripts": tuple(Script(f"{n}.sh", "", "claude", ()) for n in range(number)),
    }

    data = replies.match(a_match(make_skill("pdf", **{kind: entries[kind]}))).data

    assert len(data[kind]) == 200
    assert data.get("files_truncated", False) is is_cut


def test_an_inventory_lists_two_hundred_files_of_a_kind_and_counts_all() -> None:
    files = tuple(f"{number}.md" for number in range(201))
    found = Inventory(
        script_files=(),
        reference_files=files,
        template_files=files,
        total_files=403,
        total_size_bytes=7,
    )

    assert replies.render_inventory(found) == {
        "file_inventory": {
            "hasSkillMd": True,
            "hasScripts": False,
            "hasReferences": True,
            "scriptFiles": [],
            "referenceFiles": list(files[:200]),
            "templateFiles": list(files[:200]),
            "totalFiles": 403,
            "totalSizeBytes": 7,
        }
    }


def test_what_the_caller_has_is_answered_with_a_reminder() -> None:
    known = replace(a_match(make_skill("pdf")), is_known=True)

    reply = replies.match(known)

    assert reply.data == {
        "skill_path": "pdf",
        "score": 1.0,
        "matched_keywords": [],
        "digest": "0123456789abcdef",
        "unchanged": True,
        "message": "The text of pdf that you had is still current. Its headings and must-lines "
        "are here; call again with full set to true for the whole text.",
        "commit": "a1b2c3d",
        "path": "skills/pdf/SKILL.md",
    }
    assert len(_texts(reply, "markdown")) == 1


def a_match(skill: Skill) -> Match:
    return Match(
        skill=skill,
        score=1.0,
        matched_keywords=(),
        content="text",
        inherited_assets=(),
        inherited_scripts=(),
        digest="0123456789abcdef",
        provenance=Provenance("a1b2c3d", "skills/pdf/SKILL.md"),
    )


@pytest.mark.parametrize("paths", [("a",), ("a", "b")])
def test_a_choice_of_which_none_may_fit_says_so(paths: tuple[str, ...]) -> None:
    found = tuple(Candidate(make_skill(path), Fraction(1, 2), ()) for path in paths)

    [text] = _texts(replies.ambiguous(Ambiguous(found, is_low_confidence=True)), "json")

    assert "go on without" in json.loads(text)["message"]


@pytest.mark.spec("8.1")
def test_scores_are_numbers_in_json() -> None:
    candidate = Candidate(make_skill("a"), Fraction(1, 2), ("example",))

    [text] = _texts(replies.ambiguous(Ambiguous((candidate,))), "json")

    assert json.loads(text)["candidates"] == [
        {
            "skill_path": "a",
            "score": 0.5,
            "description": "About a",
            "matched_keywords": ["example"],
        }
    ]


@pytest.mark.parametrize(
    "size, blocks, why",
    [(10, 1, "up to the limit it stays inline"), (11, 2, "one byte more is long")],
)
def test_a_long_text_asset_gets_a_block_of_its_own_in_markdown(
    size: int, blocks: int, why: str
) -> None:
    served = _served(FileContent(b"x" * size, is_binary=False, mime_type=""))

    texts = _texts(replies.asset(served, inline_text_max_bytes=10), "markdown")

    assert len(texts) == blocks, why


def test_a_binary_asset_stays_inline_whatever_its_size() -> None:
    served = _served(FileContent(b"x" * 11, is_binary=True, mime_type="image/png"))

    texts = _texts(replies.asset(served, inline_text_max_bytes=10), "markdown")

    assert len(texts) == 1


@pytest.mark.spec("8.4")
def test_a_duration_is_whole_milliseconds() -> None:
    result = ScriptResult(
        exit_code=0, stdout="", stderr="", duration_seconds=0.3404, timed_out=False
    )

    ran = RanScript(result, Provenance(None, "s.sh"))
    data = replies.script_result("s.sh", ran).data

    assert data["duration_ms"] == 340


@pytest.mark.spec("8.6")
def test_a_refresh_without_any_content_has_no_commit() -> None:
    result = Refreshed(
        mode="git",
        commit=None,
        files_changed=0,
        skills_reindexed=0,
        synced_at=None,
        error=SyncError("the host cannot be reached"),
    )

    reply = replies.refresh_result(result)

    assert reply.is_error
    assert reply.data == {
        "success": False,
        "commit_hash": None,
        "files_changed": 0,
        "skills_reindexed": 0,
        "last_sync": None,
        "added": [],
        "changed": [],
        "removed": [],
        "sources": [],
        "error": {"code": "SYNC_FAILED", "message": "the host cannot be reached"},
    }


@pytest.mark.spec("8.6")
def test_the_time_of_a_sync_is_written_as_the_specification_writes_it() -> None:
    result = Refreshed(
        mode="git",
        commit="a1b2c3d",
        files_changed=3,
        skills_reindexed=24,
        synced_at=datetime(2026, 2, 18, 14, 30, tzinfo=UTC),
        error=None,
    )

    data = replies.refresh_result(result).data

    assert data["last_sync"] == "2026-02-18T14:30:00.000Z"
    assert "error" not in data


@pytest.mark.spec("8.6")
@pytest.mark.parametrize("mode", ["git", "local"])
def test_with_several_sources_a_refresh_adds_a_line_for_each(
    mode: Literal["git", "local"],
) -> None:
    synced_at = datetime(2026, 2, 18, 14, 30, tzinfo=UTC)
    error = SyncError("away")
    result = Refreshed(
        mode=mode,
        commit="a1b2c3d",
        files_changed=3,
        skills_reindexed=24,
        synced_at=synced_at,
        error=error,
        sources=(
            source_state("", commit="a1b2c3d", synced_at=synced_at),
            source_state("teams/web", error=error),
        ),
    )

    data = dict(replies.refresh_result(result).data)
    alone = dict(replies.refresh_result(replace(result, sources=())).data)

    assert alone.pop("sources") == []
    assert data.pop("sources") == [
        {
            "mount": "",
            "name": "the source",
            "mode": "git",
            "commit": "a1b2c3d",
            "last_sync": "2026-02-18T14:30:00.000Z",
            "age_seconds": None,
            "stale": False,
        },
        {
            "mount": "teams/web",
            "name": "the source",
            "mode": "git",
            "commit": None,
            "last_sync": None,
            "age_seconds": None,
            "stale": False,
            "error": {"code": "SYNC_FAILED", "message": "away"},
        },
    ]
    assert data == alone


@pytest.mark.spec("8.6")
def test_a_source_says_all_that_is_known_of_its_age_and_its_gates() -> None:
    at = datetime(2026, 2, 18, 14, 30, tzinfo=UTC)
    state = source_state(
        "",
        commit="a1b2c3d",
        synced_at=at,
        age_seconds=4000.9,
        is_stale=True,
        error=AccessRefusedError("the token is wrong"),
        failed_at=at,
        next_attempt_at=at,
        verified_by="ops@acme.example",
        hold=Hold(at.timestamp(), "d3c2b1a"),
    )
    moment = "2026-02-18T14:30:00.000Z"

    [source] = replies.tree_metadata("ranked", [state], (), LIMIT)["sources"]

    assert list(source.items()) == [
        ("mount", ""),
        ("name", "the source"),
        ("mode", "git"),
        ("commit", "a1b2c3d"),
        ("last_sync", moment),
        ("age_seconds", 4000),
        ("stale", True),
        ("error", {"code": "AUTH_FAILED", "message": "the token is wrong"}),
        ("failed_at", moment),
        ("next_attempt_at", moment),
        ("verified_by", "ops@acme.example"),
        ("held", {"since": moment, "instead_of": "d3c2b1a"}),
    ]


def test_an_error_of_a_source_holds_no_secret() -> None:
    said = SyncError("fatal: https://ada:hunter2@git.example.com/x.git not found")

    data = replies.tree_metadata("ranked", [source_state("", error=said)], (), LIMIT)

    assert "hunter2" not in json.dumps(data)


@pytest.mark.parametrize("total", [50, 51])
def test_a_refresh_names_fifty_skills_of_a_kind_and_counts_the_rest(
    total: int,
) -> None:
    paths = tuple(SkillPath(f"s{number}") for number in range(total))
    result = Refreshed(
        mode="git",
        commit="a1b2c3d",
        files_changed=total,
        skills_reindexed=total,
        synced_at=None,
        error=None,
        changes=SkillChanges(added=paths, changed=paths[:1], removed=paths),
    )

    data = replies.refresh_result(result).data

    assert data["added"] == data["removed"] == list(paths[:50])
    assert data["changed"] == ["s0"]
    counts = {key: value for key, value in data.items() if key.endswith("_count")}
    cut = {"added_count": 51, "removed_count": 51}
    assert counts == (cut if total > 50 else {})


def test_the_commits_of_inherited_rules_are_there_if_they_differ() -> None:
    others = {SkillPath("_root"): "d3c2b1a"}
    known = a_match(make_skill("pdf"))
    mixed = replace(known, provenance=Provenance("a1b2c3d", "pdf/SKILL.md", others))

    assert "inherited_commits" not in replies.match(known).data
    assert replies.match(mixed).data["inherited_commits"] == {"_root": "d3c2b1a"}


def source_state(mount: str, **fields: Any) -> SourceState:
    values = {"commit": None, "synced_at": None, "error": None} | fields
    return SourceState(mount=mount, name="the source", mode="git", **values)


def _served(content: FileContent) -> ServedFile:
    return ServedFile(
        skill_path=SkillPath("a"),
        file="b",
        type="other",
        content=content,
        resolved_from=None,
        provenance=Provenance(None, "b"),
    )


@pytest.mark.parametrize("path", ["x\n=== GLOBAL RULES", "a" * 5000, "a\u202eb"])
def test_feedback_for_what_is_no_path_does_not_repeat_it_as_it_stands(
    path: str,
) -> None:
    message = replies.feedback_result(path).data["message"]

    assert path not in message
    assert message.isprintable()
    assert len(message) < 100


async def test_an_error_becomes_a_code_and_a_message() -> None:
    async def fail() -> Reply:
        raise SkillNotFoundError("There is no skill 'x'.")

    reply = await reply_or_error(fail())

    assert reply.is_error
    assert reply.data == {"error": {"code": "SKILL_NOT_FOUND", "message": "There is no skill 'x'."}}


class _Held:
    """What a function has in its hands when it fails."""


def _refuse(held: list[weakref.ref[_Held]]) -> Reply:
    ours = _Held()
    held.append(weakref.ref(ours))
    try:
        Path("/nowhere/at/all").read_bytes()
    except OSError as error:
        raise SkillNotFoundError(f"There is no skill {ours!r}.") from error
    raise AssertionError


async def test_a_refused_call_keeps_nothing_until_the_collector_comes() -> None:
    held: list[weakref.ref[_Held]] = []

    async def fail() -> Reply:
        return await anyio.to_thread.run_sync(_refuse, held)

    gc.disable()
    try:
        reply = await reply_or_error(fail())
        left = [each() for each in held]
    finally:
        gc.enable()

    assert reply.is_error
    assert left == [None]


async def test_what_a_client_is_told_holds_no_secret() -> None:
    async def fail() -> Reply:
        raise SyncError("fatal: https://ada:hunter2@git.example.com/x.git not found")

    reply = await reply_or_error(fail())

    assert "hunter2" not in reply.data["error"]["message"]


@pytest.mark.parametrize(
    "error, modern, legacy",
    [
        (SkillNotFoundError("x"), -32602, -32002),
        (SkillDisabledError("x"), -32602, -32002),
        (UndeclaredFileError("x"), -32602, -32002),
        (InvalidPathError("x"), -32602, -32002),
        (InvalidArgumentsError("x"), -32602, -32602),
        (FileTooLargeError("x"), -32603, -32603),
        (ContentUnavailableError("https://ada:hunter2@x.example"), -32603, -32603),
    ],
    ids=lambda value: getattr(value, "code", value),
)
def test_an_error_of_the_protocol_has_the_code_of_its_era_and_ours(
    error: SkillsError, modern: int, legacy: int
) -> None:
    uri = "skill://x"
    found = {e: derive_protocol_error(error, e, uri).error for e in ERAS.values()}

    assert [each.code for each in found.values()] == [modern, legacy]
    for each in found.values():
        assert each.data == {"code": error.code, "uri": uri}
        assert "hunter2" not in each.message


@pytest.mark.parametrize(
    "tool, arguments",
    [
        ("get_skill", {"context": "x", "skill_path": "nowhere"}),
        ("get_asset", {"skill_path": "ui/_index", "file": "/etc/passwd"}),
        ("run_script", {"skill_path": "ui/_index", "file": "x", "args": {}}),
    ],
)
async def test_a_failure_is_marked_and_holds_a_code_and_a_message_only(
    library: SkillLibrary, tool: str, arguments: dict[str, object]
) -> None:
    async with connected(library) as client:
        reply = await ask(client, tool, **arguments)

    assert list(reply) == ["error"]
    assert list(reply["error"]) == ["code", "message"]
    assert "Traceback" not in reply["error"]["message"]


async def test_a_call_without_enough_memory_is_a_reply_of_its_own() -> None:
    async def fill() -> Reply:
        bytearray(sys.maxsize)
        raise AssertionError

    reply = await reply_or_error(fill())

    assert reply.is_error
    assert reply.data["error"]["code"] == "OUT_OF_MEMORY"


def test_lists_beside_a_text_of_any_length_have_an_eighth_of_the_limit() -> None:
    files = [f"file-{number:05}.md" for number in range(5000)]
    reply = replies.Reply({"content": "x" * 50_000, "files": files}, "content", lists=("files",))

    shown = replies.truncate_lists(dict(reply.data), reply, 20_000)

    assert 2_000 < len(json.dumps(shown["files"])) <= 20_000 // 8
    assert shown["files_count"] == 5000


def test_a_reply_that_fits_is_serialised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    serialise, calls = json.dumps, []

    def count(*args: Any, **options: Any) -> str:
        calls.append(args)
        return serialise(*args, **options)

    monkeypatch.setattr(json, "dumps", count)

    (text,) = _texts(Reply({"items": ["one", "two"]}, lists=("items",)), "json")

    assert len(calls) == 1
    assert json.loads(text) == {"items": ["one", "two"]}
