"""The first answer of a server, with every kind of remote, content and Git."""

import json
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skills_mcp.bootstrap import Options, build
from soak.scenario import Figure, Scale, Scenario
from soak.stdio import home_variables, started
from soak.sync.mirror import mirrored
from tests.clients import ServerProcess
from tests.content.git_server import GitServer, hang, serving
from tests.support import BROKEN, Upstream, skill_text

_SKILLS = 1_000
_BROKEN = 100

# Of the same server without a remote; the slowest of many is one that the machine was
# busy with.
_MOST_AT_MEDIAN = 1.15
_MOST_AT_WORST = 2.0

_LEGACY = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "soak", "version": "1"},
    "_meta": {},
}

_UNREADABLE = (
    *("no-frontmatter", "unclosed-frontmatter", "invalid-yaml", "yaml-alias"),
    *("nested-too-deep", "frontmatter-is-a-list", "missing-keywords"),
    *("keywords-as-text", "missing-description", "not-utf8"),
)
"""Kinds of files that are not served at all; each has a `review.md`."""


@dataclass(frozen=True, slots=True)
class _Start:
    """The first seconds of a server."""

    seconds: float
    """The seconds from the start to the first answer."""
    is_answered: bool
    was_unasked: bool
    """Whether the remote had not been asked when the answer came."""
    is_served: bool
    """Whether a tool worked while the remote was silent."""


def answer_while_hanging(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Start servers whose remote hangs, with a thousand skills and with none."""
    count = scale.count(full=20, quick=1)
    with serving(folder) as server:
        skills = scale.count(full=_SKILLS, quick=_SKILLS // 5)
        url = _publish_many(folder, server, skills)
        _sync_once(folder, url)
        server.fault = hang
        empty = folder / "empty"
        empty.mkdir()
        rounds: dict[str, list[_Start]] = {"warm": [], "cold": [], "floor": []}
        for number in range(count):
            cold = folder / f"cold-{number}"
            cold.mkdir()
            rounds["warm"].append(_begin(folder, server, number, SKILLS_REPO=url))
            rounds["cold"].append(_begin(cold, server, number + 1, SKILLS_REPO=url))
            if scale.is_full:
                floor = _begin(cold, server, number, SKILLS_DIR=str(empty))
                rounds["floor"].append(floor)
    for kind, what in (("warm", f"{skills:,} skills in the cache"), ("cold", "none")):
        starts = rounds[kind]
        said = f"remote hangs, {what}: "
        answered = sum(each.is_answered for each in starts)
        yield Figure.every(17, f"{said}first answer came", answered, count)
        unasked = sum(each.was_unasked for each in starts)
        yield Figure.every(17, f"{said}before the remote was asked", unasked, count)
        if rounds["floor"]:
            yield from _compare(said, starts, rounds["floor"])
    served = sum(each.is_served for each in rounds["warm"])
    yield Figure.every(17, "remote hangs: skills served from the cache", served, count)


def start_offline(folder: Path, _: Scale) -> Iterator[Figure]:
    """Start with a remote that is away: the first time, and later."""
    with serving(folder) as server:
        upstream = Upstream.create(folder)
        upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
        url = f"{server.url}/upstream.git"
        _sync_once(folder, url)
    cold = folder / "cold"
    cold.mkdir()
    with started(cold, SKILLS_REPO=url) as process:
        first = [
            "result" in process.request("server/discover"),
            len(process.request("tools/list")["result"]["tools"]) > 0,
            process.call("get_skill", context="one")["error"]["code"] == "CONTENT_UNAVAILABLE",
        ]
    with started(folder, SKILLS_REPO=url) as process:
        refreshed = process.call("refresh_skills")
        later = [
            process.call("get_skill", context="one").get("skill_path") == "one",
            refreshed["success"] is False,
            "error" in refreshed["sources"][0],
        ]
    passed = all(first), all(later)
    yield Figure.every(18, "first and later start offline", sum(passed), len(passed))


def spare_the_good(folder: Path, _: Scale) -> Iterator[Figure]:
    """Break a hundred of a thousand skills in ten ways."""
    with mirrored(folder) as (mirror, _server):
        texts = [(BROKEN / kind / "review.md").read_bytes() for kind in _UNREADABLE]
        files = {
            f"area-{number % 20}/broken-{number}.md": texts[number % len(texts)]
            for number in range(_BROKEN)
        }
        files |= {
            f"area-{number % 20}/good-{number}.md": skill_text().encode()
            for number in range(_SKILLS - _BROKEN)
        }
        for name in ("a", "b"):
            (mirror.upstream.work / f"skills/{name}.md").unlink()
        mirror.push("many", {f"skills/{file}": text for file, text in files.items()})
        application = build(Options(repo=mirror.remote.url), home_variables(folder))
        application.library.sync()
        snapshot = application.library.view().snapshot
        good = sum("good-" in each.path for each in snapshot.index)
        broken = {each.file for each in snapshot.problems if each.level == "error"}
        application.library.close()
    yield Figure.every(20, "good skills served", good, _SKILLS - _BROKEN)
    yield Figure.every(20, "broken ones reported", len(broken), _BROKEN)


def start_without_git(folder: Path, _: Scale) -> Iterator[Figure]:
    """Take Git away, and put an old one in its place."""
    upstream = Upstream.create(folder)
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    nothing, old = folder / "nothing", folder / "old"
    for path in (nothing, old):
        path.mkdir()
    _write_program(old / "git", 'echo "git version 2.20.1"')
    said = {nothing: "not installed", old: "too old"}
    passed = [
        _says(path, words, SKILLS_REPO=upstream.url, PATH=str(path)) for path, words in said.items()
    ]
    local = str(upstream.work / "skills")
    with started(nothing, SKILLS_DIR=local, PATH=str(nothing)) as process:
        found = process.call("get_skill", context="one")
    passed.append(found.get("skill_path") == "one")
    yield Figure.every(18, "Git missing or too old: said; folders work", sum(passed), len(passed))


def _says(folder: Path, words: str, **variables: str) -> bool:
    """Whether a server answers, and says why it has no skills."""
    with started(folder, **variables) as process:
        is_answered = "result" in process.request("server/discover")
        error = process.call("get_skill", context="one")["error"]
    is_typed = error["code"] == "CONTENT_UNAVAILABLE"
    return is_answered and is_typed and words in error["message"]


def _publish_many(folder: Path, server: GitServer, skills: int) -> str:
    upstream = Upstream.create(folder)
    files = {
        f"skills/area-{number % 20}/skill-{number}.md": skill_text(keywords=[f"word{number:04}"])
        for number in range(skills)
    }
    upstream.commit(files)
    return f"{server.url}/upstream.git"


def _begin(folder: Path, server: GitServer, number: int, **variables: str) -> _Start:
    """Start a server, in one of the two eras, and look at its first answer."""
    server.kinds.clear()
    began = time.perf_counter()
    with started(folder, name=f"server-{number}", **variables) as process:
        is_legacy = number % 2 == 1
        answer = _ask_first(process, is_legacy=is_legacy)
        seconds = time.perf_counter() - began
        was_unasked = not server.kinds
        is_warm = "cold" not in folder.name
        is_served = is_warm and _serves(process, is_legacy=is_legacy)
    return _Start(seconds, "result" in answer, was_unasked, is_served)


def _ask_first(process: ServerProcess, *, is_legacy: bool) -> dict[str, Any]:
    if is_legacy:
        return process.request("initialize", **_LEGACY)
    return process.request("server/discover")


def _serves(process: ServerProcess, *, is_legacy: bool) -> bool:
    era: dict[str, Any] = {"_meta": {}} if is_legacy else {}
    call = {"name": "get_skill", "arguments": {"context": "word0007"}}
    result = process.request("tools/call", **call, **era)["result"]
    reply = json.loads(result["content"][0]["text"])
    return bool(reply.get("skill_path") == "area-7/skill-7")


def _compare(said: str, starts: Sequence[_Start], floor: Sequence[_Start]) -> Iterator[Figure]:
    """Compare with the same server that has no remote, which is measured in turn."""
    ours = sorted(each.seconds for each in starts)
    least = sorted(each.seconds for each in floor)
    median = statistics.median(ours) / statistics.median(least)
    yield Figure.at_most(
        17, f"{said}median, of one without remote", round(median, 2), _MOST_AT_MEDIAN
    )
    worst = ours[-1] / least[-1]
    yield Figure.at_most(
        17, f"{said}slowest, of one without remote", round(worst, 2), _MOST_AT_WORST
    )


def _sync_once(folder: Path, url: str) -> None:
    """Fill the cache of a home, index included, as `skills-mcp sync` does."""
    application = build(Options(repo=url), home_variables(folder))
    application.library.sync()
    application.library.close()


def _write_program(path: Path, line: str) -> None:
    path.write_text(f"#!{shutil.which('sh')}\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("first-answer", answer_while_hanging),
    ("offline", start_offline),
    ("broken-skills", spare_the_good),
    ("no-git", start_without_git),
)
