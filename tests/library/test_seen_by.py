"""A caller's every reply is that of a server that has only what this caller sees."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams, ReadResourceRequestParams

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import LocalFolder, Mount
from skills_mcp.events.spool import Spool
from skills_mcp.library.catalog import RENDERERS
from skills_mcp.library.skill_library import LibraryView, SkillLibrary
from skills_mcp.server.replies import (
    ReplyRules,
    render_tool_result,
    reply_or_error,
    use_reply_rules,
)
from skills_mcp.server.resources import INDEX_URI, Resources, SkillsExtension
from skills_mcp.skills.access import EVERYTHING, OPERATOR, PRINCIPAL_KEY, Access
from skills_mcp.skills.model import Lifecycle, SkillPath
from skills_mcp.skills.skill_index import derive_parent_path
from skills_mcp.snapshots.skill_snapshot import SkillChanges
from tests.clients import TOOLS
from tests.packages import package_text
from tests.support import (
    Upstream,
    make_skill,
    open_library,
    running,
    skill_text,
    spooled,
    write,
    write_skill,
)

SPECS = {spec.name: spec for spec in TOOLS}

_TEXT = """react login post mortem postmortem kubernetes k8s deploy pdf form forms fill
invoice refund python rust a tests incident data base database"""
WORDS = tuple(_TEXT.split())

AS_JSON = ReplyRules("json", 40_000)

RULES = ("_root", "_index", "login", "refund", "react")
PACKAGES = ("pdf", "forms", "login-forms")
FOLDERS = ("a", "b", "payments")

words = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
few_words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True)
folders = st.lists(st.sampled_from(FOLDERS), max_size=2).map("/".join)
statuses = st.sampled_from(("", "", "", "", "draft", "active"))


_MOMENT = re.compile(r'\\"last_sync\\": \\"[^"]*\\"')


class File(NamedTuple):
    """A skill as its author writes it."""

    path: str
    name: str
    files: Mapping[str, str]
    status: str = ""


class Server(NamedTuple):
    """A library, and the folder that it serves."""

    library: SkillLibrary
    folder: Path


def join(*parts: str) -> str:
    return "/".join(filter(None, parts))


@st.composite
def rule_files(draw: st.DrawFn, *, may_lack_keywords: bool) -> File:
    folder, name = draw(folders), draw(st.sampled_from(RULES))
    if (name == "_root") is bool(folder) or (name == "_index" and not folder):
        folder, name = "", "_root"
    path = join(folder, name)
    fields: dict[str, Any] = {"priority": draw(st.sampled_from((0, 0, 0, 5, 100)))}
    if draw(st.integers(0, 4)) == 0:
        fields["inherit"] = False
    if draw(st.integers(0, 4)) == 0:
        fields["alwaysApply"] = True
    if status := draw(statuses):
        fields["status"] = status
    if draw(st.booleans()):
        fields["assets"] = [{"file": "t.txt", "description": "T", "type": "config"}]
    if may_lack_keywords and draw(st.booleans()):
        fields["keywords"] = []
    else:
        fields["keywords"] = draw(few_words)
    text = skill_text(description=draw(words) or "It", body=draw(words), **fields)
    is_skill = bool(fields["keywords"])  # what is no skill has no life cycle
    files = {f"{path}.md": text, f"{path}/t.txt": draw(words)}
    return File(path, name, files, status if is_skill else "")


@st.composite
def packages(draw: st.DrawFn) -> Sequence[File]:
    """Draw a package, and copies of it in other folders."""
    last = draw(st.sampled_from(PACKAGES))
    name = draw(st.sampled_from((last, last, "Forms", "refund")))
    fields: dict[str, Any] = {"priority": draw(st.sampled_from((0, 0, 7)))}
    if draw(st.booleans()):
        fields["category"] = draw(st.sampled_from(("web", "money")))
    if status := draw(statuses):
        fields["metadata"] = {"status": status}
    text = package_text(name=name, description=draw(words) or "It", body=draw(words), **fields)
    note = draw(words)
    places = draw(st.lists(folders, min_size=1, max_size=3, unique=True))
    return [
        File(
            join(place, last),
            name,
            {
                join(place, last, "SKILL.md"): text,
                join(place, last, "notes.md"): note,
                join(place, last, "examples/one.md"): f"# Fill {note}\n",
            },
            status,
        )
        for place in places
    ]


def choose_unique(every: Iterable[File]) -> tuple[File, ...]:
    return tuple({file.path: file for file in every}.values())


rule_trees = st.lists(rule_files(may_lack_keywords=False), max_size=9).map(choose_unique)
mixed_trees = st.builds(
    lambda rules, boxes: choose_unique((*rules, *(f for box in boxes for f in box))),
    st.lists(rule_files(may_lack_keywords=True), max_size=6),
    st.lists(packages(), max_size=4),
)
trees = rule_trees | mixed_trees

_PATTERNS = """* a/** b/** payments/** _root **/_index a/* pdf Refund */forms a/b/**
payments/pdf b/pdf forms"""
patterns = st.lists(st.sampled_from(_PATTERNS.split()), max_size=3).map(tuple)
grants = st.lists(st.tuples(patterns, patterns), min_size=1, max_size=2).map(tuple)
rules = st.fixed_dictionaries(
    {},
    optional={
        "allow": st.sampled_from((["*"], ["a/**", "_root"], ["b/**", "pdf"])),
        "deny": st.sampled_from((["a/_index"], ["payments/**"], ["pdf"])),
        "drafts": st.booleans(),
    },
)
tasks = st.lists(words | st.sampled_from((*RULES, *PACKAGES)), min_size=1, max_size=3)


def serve(folder: Path, files: Iterable[File], settings: Mapping[str, Any] | None = None) -> Server:
    content = folder / "content"
    content.mkdir(parents=True)
    for each in files:
        for name, text in each.files.items():
            write(content / name, text)
    given = {"toolsets": ["core", "packages"], **(settings or {})}
    return Server(open_library(content, settings=given), content)


def sees(access: Access, file: File, files: Iterable[File]) -> bool:
    status = find_status(file.path, {each.path: each.status for each in files})
    lifecycle = Lifecycle("draft" if status == "draft" else None)
    return access.sees(make_skill(file.path, name=file.name, lifecycle=lifecycle))


def find_status(path: str, declared: Mapping[str, str]) -> str:
    """Find the status of a skill, or of the nearest folder that declares one."""
    above: SkillPath | None = SkillPath(path)
    while above is not None:
        if status := declared.get(above):
            return status
        above = derive_parent_path(above)
    return ""


def ask_all(files: Sequence[File], tasks: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Iterate over calls of every tool that only reads, about all that there is."""
    for task in tasks:
        yield "get_skill", {"context": task}
        yield "get_skill", {"context": task, "explain": True}
        yield "get_skill", {"context": task, "within": "a"}
        yield "get_skill", {"context": task, "within": "payments", "category": "web"}
        yield "search_skills", {"query": task or "pdf"}
        yield "search_skills", {"query": task or "pdf", "within": "b", "limit": 2}
    for depth in (None, 1, 2):
        yield "list_skills", {"depth": depth}
        yield "list_skills", {"depth": depth, "path": "a"}
    yield "list_skills", {"path": "payments/_index"}
    yield "search_skills", {"query": "forms.md"}
    for name in {*PACKAGES, "Forms", "refund", "$login", "absent", "PDF", "a/_index"}:
        yield "load_skill", {"skill_name": name}
        yield "report_usage", {"skill_path": name, "useful": True}
    for path in (file.path for file in files):
        task = tasks[0]
        yield "get_skill", {"context": task, "skill_path": path}
        yield (
            "get_skill",
            {"context": task, "skill_path": path, "explain": True, "within": "b"},
        )
        yield "load_skill", {"skill_name": path}
        yield "get_asset", {"skill_path": path, "file": "t.txt"}
        yield "report_usage", {"skill_path": path, "useful": False}
    for file in (name for each in files for name in each.files):
        yield "load_skill", {"skill_name": file}
        yield "find_skill_files", {"skill_name": file.rpartition("/")[0] or file}
        for name in ("notes.md", "t.txt"):
            folder = file.rpartition("/")[0] or file
            yield "read_skill_file", {"skill_name": folder, "file_path": name}
        yield "load_skill_examples", {"skill_name": file, "query": tasks[0] or "pdf"}


async def call(library: LibraryView, tool: str, asked: Any) -> str:
    spec = SPECS[tool]
    arguments = spec.arguments.model_validate(
        {name: value for name, value in asked.items() if value is not None}
    )
    with use_reply_rules(AS_JSON):
        reply = await reply_or_error(spec.answer(library, arguments))
    return render_tool_result(reply, AS_JSON).model_dump_json()


async def read_resources(
    library: SkillLibrary, access: Access, uris: Iterable[str]
) -> Iterator[str]:
    resources = Resources(library)
    request = SimpleNamespace(scope={PRINCIPAL_KEY: replace(OPERATOR, access=access)})
    context: Any = SimpleNamespace(protocol_version="2026-07-28", request=request)
    listed = await resources.list(context, PaginatedRequestParams())
    extension = SkillsExtension(library)
    published = await extension.list(context, PaginatedRequestParams())
    said = [listed.model_dump_json() + json.dumps(published)]
    for uri in [INDEX_URI, *uris]:
        try:
            asked = ReadResourceRequestParams(uri=uri)
            said.append((await resources.read(context, asked)).model_dump_json())
        except MCPError as error:
            said.append(repr(error.error))
    return iter(said)


def replies(
    server: Server,
    files: Sequence[File],
    tasks: Sequence[str],
    access: Access = EVERYTHING,
) -> dict[str, str]:
    """Return what a server says to everything that it can be asked."""
    library = server.library.view(access)

    async def gather() -> dict[str, str]:
        said = {}
        for tool, asked in ask_all(files, tasks):
            said[f"{tool} {asked}"] = await call(library, tool, asked)
        names = sorted(name for each in files for name in each.files)
        uris = [f"skill://{name.removesuffix('.md')}/SKILL.md" for name in names]
        uris += [f"skill://{name}" for name in names]
        read = await read_resources(server.library, access, uris)
        pairs = zip(["", INDEX_URI, *uris], read, strict=True)
        said |= {f"resources {uri}": text for uri, text in pairs}
        return said

    said = anyio.run(gather)
    for style in RENDERERS:
        said[style] = library.compose_catalog(style).text
    said["core"] = repr(library.core_skills())
    said["algorithm"] = library.snapshot.algorithm
    # The two servers differ in nothing but the folder, and when they have read it.
    said = {each: text.replace(str(server.folder), "/") for each, text in said.items()}
    return {each: _MOMENT.sub("", text) for each, text in said.items()}


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> Any:
    """Return the replies that differ, by the call."""
    assert one.keys() == other.keys()
    return {c: (text, other[c]) for c, text in one.items() if text != other[c]}


def without_sources(said: Mapping[str, str]) -> dict[str, str]:
    """Return replies without the sources: one without a visible skill is not shown."""
    return {call: text for call, text in said.items() if "list_skills" not in call}


@given(trees, grants, patterns, rules, tasks)
def test_every_reply_is_that_of_a_server_with_the_visible_skills_alone(
    files: tuple[File, ...],
    grants: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...],
    scope: tuple[str, ...],
    visibility: dict[str, Any],
    tasks: list[str],
) -> None:
    granted = Access(grants)
    visible = [file for file in files if sees(granted, file, files)]
    settings = {"visibility": visibility}
    with TemporaryDirectory() as folder:
        whole = serve(Path(folder) / "whole", files, settings)
        alone = serve(Path(folder) / "alone", visible, settings)
        for narrowed in {(), scope}:
            access = Access(grants, narrowed)
            found = replies(whole, files, tasks, access)
            expected = replies(alone, files, tasks, Access(None, narrowed))
            if not whole.library.view(access).snapshot.index.visible_numbers:
                found, expected = without_sources(found), without_sources(expected)
            assert differing(found, expected) == {}


@given(trees, patterns.filter(bool), tasks)
def test_a_scope_finds_what_the_operator_s_allow_would_find(
    files: tuple[File, ...], scope: tuple[str, ...], tasks: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        whole = serve(Path(folder) / "whole", files)
        rules = {"visibility": {"allow": list(scope)}}
        allowed = serve(Path(folder) / "allowed", files, rules)
        found = replies(whole, files, tasks, Access(None, scope))
        expected = replies(allowed, files, tasks)
        # What an operator does not offer is refused as such; what a request leaves out
        # does not exist for it, so that a name may be that of another skill.
        refused = {c for c, text in expected.items() if "SKILL_DISABLED" in text}
        assert not any("SKILL_DISABLED" in text for text in found.values())
        # So a list may call a skill by a name where the operator's has a path.
        named = {c for c in found if c in RENDERERS or "list_skills" in c}
        same = found.keys() - refused - named
        different = differing({c: found[c] for c in same}, {c: expected[c] for c in same})
        assert different == {}


def test_an_operator_sees_the_snapshot_itself(tmp_path: Path) -> None:
    library = serve(tmp_path, [File("_root", "_root", {"_root.md": skill_text()})])[0]

    assert library.view(EVERYTHING).snapshot is library.current.latest
    assert library.view(Access(())).snapshot.index.get("_root") is None


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """Return a folder with the skills payments/one and ui/two."""
    write_skill(tmp_path / "content", "payments/one.md", keywords=["pay"])
    write_skill(tmp_path / "content", "ui/two.md", keywords=["button"])
    return tmp_path / "content"


UI = Access(((("ui/**",), ()),))
PAYMENTS = Access(((("payments/**",), ()),))


async def test_a_refresh_tells_a_caller_of_visible_skills_alone(content: Path) -> None:
    library = open_library(content)
    write_skill(content, "payments/new.md")
    write(content / "payments/broken.md", "---\nkeywords: [\n---\n")

    async with running(library):
        seen = await library.refresh(UI)
        write_skill(content, "payments/newer.md")
        write(content / "payments/worse.md", "---\nkeywords: [\n---\n")
        others = await library.refresh(PAYMENTS)
        write_skill(content, "ui/new.md")
        everything = await library.refresh()

    assert seen.changes == SkillChanges()
    assert (seen.skills_reindexed, seen.files_changed, seen.error) == (1, 0, None)
    assert others.changes == SkillChanges(added=(SkillPath("payments/newer"),))
    assert (others.skills_reindexed, others.files_changed) == (3, 1)
    assert everything.changes.added == ("ui/new",)
    assert everything.skills_reindexed == 5


async def test_a_source_that_fails_is_none_of_others_business(
    upstream: Upstream, content: Path, tmp_path: Path
) -> None:
    upstream.commit({"one.md": skill_text()})
    branch = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")
    mounts = Mounts((Mount(source=LocalFolder(content)), Mount(source=branch, at="secret/team")))
    library = open_library(mounts)
    everything = Access(((("*",), ()),))
    upstream.bare.rename(tmp_path / "gone.git")

    async with running(library):
        whole = await library.refresh()
        seen = await library.refresh(UI)
        both = await library.refresh(everything)

    assert whole.error is not None
    assert (seen.error, seen.mode, [s.mount for s in seen.sources]) == (
        None,
        "local",
        [""],
    )
    assert both.error is not None
    assert [s.mount for s in library.view(UI).states()] == [""]
    assert len(library.view(everything).states()) == 2


def test_progress_has_no_number_for_a_caller_who_sees_a_part(content: Path) -> None:
    library = open_library(content)

    library.mounts.progress.begin("Reading skills", 20_000)

    assert library.view().sync_step == "Reading skills 0 of 20,000"
    assert library.view(UI).sync_step == "Fetching the newest skills"
    library.mounts.progress.end()
    assert library.view(UI).sync_step == ""


def test_a_view_is_prepared_for_its_first_answer(content: Path) -> None:
    library = open_library(content)
    served = library.view(UI).served
    assert served

    assert served.is_prepared_for(EVERYTHING)
    assert not served.is_prepared_for(UI)
    library.view(UI).snapshot.prepare()
    assert served.is_prepared_for(UI)


def test_events_name_what_the_caller_sees(content: Path, spool: Spool) -> None:
    counted = {"analytics": {"enabled": True, "context": "full"}}
    library = open_library(content, settings=counted, spool=spool)
    seen = library.view(UI)

    seen.route("pay the button")
    seen.report("payments/one", useful=True, comment=None)

    served, feedback = (event["data"] for event in spooled(spool))
    assert served["skill_path"] == "ui/two"
    unknown = library.view(PAYMENTS)
    unknown.report("payments/two", useful=True, comment=None)
    [missing] = (event["data"] for event in spooled(spool)[2:])
    assert {**missing, "skill_path": ""} == {**feedback, "skill_path": ""}


def test_three_hundred_packages_answer_as_those_that_are_seen(tmp_path: Path) -> None:
    chance = Random(5)  # noqa: S311 - the same content in every run
    files = []
    for number in range(300):
        said = [" ".join(chance.choices(WORDS, k=chance.randint(3, 12))) for _ in "12"]
        name = f"{chance.choice(WORDS)}-{chance.choice(WORDS)}-{number // 3}"
        path = f"{chance.choice(FOLDERS)}/g{number % 7}/{name}"
        text = package_text(name=name, description=said[0], body=said[1] * 9)
        files.append(File(path, name, {f"{path}/SKILL.md": text}))
    grants = ((("a/**", "payments/g3/*"), ("a/g1/*",)), (("b/g*",), ("*react*",)))
    granted = Access(grants)
    visible = [file for file in files if sees(granted, file, files)]
    tasks = [" ".join(chance.choices(WORDS, k=5)) for _ in range(20)]
    whole, alone = serve(tmp_path / "whole", files), serve(tmp_path / "alone", visible)
    some = files[::40]

    found = replies(whole, some, tasks, granted)

    assert 100 < len(visible) < 250
    assert differing(found, replies(alone, some, tasks)) == {}
