"""What Git is told, and what it never gets to see."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skills_mcp.content.advice import find_advice
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git import (
    DamagedStoreError,
    GitRepository,
    _without_inherited_variables,
)
from skills_mcp.content.remote import Remote
from skills_mcp.content.store import SnapshotStore
from skills_mcp.errors import SyncError
from tests.content.git_server import serving
from tests.support import Upstream, git, group_members, wait_for, write

TOKEN = f"canary-{uuid.uuid4().hex}"  # the bird that must not be heard
needs_processes = pytest.mark.skipif(
    sys.platform == "win32", reason="looks at process groups"
)


@pytest.fixture
def recorded_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[list[str]]]:
    """Put a `git` first in PATH that writes down its process and its arguments."""
    record = tmp_path / "record.txt"
    real = shutil.which("git")
    script = f'#!/bin/sh\necho "$$ $*" >> {record}\nexec {real} "$@"\n'
    write(tmp_path / "bin" / "git", script).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return lambda: [line.split() for line in record.read_text().splitlines()]


@contextmanager
def a_silent_server() -> Iterator[str]:
    """Listen and never answer: the system accepts, nobody reads."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/skills.git"


def fetch(repository: GitRepository, folder: Path, timeout_seconds: float = 30) -> str:
    with SnapshotStore(folder).exclusive(timeout_seconds=10) as lock:
        return repository.fetch(lock, timeout_seconds=timeout_seconds)


def fill_credentials(remote: Remote, url: str, folder: Path) -> dict[str, str]:
    """Ask Git for the credentials that it would send, with our environment."""
    repository = GitRepository(folder / "objects.git", remote)
    done = subprocess.run(
        ["git", "credential", "fill"],
        input=f"url={url}\n\n",
        env=dict(os.environ) | dict(repository._environment()),
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
    )
    pairs = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in pairs}


@pytest.mark.spec("9.2")
def test_a_private_repository_is_fetched_with_the_token(
    upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"skills/_root.md": "Rules"})

    with serving(tmp_path, TOKEN) as server:
        remote = Remote.parse(f"{server.url}/upstream.git", "main", TOKEN)
        checkout = RemoteBranch(remote, tmp_path / "cache").sync()

    assert checkout.revision == commit
    assert (checkout.directory / "skills/_root.md").read_text() == "Rules"


@pytest.mark.spec("9.2")
def test_a_user_and_password_inside_the_url_are_sent_as_they_are(
    tmp_path: Path,
) -> None:
    url = "https://deploy-7:s%40cret@example.com/skills.git"

    filled = fill_credentials(
        Remote.parse(url, "main"), "https://example.com", tmp_path
    )

    assert (filled["username"], filled["password"]) == ("deploy-7", "s@cret")


@pytest.mark.spec("9.2")
@pytest.mark.parametrize("token", ["wrong", None])
def test_a_token_that_is_wrong_or_missing_is_named_as_the_cause(
    token: str | None, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})

    with (
        serving(tmp_path, TOKEN) as server,
        pytest.raises(SyncError, match="access was refused"),
    ):
        RemoteBranch(
            Remote.parse(f"{server.url}/upstream.git", "main", token), tmp_path / "c"
        ).sync()


@pytest.mark.spec("9.2")
def test_a_redirect_is_not_followed_and_gets_no_token(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})

    with serving(tmp_path) as thief, serving(tmp_path) as server:
        server.moved_to = thief.url
        source = RemoteBranch(
            Remote(f"{server.url}/upstream.git", "main", TOKEN), tmp_path / "cache"
        )
        with pytest.raises(SyncError, match="Configure the new one"):
            source.sync()

    assert server.authorizations
    assert thief.authorizations == []


@pytest.mark.spec("9.2")
def test_the_credential_helper_answers_for_the_configured_host_only(
    tmp_path: Path,
) -> None:
    remote = Remote("https://example.com/org/skills.git", "main", TOKEN)

    right = fill_credentials(remote, "https://example.com/org/skills.git", tmp_path)
    host = fill_credentials(remote, "https://evil.example/org/skills.git", tmp_path)
    port = fill_credentials(remote, "https://example.com:8443/org/skills", tmp_path)
    plain = fill_credentials(remote, "http://example.com/org/skills.git", tmp_path)

    assert (right["username"], right["password"]) == ("x-access-token", TOKEN)
    assert not {"password"} & (host.keys() | port.keys() | plain.keys())


@pytest.mark.spec("9.2")
def test_without_a_token_the_users_own_credential_helper_applies(
    home: Path, tmp_path: Path
) -> None:
    helper = "!f(){ echo username=ada; echo password=own; }; f"
    config = f"[credential]\n\thelper = {helper!r}\n".replace("'", '"')
    write(home / ".gitconfig", config)
    url = "https://example.com/skills"

    own = fill_credentials(Remote(url, "main"), url, tmp_path)
    ours = fill_credentials(Remote(url, "main", TOKEN), url, tmp_path)

    assert own["password"] == "own"  # noqa: S105 - no secret
    assert ours["password"] == TOKEN


@pytest.mark.spec("9.2")
def test_with_a_token_nothing_of_the_users_configuration_can_send_it_elsewhere(
    home: Path, upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "A"})

    with serving(tmp_path) as thief, serving(tmp_path, TOKEN) as server:
        rewrite = f'[url "{thief.url}/"]\n\tinsteadOf = {server.url}/\n'
        write(home / ".gitconfig", rewrite)
        remote = Remote(f"{server.url}/upstream.git", "main", TOKEN)
        checkout = RemoteBranch(remote, tmp_path / "cache").sync()

    assert checkout.revision == commit
    assert thief.authorizations == []


@pytest.mark.spec("9.2")
def test_a_message_never_repeats_the_token_even_if_the_address_does(
    tmp_path: Path,
) -> None:
    remote = Remote(f"http://127.0.0.1:1/{TOKEN}/skills.git", "main", TOKEN)

    with pytest.raises(SyncError) as error:
        RemoteBranch(remote, tmp_path / "cache").sync()

    assert TOKEN not in str(error.value)


@needs_processes
@pytest.mark.spec("9.2")
@pytest.mark.parametrize("place", ["environment", "url"])
def test_the_token_is_in_no_file_argument_or_message(  # noqa: PLR0913 - fixtures
    *,
    place: str,
    upstream: Upstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    recorded_git: Callable[[], list[list[str]]],
) -> None:
    upstream.commit({"a.md": "A"})
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    caplog.set_level(0)
    arguments: list[str] = []

    with serving(tmp_path, TOKEN) as server:
        server.on_request = lambda: arguments.append(_arguments_of_all_processes())
        url = f"{server.url}/upstream.git"
        if place == "url":
            url = url.replace("//", f"//x-access-token:{TOKEN}@")
        token = TOKEN if place == "environment" else None
        RemoteBranch(Remote.parse(url, "main", token), tmp_path / "cache").sync()
        server.token = f"not-{TOKEN}"
        with pytest.raises(SyncError) as refused:
            RemoteBranch(Remote.parse(url, "main", token), tmp_path / "cache").sync()

    assert server.url in "".join(arguments)  # the transport was seen
    assert TOKEN not in "".join(arguments) + str(recorded_git())
    assert TOKEN not in str(refused.value) + caplog.text
    files = [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert any("objects" in file.parts for file in files)
    assert [file for file in files if TOKEN.encode() in file.read_bytes()] == []


def _arguments_of_all_processes() -> str:
    done = subprocess.run(
        ["ps", "-A", "-ww", "-o", "args="], check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.mark.spec("9.1")
@pytest.mark.parametrize(
    "said, advice",
    [
        ("fatal: Authentication failed for 'https://example.com/'", "GITHUB_TOKEN"),
        ("The requested URL returned error: 403", "GITHUB_TOKEN"),
        ("git@example.com: Permission denied (publickey).", "SSH"),
        ("Host key verification failed.", "SSH"),
        ("remote: Repository not found.", "its address"),
        ("fatal: repository 'https://example.com/404/' not found", "its address"),
        ("fatal: couldn't find remote ref refs/heads/x", "name of the branch"),
        ("The requested URL returned error: 301", "moved"),
        ("Could not resolve host: example.invalid", "network"),
        ("Failed to connect to 127.0.0.1 port 40123 after 0 ms", "network"),
    ],
)
def test_each_cause_comes_with_what_to_do(said: str, advice: str) -> None:
    found = find_advice(said)

    assert found is not None
    assert advice in found


@pytest.mark.parametrize(
    "said",
    [
        "fatal: couldn't find remote ref refs/tags/v9",
        "fatal: remote error: upload-pack: not our ref 1111",
        "error: Server does not allow request for unadvertised object 1111",
        "error: expected commit type, but the object dereferences to tree type",
    ],
)
def test_a_tag_or_commit_that_is_not_there_has_an_advice_of_its_own(said: str) -> None:
    found = find_advice(said, is_pinned=True)

    assert found is not None
    assert "Check `ref`" in found
    assert found != find_advice(said)


def test_a_pinned_remote_that_is_away_is_away() -> None:
    found = find_advice("Could not resolve host: example.invalid", is_pinned=True)

    assert found is not None
    assert "network" in found


def test_a_cause_on_this_machine_has_no_advice_about_the_remote() -> None:
    assert find_advice("fatal: not a git repository: 'objects.git'") is None


@needs_processes
@pytest.mark.parametrize("ended_by", ["deadline", "close"])
def test_a_server_that_never_answers_is_given_up_with_no_process_left(
    ended_by: str, tmp_path: Path, recorded_git: Callable[[], list[list[str]]]
) -> None:
    errors: list[str] = []
    timeout_seconds = 1 if ended_by == "deadline" else 60

    def fetch_and_remember() -> None:
        try:
            fetch(repository, tmp_path, timeout_seconds)
        except SyncError as error:
            errors.append(str(error))

    with a_silent_server() as url:
        repository = GitRepository(tmp_path / "objects.git", Remote(url, "main"))
        thread = threading.Thread(target=fetch_and_remember)
        thread.start()
        wait_for((tmp_path / "record.txt").exists)
        wait_for(lambda: any("fetch" in line for line in recorded_git()))
        if ended_by == "close":
            repository.close()
        thread.join(timeout=10)  # Git itself gives up after 15 seconds
        in_time = not thread.is_alive()
        repository.close()
        thread.join()

    assert in_time
    assert len(errors) == 1
    if ended_by == "deadline":
        assert "took longer than 1 seconds" in errors[0]
    [fetching] = [line for line in recorded_git() if "fetch" in line]
    wait_for(lambda: not group_members(int(fetching[0])))


def test_nothing_starts_after_closing(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({"a.md": "A"})
    source = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")

    source.close()

    with pytest.raises(SyncError, match="the server is ending"):
        source.sync()


@needs_processes
def test_a_helper_that_git_leaves_in_the_background_is_ended(
    home: Path,
    tmp_path: Path,
    upstream: Upstream,
    recorded_git: Callable[[], list[list[str]]],
) -> None:
    upstream.commit({"a.md": "A"})
    write(home / ".gitconfig", '[credential]\n\thelper = "!sleep 60 >&- 2>&- &"\n')

    with serving(tmp_path, TOKEN) as server:
        remote = Remote(f"{server.url}/upstream.git", "main")
        with pytest.raises(SyncError):
            fetch(GitRepository(tmp_path / "objects.git", remote), tmp_path)

    [fetching] = [line for line in recorded_git() if "fetch" in line]
    wait_for(lambda: not group_members(int(fetching[0])), seconds=10)


def test_git_that_is_not_installed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    repository = GitRepository(tmp_path / "objects.git", Remote("/nowhere", "main"))

    with pytest.raises(SyncError, match="Git is not installed, or not in PATH"):
        fetch(repository, tmp_path)


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"])
def test_what_a_hook_exported_for_another_repository_does_not_matter(
    variable: str, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = upstream.commit({"a.md": "A"})
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv(variable, str(other))

    checkout = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache").sync()

    assert checkout.revision == commit
    assert list(other.iterdir()) == []


def test_fetches_at_the_same_time_do_not_show_each_other_what_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIT_DIR", "/somebody/elses")
    seen: list[str | None] = []

    def look() -> None:
        for _ in range(500):
            with _without_inherited_variables():
                seen.append(os.environ.get("GIT_DIR"))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert seen == [None] * 2000
    assert os.environ["GIT_DIR"] == "/somebody/elses"


def test_certificates_of_the_operator_are_kept(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.commit({"a.md": "A"})
    monkeypatch.setenv("GIT_SSL_CAINFO", "/etc/ssl/company.pem")

    RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache").sync()

    assert os.environ["GIT_SSL_CAINFO"] == "/etc/ssl/company.pem"


def test_the_configuration_of_the_project_we_stand_in_is_not_obeyed(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = upstream.commit({"a.md": "A"})
    project = tmp_path / "project"
    project.mkdir()
    git("init", "-q", cwd=project)
    alarm = tmp_path / "alarm"
    hostile = {
        "core.fsmonitor": f"touch {alarm}",
        "core.sshCommand": f"touch {alarm}",
        "uploadpack.packObjectsHook": f"touch {alarm}",
        "protocol.file.allow": "never",
        f"url.{tmp_path}/elsewhere.insteadOf": upstream.url,
    }
    for key, value in hostile.items():
        git("config", key, value, cwd=project)
    monkeypatch.chdir(project)

    checkout = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache").sync()

    assert checkout.revision == commit
    assert not alarm.exists()


def test_a_transport_that_runs_commands_is_refused(tmp_path: Path) -> None:
    alarm = tmp_path / "alarm"
    remote = Remote(f"ext::touch {alarm}", "main")

    with pytest.raises(SyncError):
        RemoteBranch(remote, tmp_path / "cache").sync()

    assert not alarm.exists()


def test_an_address_that_looks_like_an_option_is_an_address(tmp_path: Path) -> None:
    alarm = tmp_path / "alarm"
    remote = Remote(f"--upload-pack=touch {alarm}", "main")

    with pytest.raises(SyncError):
        RemoteBranch(remote, tmp_path / "cache").sync()

    assert not alarm.exists()


@pytest.mark.spec("12.2")
def test_links_submodules_and_unsafe_names_are_not_written(
    upstream: Upstream, tmp_path: Path
) -> None:
    first = upstream.commit({"good.md": "G", "sub/also good.md": "A", "x.sh": "#!"})
    (upstream.work / "x.sh").chmod(0o755)
    blob = git("rev-parse", "HEAD:good.md", cwd=upstream.work)
    hostile = {
        "link.md": f"120000,{blob}",
        "module": f"160000,{first}",
        "back\\slash.md": f"100644,{blob}",
        "C:drive.md": f"100644,{blob}",
        "nul.md": f"100644,{blob}",
        "new\nline.md": f"100644,{blob}",
        "bidi\u202edm.md": f"100644,{blob}",
        "dot./a.md": f"100644,{blob}",
    }
    for name, entry in hostile.items():
        info = f"{entry},{name}"
        git("update-index", "--add", "--cacheinfo", info, cwd=upstream.work)
    git("commit", "-qm", "Hostile", cwd=upstream.work)
    git("push", "-q", "origin", "HEAD", cwd=upstream.work)

    checkout = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache").sync()

    found = sorted(p for p in checkout.directory.rglob("*") if not p.is_dir())
    names = [path.relative_to(checkout.directory).as_posix() for path in found]
    assert names == ["good.md", "sub/also good.md", "x.sh"]
    assert not any(path.is_symlink() for path in found)


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that are not text")
def test_a_name_that_is_not_utf_8_is_not_written(
    upstream: Upstream, tmp_path: Path
) -> None:
    write(upstream.work / os.fsdecode(b"\xff.md"), "1")
    write(upstream.work / os.fsdecode(b"\xfe.md"), "2")
    upstream.commit({"good.md": "G"})

    checkout = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache").sync()

    assert [path.name for path in checkout.directory.iterdir()] == ["good.md"]


@pytest.mark.spec("12.1")
@pytest.mark.parametrize("name", ["..", ".", ".git"])
def test_a_tree_that_climbs_out_is_refused_and_the_old_content_stays(
    name: str, upstream: Upstream, tmp_path: Path
) -> None:
    good = upstream.commit({"evil.md": "E"})
    source = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")
    source.sync()
    commit = commit_tree_named(name, upstream)
    git("push", "-q", "origin", f"{commit}:refs/heads/main", cwd=upstream.work)

    with pytest.raises(SyncError, match=r"Git said: .*fsck"):
        source.sync()

    published = source.published()
    assert published is not None
    assert published.revision == good


@pytest.mark.spec("12.1")
@pytest.mark.parametrize("name", ["..", "."])
def test_a_tree_that_climbs_out_is_not_written_even_if_git_has_it(
    name: str, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"evil.md": "E"})
    commit = commit_tree_named(name, upstream)
    repository = GitRepository(upstream.work / ".git", Remote(upstream.url, "main"))
    target = tmp_path / "inner" / "target"
    target.mkdir(parents=True)

    repository.write(commit, target)

    assert [path.name for path in (tmp_path / "inner").rglob("*")] == ["target"]


def commit_tree_named(name: str, upstream: Upstream) -> str:
    """Make a commit whose tree holds the folder `name`, as no honest Git would."""
    inner = git("rev-parse", "HEAD^{tree}", cwd=upstream.work)
    done = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
        input=b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner),
        cwd=upstream.work,
        check=True,
        capture_output=True,
    )
    tree = done.stdout.decode().strip()
    return git("commit-tree", "-m", "Evil", "-p", "HEAD", tree, cwd=upstream.work)


def test_attributes_filters_and_hooks_of_the_content_do_not_run(
    upstream: Upstream, home: Path, tmp_path: Path
) -> None:
    alarm = tmp_path / "alarm"
    write(home / ".gitconfig", f'[filter "evil"]\n\tsmudge = touch {alarm}\n')
    upstream.commit({".gitattributes": "* filter=evil\n*.md eol=crlf\n", "a.md": "A\n"})

    checkout = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache").sync()

    assert (checkout.directory / "a.md").read_bytes() == b"A\n"
    assert not alarm.exists()


def test_any_bytes_arrive_as_they_are(upstream: Upstream, tmp_path: Path) -> None:
    files = {"empty.md": b"", "all.bin": bytes(range(256)) * 300, "crlf.md": b"a\r\nb"}
    for name, data in files.items():
        write(upstream.work / name, data)
    upstream.commit({})

    checkout = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache").sync()

    found = {path.name: path.read_bytes() for path in checkout.directory.iterdir()}
    assert found == files


def test_an_object_that_is_missing_is_an_error_and_not_an_empty_file(
    upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "A"})
    blob = git("rev-parse", "HEAD:a.md", cwd=upstream.work)
    (upstream.work / ".git/objects" / blob[:2] / blob[2:]).unlink()
    repository = GitRepository(upstream.work / ".git", Remote(upstream.url, "main"))

    with pytest.raises(DamagedStoreError, match="missing"):
        repository.write(commit, tmp_path)
