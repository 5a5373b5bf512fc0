"""What Git gets to see of this machine, how long it may take, and how it ends."""

import os
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from skills_mcp.content.exported_files import WorkTree
from skills_mcp.content.git import command
from skills_mcp.content.git.command import Git
from skills_mcp.content.git.diagnostics import DamagedStoreError
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import SyncPolicy
from skills_mcp.errors import LimitExceededError, SyncError
from tests.content.git.git_store import GitStore
from tests.content.git_server import (
    Fault,
    drip,
    hang,
    hang_after_headers,
    serving,
    stall,
)
from tests.support import (
    PATIENCE_SECONDS,
    Upstream,
    git,
    group_members,
    wait_for,
    write,
)

TOKEN = f"canary-{uuid.uuid4().hex}"  # the bird that must not be heard
COMMANDS = ["cat-file", "config", "for-each-ref", "ls-remote", "rev-parse"]
needs_processes = pytest.mark.skipif(sys.platform == "win32", reason="looks at process groups")

Record = Callable[[], list[list[str]]]


@pytest.fixture
def recorded_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Put a `git` first in PATH that writes down its process and its arguments."""
    record = tmp_path / "record.txt"
    put_git_first(
        tmp_path / "bin",
        f'echo "$$ $*" >> {record}\nexec {shutil.which("git")} "$@"',
        monkeypatch,
    )
    return lambda: [line.split() for line in record.read_text().splitlines()]


def put_git_first(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "git", f"#!/bin/sh\n{script}\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def open_git(folder: Path, **policy: float) -> Git:
    """Return Git with a store in which there is nothing."""
    git("init", "-q", "--bare", "objects.git", cwd=folder)
    settings = SyncPolicy(**policy)  # type: ignore[arg-type]
    return Git(folder / "objects.git", Remote("/nowhere", "main"), settings)


def shell(command: str) -> tuple[str, ...]:
    """Return arguments with which Git runs a command of the shell."""
    return ("-c", f"alias.it=!{command}", "it")


def variables_of(child: Git) -> dict[str, str]:
    printed = child.run(*shell("env")).text
    return dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)


def test_what_a_command_has_printed_and_how_it_ended_is_returned(
    tmp_path: Path,
) -> None:
    output = open_git(tmp_path).run(
        *shell("cat; echo oh >&2; exit 3; :"), stdin=b"in\n", is_ok=(0, 3)
    )

    assert (output.stdout, output.text) == (b"in\n", "in")
    assert (output.stderr, output.returncode) == ("oh\n", 3)


HOSTILE_VARIABLES = {
    "GIT_DIR": "/somebody/elses",
    "GIT_WORK_TREE": "/somebody/elses",
    "GIT_INDEX_FILE": "/somebody/elses",
    "GIT_OBJECT_DIRECTORY": "/somebody/elses",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/somebody/elses",
    "GIT_SSH_COMMAND": "touch alarm",
    "GIT_PROXY_COMMAND": "touch alarm",
    "GIT_EXTERNAL_DIFF": "touch alarm",
    "GIT_CONFIG_PARAMETERS": "'core.fsmonitor'='touch alarm'",
    "GIT_TRACE": "1",
    "GIT_ALLOW_PROTOCOL": "ext",
    "GIT_ASKPASS": "touch alarm",
    "GIT_EXEC_PATH": "/somebody/elses",
    "GIT_TEMPLATE_DIR": "/somebody/elses",
    "GIT_NAMESPACE": "elsewhere",
    "GIT_SSL_NO_VERIFY": "1",
}


@pytest.mark.parametrize("variable", HOSTILE_VARIABLES)
def test_what_a_hook_exported_for_another_repository_does_not_matter(
    variable: str, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = upstream.commit({"a.md": "A"})
    value = HOSTILE_VARIABLES[variable].replace("alarm", str(tmp_path / "alarm"))
    monkeypatch.setenv(variable, value)

    store = GitStore.create(tmp_path / "store", upstream.url)

    assert store.fetch().commit == commit
    assert store.files(commit) == {"a.md": b"A"}
    assert not (tmp_path / "alarm").exists()
    assert os.environ[variable] == value


def test_no_child_gets_the_operators_secrets_or_a_way_to_ask_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("SKILLS_MCP_TOKEN_FILE", "/run/token")
    monkeypatch.setenv("SKILLS_MCP_GIT_TOKEN", TOKEN)
    monkeypatch.setenv("GIT_SSL_CAINFO", "/etc/ssl/company.pem")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("SSH_ASKPASS", "/usr/bin/window")

    variables = variables_of(open_git(tmp_path))

    assert TOKEN not in str(variables)
    assert "SKILLS_MCP_TOKEN_FILE" not in variables
    assert variables["GIT_SSL_CAINFO"] == "/etc/ssl/company.pem"
    assert variables["HTTPS_PROXY"] == "http://proxy:3128"
    assert variables["GIT_ASKPASS"] == ""
    assert variables["GIT_TERMINAL_PROMPT"] == "0"
    assert "BatchMode=yes" in variables["GIT_SSH_COMMAND"]


@pytest.mark.parametrize("name", ["core.hookspath", "http.followredirects", "gc.auto"])
def test_what_the_store_itself_says_is_overruled(name: str, tmp_path: Path) -> None:
    child = open_git(tmp_path)
    before = child.run("config", "--get", name).text
    git("config", "-f", str(child.directory / "config"), name, "1", cwd=tmp_path)

    assert child.run("config", "--get", name).text == before


def test_a_hook_in_the_store_does_not_run(upstream: Upstream, tmp_path: Path) -> None:
    commit = upstream.commit({"a.md": "A"})
    store = GitStore.create(tmp_path / "store", upstream.url)
    store.fetch()
    prepare_hooks(store.objects, tmp_path / "alarm")
    upstream.commit({"a.md": "B"})

    store.fetch()
    store.keep(commit)

    assert not (tmp_path / "alarm").exists()


@pytest.mark.parametrize("address", ["ext::touch {}", "git://x.invalid/a", "http://x/a"])
def test_git_itself_refuses_every_kind_of_address_but_that_of_the_remote(
    address: str, tmp_path: Path
) -> None:
    alarm = tmp_path / "alarm"

    output = open_git(tmp_path).run(
        "ls-remote", "--end-of-options", address.format(alarm), is_ok=(0, 128)
    )

    assert "not allowed" in output.stderr
    assert not alarm.exists()


def test_every_setting_is_one_that_git_understands(tmp_path: Path) -> None:
    upstream = Upstream.create(tmp_path)
    commit = upstream.commit({"a.md": "A"})
    child = Git(upstream.bare, Remote("/nowhere", "main"), SyncPolicy())

    output = child.run("fsck", "--full", commit)

    assert output.stderr == ""


def hostile_settings(alarm: Path, url: str) -> dict[str, str]:
    return {
        "core.fsmonitor": f"touch {alarm}",
        "core.sshCommand": f"touch {alarm}",
        "core.askPass": f"touch {alarm}",
        "core.hooksPath": str(alarm.parent / "hooks"),
        "init.templateDir": str(alarm.parent / "template"),
        "filter.lfs.smudge": f"touch {alarm}",
        "filter.lfs.required": "true",
        "uploadpack.packObjectsHook": f"touch {alarm}",
        "protocol.file.allow": "never",
        "protocol.ext.allow": "always",
        "transfer.fsckObjects": "false",
        f"url.ext::touch {alarm} .insteadOf": url,
    }


def prepare_hooks(folder: Path, alarm: Path) -> None:
    hooks = "post-checkout reference-transaction post-merge post-update pre-auto-gc"
    for place in (folder / "hooks", folder / "template" / "hooks"):
        for name in hooks.split():
            write(place / name, f"#!/bin/sh\ntouch {alarm}\n").chmod(0o755)


@pytest.mark.parametrize("scheme", ["file", "http"])
@pytest.mark.parametrize("whose", ["project", "user"])
def test_nothing_of_a_project_or_of_the_user_runs(  # noqa: PLR0913 - fixtures
    *,
    whose: str,
    scheme: str,
    home: Path,
    upstream: Upstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = upstream.commit({".gitattributes": "* filter=lfs eol=crlf", "a.md": "A\n"})
    alarm = tmp_path / "alarm"
    prepare_hooks(tmp_path, alarm)
    project = tmp_path / "project"
    git("init", "-q", str(project), cwd=tmp_path)
    file = project / ".git/config" if whose == "project" else home / ".gitconfig"
    for key, value in hostile_settings(alarm, f"{scheme}://").items():
        git("config", "-f", str(file), "--add", key, value, cwd=tmp_path)
    if whose == "project":
        helper = f"!touch {alarm}"
        git("config", "-f", str(file), "credential.helper", helper, cwd=tmp_path)
    monkeypatch.chdir(project)

    with serving(tmp_path, TOKEN) as server:
        is_http = scheme == "http"
        url = f"{server.url}/upstream.git" if is_http else upstream.url
        remote = Remote(url, "main", TOKEN if is_http else None)
        store = GitStore.create(tmp_path / "store", remote)
        fetched = store.fetch()
        store.keep(commit)

    assert fetched.commit == commit
    assert store.files(commit)["a.md"] == b"A\n"
    assert not alarm.exists()


@needs_processes
def test_no_program_of_a_project_checks_the_signatures_in_its_log(
    upstream: Upstream, tmp_path: Path
) -> None:
    alarm = tmp_path / "alarm"
    signature = "-----BEGIN PGP SIGNATURE-----\\n\\nAA==\\n-----END PGP SIGNATURE-----\\n"
    answer = f"printf '\\n[GNUPG:] SIG_CREATED D\\n' >&2\nprintf -- '{signature}'"
    signer = write(tmp_path / "signer", f"#!/bin/sh\ncat > {alarm}\n{answer}\n")
    signer.chmod(0o755)
    git("config", "gpg.program", str(signer), cwd=upstream.work)
    git("config", "log.showSignature", "true", cwd=upstream.work)
    git("commit", "-q", "--allow-empty", "-S", "-m", "Signed", cwd=upstream.work)
    alarm.unlink()
    work_tree = WorkTree.find(upstream.work)
    assert work_tree

    log = work_tree.read_log(10)

    assert [commit.subject for commit in log.commits] == ["Signed"]
    assert not alarm.exists()


def test_a_commit_without_a_date_is_in_the_log_of_a_project(upstream: Upstream) -> None:
    before = upstream.commit({"a.md": "A"})
    text = git("cat-file", "commit", before, cwd=upstream.work)
    person = next(line for line in text.splitlines() if line.startswith("committer "))
    undated = write(upstream.work / "commit", text.replace(person, "committer Ada <a@b.example>"))
    words = ("hash-object", "-t", "commit", "-w", "--literally", str(undated))
    git("reset", "-q", "--hard", git(*words, cwd=upstream.work), cwd=upstream.work)
    work_tree = WorkTree.find(upstream.work)
    assert work_tree

    log = work_tree.read_log(10)

    assert [commit.at.year for commit in log.commits] == [1970]


def test_a_helper_of_the_project_is_not_asked_for_a_password(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.commit({"a.md": "A"})
    project = tmp_path / "project"
    git("init", "-q", str(project), cwd=tmp_path)
    alarm = tmp_path / "alarm"
    git("config", "credential.helper", f"!touch {alarm}; :", cwd=project)
    monkeypatch.chdir(project)

    with serving(tmp_path, TOKEN) as server:
        error = GitStore.create(tmp_path / "s", f"{server.url}/upstream.git").fail()

    assert "401: this repository needs a token" in str(error)
    assert not alarm.exists()


@pytest.mark.spec("9.2")
def test_with_a_token_nothing_of_the_users_configuration_can_send_it_elsewhere(
    home: Path, upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "A"})

    with serving(tmp_path) as thief, serving(tmp_path, TOKEN) as server:
        rewrite = f'[url "{thief.url}/"]\n\tinsteadOf = {server.url}/\n'
        write(home / ".gitconfig", rewrite + "[http]\n\tfollowRedirects = true\n")
        remote = Remote(f"{server.url}/upstream.git", "main", TOKEN)
        fetched = GitStore.create(tmp_path / "store", remote).fetch()

    assert fetched.commit == commit
    assert thief.authorizations == []


def test_a_configuration_that_git_cannot_read_is_no_damage_of_the_store(
    home: Path, upstream: Upstream, tmp_path: Path
) -> None:
    write(home / ".gitconfig", "[broken\n")

    error = GitStore.create(tmp_path / "store", upstream.url).fail()

    assert not isinstance(error, DamagedStoreError)
    assert "your Git configuration cannot be read" in str(error)
    assert ".gitconfig" in str(error)


@needs_processes
@pytest.mark.parametrize("fault", [hang, hang_after_headers, stall(0.5)])
def test_a_host_that_stops_is_given_up_with_no_process_left(
    fault: Fault, upstream: Upstream, tmp_path: Path, recorded_git: Record
) -> None:
    upstream.commit({"a.md": "A" * 1000})

    with serving(tmp_path) as server:
        server.fault = fault
        store = GitStore.create(tmp_path / "store", f"{server.url}/upstream.git")
        error = store.fail(timeout_seconds=0.5)

    assert not isinstance(error, DamagedStoreError)
    assert "took longer than" in str(error)
    assert "raise sync.timeout_seconds" in str(error)
    asking = [line for line in recorded_git() if {"ls-remote", "fetch"} & set(line)]
    wait_for(lambda: not any(group_members(int(line[0])) for line in asking))
    assert asking


@pytest.mark.parametrize("moves", [True, False])
def test_a_transfer_that_moves_is_not_cut_off_but_one_that_has_stopped(
    moves: bool,  # noqa: FBT001
    upstream: Upstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = [each for each in command.SETTINGS if not each.startswith("http.lowSpeedTime")]
    quickly = (*settings, "http.lowSpeedTime=1")
    monkeypatch.setattr(command, "SETTINGS", quickly)
    commit = upstream.commit({"a.md": "A"})

    with serving(tmp_path) as server:
        # 200 bytes a second, for longer than may pass without any.
        server.fault = drip(20, 0.1) if moves else stall(0.5)
        store = GitStore.create(tmp_path / "store", f"{server.url}/upstream.git")
        if moves:
            assert store.fetch().commit == commit
        else:
            assert "the host sent nothing" in str(store.fail())


@needs_processes
def test_closing_ends_what_is_running_and_says_so(
    upstream: Upstream, tmp_path: Path, recorded_git: Record
) -> None:
    upstream.commit({"a.md": "A"})
    errors: list[SyncError] = []

    with serving(tmp_path) as server:
        server.fault = hang
        store = GitStore.create(tmp_path / "store", f"{server.url}/upstream.git")
        thread = threading.Thread(target=lambda: errors.append(store.fail()))
        thread.start()
        wait_for(lambda: server.kinds)
        store.repository.git.close()
        thread.join(timeout=PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert "the process is ending" in str(errors[0])
    assert not isinstance(errors[0], DamagedStoreError)
    asking = [line for line in recorded_git() if {"ls-remote", "fetch"} & set(line)]
    wait_for(lambda: not any(group_members(int(line[0])) for line in asking))
    assert asking


def test_nothing_starts_after_closing(tmp_path: Path) -> None:
    child = open_git(tmp_path)

    child.close()

    with pytest.raises(SyncError, match="the process is ending"):
        child.run("version")


@needs_processes
@pytest.mark.parametrize("closes", [">&-", ">&- 2>&-"])
def test_a_helper_that_git_leaves_in_the_background_is_ended(
    closes: str, home: Path, tmp_path: Path, upstream: Upstream, recorded_git: Record
) -> None:
    upstream.commit({"a.md": "A"})
    helper = f"!sleep 60 {closes} &"
    write(home / ".gitconfig", f'[credential]\n\thelper = "{helper}"\n')

    with serving(tmp_path, TOKEN) as server:
        GitStore.create(tmp_path / "s", f"{server.url}/upstream.git").fail()

    asking = [line for line in recorded_git() if {"ls-remote", "fetch"} & set(line)]
    wait_for(lambda: not any(group_members(int(line[0])) for line in asking))
    assert asking


def test_a_deadline_holds_for_every_command(tmp_path: Path) -> None:
    child = open_git(tmp_path)

    with pytest.raises(SyncError, match=r"git -c took longer than 0 seconds"):
        child.run(*shell("sleep 60"), timeout_seconds=0.2)


def test_a_deadline_holds_while_output_is_read_piece_by_piece(tmp_path: Path) -> None:
    child = open_git(tmp_path, timeout_seconds=0.2)

    with (
        pytest.raises(SyncError, match="took longer than"),
        child.stream(*shell("echo a; sleep 60")) as output,
    ):
        output.read()


def test_what_looks_damaged_because_time_was_up_is_not_called_damaged(
    tmp_path: Path,
) -> None:
    child = open_git(tmp_path, timeout_seconds=0.2)

    def read_half() -> None:
        with child.stream(*shell("sleep 60")) as output:
            output.read()
            raise DamagedStoreError("half of it is missing")

    with pytest.raises(SyncError, match="took longer than"):
        read_half()


@needs_processes
def test_output_that_nobody_reads_any_more_ends_its_command(tmp_path: Path) -> None:
    child = open_git(tmp_path)

    with child.stream(*shell("yes")) as output:
        first = output.read(2)

    assert first == b"y\n"
    assert child._running == set()


@needs_processes
def test_output_without_end_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(SyncError, match="printed too much"):
        open_git(tmp_path).run(*shell("yes"), timeout_seconds=60)


@needs_processes
def test_words_without_end_do_not_block_a_command(tmp_path: Path) -> None:
    noise = "head -c 3000000 /dev/zero | tr '\\0' x >&2"

    output = open_git(tmp_path).run(*shell(f"{noise}; echo done"))

    assert output.text == "done"
    assert len(output.stderr) < 100_000


@needs_processes
def test_what_was_killed_by_somebody_is_no_damage(tmp_path: Path) -> None:
    script = write(tmp_path / "kill", "#!/bin/sh\nkill -9 $PPID\n")
    script.chmod(0o755)

    with pytest.raises(SyncError, match="was killed by signal") as error:
        open_git(tmp_path).run(*shell(str(script)))

    assert not isinstance(error.value, DamagedStoreError)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits other processes")
def test_git_may_not_have_all_of_the_memory(tmp_path: Path) -> None:
    child = open_git(tmp_path)

    # Until the limit is there; it is set after the start.
    limit = str(4 * 2**20)
    wait_for(lambda: child.run(*shell("sleep 0.05; ulimit -v")).text == limit)


def test_a_pack_that_takes_all_memory_is_a_limit_and_no_damage(tmp_path: Path) -> None:
    said = "fatal: Out of memory, malloc failed (tried to allocate 99 bytes)"

    with pytest.raises(LimitExceededError, match="more memory than its limit"):
        open_git(tmp_path).run(*shell(f"echo '{said}' >&2; exit 1; :"))


def test_git_that_is_not_installed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    error = GitStore.create(tmp_path / "store", "/nowhere").fail()

    assert "Git is not installed, or not in PATH" in str(error)


def test_git_that_may_not_be_started_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "bin" / "git", "\x00 no program").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    error = GitStore.create(tmp_path / "store", "/nowhere").fail()

    assert "Git cannot be started" in str(error)


@needs_processes
@pytest.mark.parametrize("version", ["2.30.9", "1.8.3.1"])
def test_git_that_is_too_old_is_said_with_what_is_needed(
    version: str, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("git")
    script = f'case "$*" in *version) echo "git version {version}";; *) exec {real} "$@";; esac'
    put_git_first(tmp_path / "bin", script, monkeypatch)

    error = GitStore.create(tmp_path / "store", upstream.url).fail()

    assert f"git version {version} is too old. Install Git 2.31" in str(error)


@needs_processes
def test_a_fetch_without_news_asks_git_for_nothing_twice(
    upstream: Upstream, tmp_path: Path, recorded_git: Record
) -> None:
    store = GitStore.create(tmp_path / "store", upstream.url)
    commit = upstream.commit({"a.md": "A"})
    store.fetch()
    store.keep(commit)
    before = len(recorded_git())

    store.fetch()
    store.keep(commit)

    asked = [line for line in recorded_git()[before:] if "upload-pack" not in " ".join(line)]
    names = [next(word for word in line if word in COMMANDS) for line in asked]
    assert sorted(names) == COMMANDS


@needs_processes
def test_the_git_of_a_killed_server_ends_with_it_and_the_lock_is_free(
    upstream: Upstream, tmp_path: Path
) -> None:
    import fcntl

    upstream.commit({"a.md": "A"})
    code = """
import fcntl, sys
from pathlib import Path
from skills_mcp.content.source import SyncPolicy
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import GitRepository
lock = open(sys.argv[2], "wb")
fcntl.flock(lock, fcntl.LOCK_EX)
repository = GitRepository(Path(sys.argv[1]), Remote(sys.argv[3], "main"), SyncPolicy())
repository.fetch(lock, timeout_seconds=60)
"""
    path = tmp_path / "lock"

    with serving(tmp_path) as server, path.open("wb") as lock:
        server.fault = hang  # for as long as the test lasts
        url = f"{server.url}/upstream.git"
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "objects.git"), str(path), url]
        )
        with process:
            wait_for(lambda: server.kinds)
            process.kill()
            process.wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        server.ended.set()
