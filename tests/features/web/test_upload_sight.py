"""An upload changes and tells nothing of what the uploader may not see."""

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import anyio
import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import Access
from tests.features.authoring.intake.archives import write_zip
from tests.features.web.uploading import INSTALL, open_site, sees, send
from tests.packages import package_text
from tests.support import make_skill, open_library, skill_text, write

UPLOADS = {"upload": {"mode": "folder"}}
LIMITED = Access(((("*",), ("**/draft*", "draft*", "tools/secret")),))
REFUSED = (
    "You may not add a skill called {} here. Choose another name, or ask the operator for a grant"
)

_TIME = re.compile(r"\d{8}-\d{6}|[0-9a-f]{32,}|archive\" value=\"[^\"]+")


class File(NamedTuple):
    """A skill as it lies in the content."""

    path: str
    name: str
    files: Mapping[str, str]


def package(path: str, name: str = "", **files: str) -> File:
    name = name or path.rpartition("/")[2]
    others = {f"{path}/{file.replace('_', '.')}": text for file, text in files.items()}
    return File(path, name, {f"{path}/SKILL.md": package_text(name=name), **others})


def rule(path: str) -> File:
    return File(path, path.rpartition("/")[2], {f"{path}.md": skill_text()})


def serve(folder: Path, skills: Iterable[File]) -> SkillLibrary:
    (folder / "skills").mkdir(parents=True)
    for each in skills:
        for file, text in each.files.items():
            write(folder / "skills" / file, text)
    return open_library(folder, settings=UPLOADS)


def read_all(folder: Path) -> dict[str, str]:
    """Return what is served of a folder: every file, without the earlier versions."""
    found = (each for each in folder.rglob("*") if each.is_file())
    return {
        place: each.read_text()
        for each in found
        if not (place := each.relative_to(folder).as_posix()).startswith(".skills-mcp")
    }


def pack(name: str, files: Iterable[str], body: str = "Do it.") -> dict[str, str]:
    packed = {"SKILL.md": package_text(name=name, body=body)}
    for file in files:
        above = file.rpartition("/")[0].rpartition("/")[2]
        is_main = file.endswith("SKILL.md")
        packed[file] = package_text(name=above or name) if is_main else "x"
    return packed


STANDING = (
    *map(package, ("kit", "kit/pub", "kit/draft", "kit/draft-two", "kit/sub/draft")),
    *map(package, ("kit/draft/pub", "tools/draft", "tools/pub", "draft")),
    *(package("kit/named", "Secret"), package("tools/a/b/draft-x", a_txt="1")),
    *map(rule, ("guide", "tools/guide", "tools/secret")),
)
MEMBERS = (
    *("notes.md", "scripts/run.py", "pub/SKILL.md", "pub/a.txt", "draft/SKILL.md"),
    *("draft/notes.md", "sub/draft/SKILL.md", "sub/notes.md", "draft-two/x/y.txt"),
    *("named/SKILL.md", "named/a.txt", "Draft/a.txt", "draft", "other/SKILL.md"),
)
KITS = STANDING[:7]  # packages alone, so that no refusal is unavoidable
NESTED = (*KITS[:4], KITS[5])  # kit/draft, and kit/draft/pub in it
PATTERNS = ("*", "kit", "kit/**", "tools", "tools/**", "**/draft*", "draft*", "Secret")
USUAL = (
    ((("*",), ("**/draft*", "draft*")),),
    ((("kit", "kit/**", "tools*"), ("**/draft*",)),),
    ((("kit", "kit/pub*", "tools"), ()),),
    ((("*",), ("kit/*", "tools/*")),),
    ((("kit*",), ("kit/sub*", "kit/draft")), (("tools", "guide"), ())),
)

trees = st.lists(
    st.sampled_from(STANDING), min_size=3, max_size=8, unique_by=lambda each: each.path
)
grants = st.sampled_from(USUAL) | st.lists(
    st.tuples(
        st.lists(st.sampled_from(PATTERNS[:5]), min_size=1, max_size=2).map(tuple),
        st.lists(st.sampled_from(PATTERNS[1:]), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=2,
).map(tuple)
archives = st.lists(
    st.tuples(
        st.sampled_from(("kit", "kit", "tools", "draft")),
        st.lists(st.sampled_from(MEMBERS), max_size=2, unique=True),
    ),
    min_size=1,
    max_size=3,
)


def is_hidden(skill: File, access: Access) -> bool:
    return not access.sees(make_skill(skill.path, name=skill.name))


async def upload(
    library: SkillLibrary, access: Access, sent: Sequence[Mapping[str, str]]
) -> list[tuple[str, int, Mapping[str, str], str]]:
    """Return every reply of looking, adding, listing versions and going back."""
    app = open_site(library, sees(access))
    said: list[tuple[str, int, Mapping[str, str], str]] = []

    def note(call: str, reply: httpx.Response) -> None:
        headers = {n: v for n, v in reply.headers.items() if n != "content-length"}
        text = _TIME.sub("", reply.text)
        said.append((call, reply.status_code, headers, text))

    async with (
        anyio.create_task_group() as tasks,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as it,
    ):
        tasks.start_soon(library.refresher.run)
        library.refresher.wake()
        for number, files in enumerate(sent):
            with tempfile.TemporaryDirectory() as folder:
                data = write_zip(Path(folder, "a.zip"), files).read_bytes()
            for door in ("/add", INSTALL):
                reply = await it.post(door, files={"file": ("a.zip", data)})
                note(f"{number} {door}", reply)
        page = await it.get("/add")
        note("page", page)
        shown = re.findall(
            r'name="name" value="([^"]+)">\s*<input[^>]*name="version" value="([^"]+)',
            page.text,
        )
        for name, version in shown:
            asked = {"name": name, "version": version}
            note(f"restore {name}", await it.post("/add/restore", data=asked))
        note("page again", await it.get("/add"))
        note("list", await it.get("/api/skills"))
        tasks.cancel_scope.cancel()
    return said


def is_unavoidable(skills: Sequence[File], access: Access) -> bool:
    """Whether a hidden skill has a place that grants do not hide.

    It is a rule file, which would become a file of the package, or hidden by the name
    that its author gave it.
    """
    hidden = [skill for skill in skills if is_hidden(skill, access)]
    return any(
        f"{each.path}.md" in each.files
        or access.sees(make_skill(each.path, name=each.path.rpartition("/")[2]))
        for each in hidden
    )


def is_file_at_hidden_folder(hidden: Iterable[File], name: str, files: Iterable[str]) -> bool:
    """Whether a file would lie where a hidden package does, which nothing can conceal."""
    return any(f"{skill.path}/".startswith(f"{name}/{file}/") for skill in hidden for file in files)


@given(trees, grants, archives)
@example([*KITS], USUAL[0], [("kit", []), ("kit", ["pub/SKILL.md"])])
@example([*KITS], USUAL[0], [("tools", []), ("kit", ["draft/SKILL.md"])])
@example([*KITS], USUAL[1], [("tools", ["notes.md"]), ("kit", ["draft/notes.md"])])
@example([*NESTED], USUAL[4], [("kit", [])])
@example([*KITS], USUAL[3], [("tools", ["draft/notes.md"]), ("draft", ["draft"])])
def test_every_reply_is_that_of_a_server_with_the_visible_files_alone(
    skills: list[File],
    grants: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...],
    archives: list[tuple[str, list[str]]],
) -> None:
    access = Access(grants)
    visible = [skill for skill in skills if not is_hidden(skill, access)]
    hidden = [skill for skill in skills if is_hidden(skill, access)]
    sent = [
        pack(name, files, body=f"{number}")
        for number, (name, files) in enumerate(archives)
        if not is_file_at_hidden_folder(hidden, name, files)
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        whole = serve(folder / "whole", skills)
        alone = serve(folder / "alone", visible)

        found = anyio.run(upload, whole, access, sent)
        expected = anyio.run(upload, alone, access, sent)
        after = read_all(folder / "whole/skills")

        kept = {file: text for each in hidden for file, text in each.files.items()}
        assert kept.items() <= after.items()
        if is_unavoidable(skills, access):
            return  # its name is taken, and that is said in the words for a hidden one
        assert found == expected
        rest = {file: text for file, text in after.items() if file not in kept}
        assert rest == read_all(folder / "alone/skills")


@pytest.fixture
def content(tmp_path: Path) -> Path:
    return tmp_path / "content"


def send_packed(library: SkillLibrary, tmp_path: Path, name: str, *files: str) -> httpx.Response:
    return send(library, write_zip(tmp_path / "a.zip", pack(name, files)), sees(LIMITED))


def test_what_is_hidden_below_a_skill_outlives_its_replacement(
    content: Path, tmp_path: Path
) -> None:
    library = serve(
        content,
        [
            package("kit", a_txt="1"),
            package("kit/draft", b_txt="2"),
            package("kit/pub"),
        ],
    )

    reply = send_packed(library, tmp_path, "kit", "new.txt")

    assert reply.status_code == 201, reply.text
    assert set(read_all(content / "skills/kit")) == {
        *("SKILL.md", "new.txt"),
        *("draft/SKILL.md", "draft/b.txt"),
    }


def test_a_restored_version_brings_back_no_hidden_skill(content: Path, tmp_path: Path) -> None:
    library = serve(content, [package("kit", a_txt="1"), package("kit/draft-old")])
    send(library, write_zip(tmp_path / "a.zip", pack("kit", ["draft-new/SKILL.md"])))

    async def restore() -> httpx.Response:
        transport = httpx.ASGITransport(open_site(library, sees(LIMITED)))
        async with (
            anyio.create_task_group() as tasks,
            httpx.AsyncClient(transport=transport, base_url="http://x") as it,
        ):
            tasks.start_soon(library.refresher.run)
            page = await it.get("/add")
            version = re.findall(r'name="version" value="([^"]+)', page.text)[0]
            asked = {"name": "kit", "version": version}
            reply = await it.post("/add/restore", data=asked)
            tasks.cancel_scope.cancel()
        return reply

    reply = anyio.run(restore)

    assert reply.status_code == 200, reply.text
    assert set(read_all(content / "skills/kit")) == {
        *("SKILL.md", "a.txt"),
        "draft-new/SKILL.md",
    }


@pytest.mark.parametrize(
    "name, file, refused",
    [
        ("draft", "notes.txt", "draft"),
        ("kit", "draft/SKILL.md", "kit/draft"),
        ("kit", "sub/draft/SKILL.md", "kit/sub/draft"),
        ("kit", "draft/notes.txt", "kit/draft"),
    ],
)
def test_what_grants_hide_is_refused_whether_it_is_there_or_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, file: str, refused: str
) -> None:
    for skills in ([package("kit")], [package("kit"), package(refused)]):
        content = tmp_path / f"{len(skills)}"
        library = serve(content, skills)
        before = read_all(content)

        reply = send_packed(library, tmp_path, name, file)

        assert reply.status_code == 409
        assert reply.json()["error"]["message"] == REFUSED.format(refused)
        assert "(the grants hide it)" in caplog.text
        assert read_all(content) == before


@pytest.mark.parametrize("area", [[rule("tools/secret")], [rule("tools/guide")]])
def test_a_taken_name_is_refused_as_a_hidden_one(
    content: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, area: list[File]
) -> None:
    library = serve(content, [package("kit"), *area])
    before = read_all(content)

    reply = send_packed(library, tmp_path, "tools")

    assert reply.status_code == 409
    assert reply.json()["error"]["message"] == REFUSED.format("tools")
    assert "a folder with other files or skills" in caplog.text
    assert read_all(content) == before


def test_hidden_skills_in_a_folder_of_the_name_stay_unseen(content: Path, tmp_path: Path) -> None:
    library = serve(content, [package("kit"), package("tools/draft", a_txt="1")])

    reply = send_packed(library, tmp_path, "tools", "notes.md")

    assert reply.status_code == 201
    assert reply.json()["replacedVersion"] is None
    assert set(read_all(content / "skills/tools")) == {
        *("SKILL.md", "notes.md"),
        *("draft/SKILL.md", "draft/a.txt"),
    }
    assert not [*(content / "skills/.skills-mcp/versions/tools").iterdir()]
