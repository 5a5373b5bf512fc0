"""Of a large repository only what is served is fetched."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from skills_mcp.content.git.command import measure_objects
from skills_mcp.content.git.remote import Remote
from tests.content.git.git_store import GitStore
from tests.content.git_server import Answer, Fault, GitServer, Request, answer, only, serving
from tests.support import Upstream, git, write

LIMIT_BYTES = 200_000
"""Of a download: less than the files that no skill has."""

FILM = os.urandom(1_000_000)
PACKAGE = {"skills/pdf/SKILL.md": b"---\n---\nPDF", "skills/pdf/form.bin": b"\0\1\2"}


@pytest.fixture
def films(upstream: Upstream) -> Upstream:
    """A repository that is much larger than its skills, at a remote that can filter."""
    git("config", "uploadpack.allowFilter", "true", cwd=upstream.bare)
    for name, data in {**PACKAGE, "media/film.bin": FILM}.items():
        write(upstream.work / name, data)
    upstream.commit({"README.md": "Films"})
    return upstream


def open_store(server: GitServer, folder: Path, **policy: int) -> GitStore:
    remote = Remote(f"{server.url}/upstream.git", "main")
    return GitStore.create(folder / "store", remote, **policy)


def served(store: GitStore, commit: str) -> dict[str, bytes]:
    return {file: data for file, data in store.files(commit).items() if "/" in file}


@pytest.mark.usefixtures("films")
def test_what_no_skill_has_is_not_downloaded(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        store = open_store(server, tmp_path, max_total_bytes=LIMIT_BYTES // 2)

        commit = store.fetch().commit

    assert served(store, commit) == PACKAGE
    assert "film.bin" in str(store.repository.list_files(commit))


@pytest.mark.usefixtures("films")
def test_all_that_is_served_is_here_before_it_is_published(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        store = open_store(server, tmp_path)
        commit = store.fetch().commit
        server.fault = Request.wait  # whoever asks now waits

        assert served(store, commit) == PACKAGE
        server.ended.set()
    assert "promisor" not in (store.objects / "config").read_text()


def test_a_remote_that_cannot_leave_files_out_sends_all(films: Upstream, tmp_path: Path) -> None:
    git("config", "uploadpack.allowFilter", "false", cwd=films.bare)
    with serving(tmp_path) as server:
        error = open_store(server, tmp_path, max_total_bytes=LIMIT_BYTES // 2).fail()
        store = open_store(server, tmp_path / "large")
        commit = store.fetch().commit

    assert "twice limits.max_total_bytes" in str(error)
    assert served(store, commit) == PACKAGE


def speak_as_of_old(request: Request) -> None:
    """Answer in a version of the protocol in which single files have to be allowed."""
    del request.headers["Git-Protocol"]
    request.serve()


@pytest.mark.usefixtures("films")
def test_a_remote_that_sends_no_single_file_is_asked_for_all(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.fault = speak_as_of_old
        store = open_store(server, tmp_path)
        commit = store.fetch().commit

    assert served(store, commit) == PACKAGE


def test_of_the_next_commit_only_what_is_new_is_downloaded(films: Upstream, tmp_path: Path) -> None:
    large = os.urandom(3 * LIMIT_BYTES)
    write(films.work / "skills/pdf/large.bin", large)
    films.commit({"README.md": "More"})
    with serving(tmp_path) as server:
        store = open_store(server, tmp_path)
        store.fetch()
        size_bytes = store.size()
        films.commit({"skills/pdf/new.md": "New"})

        commit = store.fetch().commit

    assert store.size() - size_bytes < LIMIT_BYTES
    found = served(store, commit)
    expected = {"skills/pdf/large.bin": large, "skills/pdf/new.md": b"New"}
    assert found == PACKAGE | expected


def test_where_plugins_keep_their_skills_is_read_first(films: Upstream, tmp_path: Path) -> None:
    films.commit(
        {
            ".claude-plugin/marketplace.json": '{"name": "m", "plugins": [{"name": '
            '"p", "source": "./tools/p", "skills": ["./know-how/xls"]}]}',
            "tools/p/know-how/xls/SKILL.md": "---\n---\nXLS",
            "tools/p/film.txt": "not served",
        }
    )
    with serving(tmp_path) as server:
        store = open_store(server, tmp_path, max_total_bytes=LIMIT_BYTES // 2)
        commit = store.fetch().commit

    assert "tools/p/know-how/xls/SKILL.md" in store.files(commit)
    assert "tools/p/film.txt" not in store.files(commit)


@pytest.mark.usefixtures("films")
def test_a_file_too_large_to_be_served_is_told_with_its_size(
    upstream: Upstream, tmp_path: Path
) -> None:
    write(upstream.work / "skills/pdf/film.bin", FILM)
    upstream.commit({"README.md": "A film inside of a skill"})
    with serving(tmp_path) as server:
        store = open_store(server, tmp_path, max_file_bytes=LIMIT_BYTES)
        commit = store.fetch().commit

    listing = store.repository.list_served(commit)
    told = [str(p) for part in listing.surveyed.values() for p in part.problems]
    assert served(store, commit) == PACKAGE
    assert any("film.bin" in each and "1,000,000" in each for each in told)


def test_of_a_repository_on_this_machine_only_what_is_served_is_kept(
    films: Upstream, tmp_path: Path
) -> None:
    store = GitStore.create(tmp_path / "store", str(films.bare))

    commit = store.fetch().commit

    assert served(store, commit) == PACKAGE
    assert measure_objects(store.objects) < LIMIT_BYTES


def count_requests(server: GitServer, act: Callable[[], object]) -> list[str]:
    server.kinds.clear()
    act()
    return [kind for kind in server.kinds if kind == "fetch"]


def test_a_repository_of_skills_alone_is_fetched_in_two_steps(
    films: Upstream, tmp_path: Path
) -> None:
    with serving(tmp_path) as server:
        store = open_store(server, tmp_path)
        first = count_requests(server, store.fetch)
        films.commit({"media/README.md": "Nothing that is served"})
        second = count_requests(server, store.fetch)

    assert len(first) == 2
    assert len(second) == 1


@pytest.mark.usefixtures("films")
def test_a_remote_that_hangs_up_between_the_steps_publishes_nothing(
    tmp_path: Path,
) -> None:
    fetches: list[Request] = []

    def hang_up(request: Request) -> None:
        fetches.extend([request] if request.kind == "fetch" else [])
        if len(fetches) > 1:
            request.connection.close()
        else:
            request.serve()

    with serving(tmp_path) as server:
        server.fault = hang_up
        store = open_store(server, tmp_path)
        store.fail()
        left = [each.name for each in store.objects.glob("skills-incoming*")]
        server.fault = None
        commit = store.fetch().commit

    assert left == []
    assert served(store, commit) == PACKAGE


@pytest.mark.usefixtures("films")
def test_nothing_is_fetched_for_a_file_that_git_has_lost(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        store = open_store(server, tmp_path)
        commit = store.fetch().commit
        server.kinds.clear()
        words = ["git", "cat-file", "-e", f"{commit}:media/film.bin"]
        done = subprocess.run(words, cwd=store.objects, check=False)

    assert done.returncode != 0
    assert server.kinds == []


def without_shallow(request: Request) -> None:
    """Answer as a server of the old protocol that has no shallow clones."""
    del request.headers["Git-Protocol"]
    good = request.ask_git()
    request.send(
        Answer(good.status, good.headers, good.content.replace(b" shallow ", b" no-such "))
    )


def refuse_depth(request: Request) -> None:
    """Refuse each fetch with a depth, in words of its own."""
    if request.kind != "fetch" or b"deepen" not in request.body:
        request.serve()
        return
    line = b"ERR depth is not allowed here\n"
    content = b"%04x%s" % (len(line) + 4, line)
    request.send(Answer(200, {"Content-Type": "application/x-git-upload-pack-result"}, content))


def serve_files(request: Request) -> None:
    """Serve the files of the repository, as any web server does."""
    file = request.server.root / request.path.partition("?")[0].lstrip("/")
    found = file.is_file() and request.command == "GET"
    request.send(Answer(200 if found else 404, {}, file.read_bytes() if found else b""))


@pytest.mark.parametrize("fault", [without_shallow, refuse_depth, serve_files])
def test_a_remote_without_shallow_clones_is_fetched_as_a_whole(
    films: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    progress: list[str] = []
    git("update-server-info", cwd=films.bare)
    with serving(tmp_path) as server:
        server.fault = fault
        store = open_store(server, tmp_path)
        first = store.fetch(on_progress=lambda step, _: progress.append(step)).commit
        films.commit({"skills/pdf/new.md": "New"})
        git("update-server-info", cwd=films.bare)
        second = store.fetch().commit
        store.keep(first, second)

    assert served(store, first) == PACKAGE
    assert served(store, second) == PACKAGE | {"skills/pdf/new.md": b"New"}
    assert "all of its history is fetched" in caplog.text
    assert "Fetching all of the history" in progress
    assert "film.bin" in str(store.repository.list_files(second))


def test_a_whole_history_is_not_fetched_for_another_failure(
    films: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (films.bare).rename(tmp_path / "shallow")
    with serving(tmp_path) as server:
        server.fault = only("fetch", answer(500))
        remote = Remote(f"{server.url}/shallow", "main")
        GitStore.create(tmp_path / "store", remote).fail()

    assert server.counts["fetch"] == 1
    assert "history" not in caplog.text
