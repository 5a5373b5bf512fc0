"""Who gets to know which secret, and what counts of the user's configuration."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from skills_mcp.content.git.command import (
    Git,
    RemoteAccess,
    build_environment,
    filter_settings,
    open_access,
    parse_user_settings,
    read_token,
    render_settings,
)
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import SyncPolicy
from skills_mcp.errors import AccessRefusedError
from skills_mcp.text.redaction import redact
from tests.content.git.git_store import GitStore
from tests.content.git_server import serving
from tests.support import Upstream, git, run_python, write

TOKEN = f"canary-{uuid.UUID(int=0x5B1F0D6C).hex}"  # the bird that must not be heard
URL = "https://example.com/org/skills.git"


def with_file(file: Path, url: str = URL) -> Remote:
    return Remote.parse(url, "main", "the-other-token", token_file=file)


def fill_credentials(remote: Remote, url: str, folder: Path) -> dict[str, str]:
    """Ask Git for the credentials that it would send, with our variables."""
    access = Git(folder / "objects.git", remote, SyncPolicy()).open_access()
    done = subprocess.run(
        ["git", "credential", "fill"],
        input=f"url={url}\n\n",
        env=build_environment(os.environ, folder, remote, access),
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
    )
    pairs = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in pairs}


@pytest.mark.spec("9.2")
@pytest.mark.parametrize(
    "content",
    [TOKEN, f"{TOKEN}\n", f"  {TOKEN}  \r\n", f"{TOKEN}\na comment\n", f"\n{TOKEN}\n"],
)
def test_the_token_is_the_first_line_of_its_file(content: str, tmp_path: Path) -> None:
    file = write(tmp_path / "token", content)

    assert read_token(with_file(file)) == TOKEN


@pytest.mark.spec("9.2")
@pytest.mark.parametrize(
    "content, said",
    [
        (None, "cannot be read: No such file"),
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"to\0ken", "no token has"),
        (b"to\x1bken", "no token has"),
        (b"to\rken", "no token has"),
        (b"\xff\xfe\x00", "holds no text"),
    ],
)
def test_a_file_without_a_token_is_said_and_nothing_else_is_tried(
    content: bytes | None, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(AccessRefusedError, match=said) as refused:
        read_token(with_file(file))

    assert str(file) in str(refused.value)


def test_a_folder_in_the_place_of_the_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(AccessRefusedError, match="is no file"):
        read_token(with_file(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_that_nobody_fills_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")

    with pytest.raises(AccessRefusedError, match="is no file"):
        read_token(with_file(tmp_path / "token"))


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    write(tmp_path / "token", TOKEN).chmod(0)

    with pytest.raises(AccessRefusedError, match="Permission denied"):
        read_token(with_file(tmp_path / "token"))


@pytest.mark.parametrize("url", ["http://example.com/x", "git@h:x", "/srv/skills"])
def test_where_no_token_may_go_the_file_is_not_even_read(url: str, tmp_path: Path) -> None:
    assert read_token(with_file(tmp_path / "missing", url)) is None


def test_what_was_read_is_redacted_from_then_on(tmp_path: Path) -> None:
    secret = f"canary-{uuid.UUID(int=0x0A9B8C7D).hex}"

    read_token(with_file(write(tmp_path / "token", secret)))

    assert redact(f"it is {secret}") == "it is ***"


@pytest.mark.parametrize("token", ["two\nlines", "a\0b"])
def test_a_token_of_the_environment_that_is_none_is_refused(token: str) -> None:
    with pytest.raises(AccessRefusedError, match="GITHUB_TOKEN or the address"):
        read_token(Remote(URL, "main", token))


@pytest.mark.spec("9.2")
def test_a_new_token_in_the_file_is_used_at_the_next_fetch(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})
    file = write(tmp_path / "token", f"old-{TOKEN}")

    with serving(tmp_path, f"old-{TOKEN}") as server:
        store = GitStore.create(tmp_path / "store", with_file(file, f"{server.url}/upstream.git"))
        store.fetch()
        server.token = f"new-{TOKEN}"
        refused = store.fail()
        second = upstream.commit({"a.md": "B"})
        file.write_text(f"new-{TOKEN}\n")
        fetched = store.fetch()

    assert isinstance(refused, AccessRefusedError)
    assert "SKILLS_MCP_TOKEN_FILE" in str(refused)
    assert fetched.commit == second


@pytest.mark.spec("9.2")
def test_the_credential_helper_answers_for_the_configured_host_only(
    tmp_path: Path,
) -> None:
    remote = Remote(URL, "main", TOKEN)

    right = fill_credentials(remote, URL, tmp_path)
    host = fill_credentials(remote, "https://evil.example/org/skills.git", tmp_path)
    port = fill_credentials(remote, "https://example.com:8443/org/skills", tmp_path)
    plain = fill_credentials(remote, "http://example.com/org/skills.git", tmp_path)

    assert (right["username"], right["password"]) == ("x-access-token", TOKEN)
    assert not {"password"} & (host.keys() | port.keys() | plain.keys())


@pytest.mark.spec("9.2")
@pytest.mark.parametrize(
    "pair, user, password",
    [
        ("deploy-7:s%40cret", "deploy-7", "s@cret"),
        ("ada:a%5Ctb%25n%22%24HOME%60id%60", "ada", 'a\\tb%n"$HOME`id`'),
    ],
)
def test_a_user_and_password_inside_the_url_are_sent_as_they_are(
    pair: str, user: str, password: str, tmp_path: Path
) -> None:
    remote = Remote.parse(f"https://{pair}@example.com/skills.git", "main")

    filled = fill_credentials(remote, "https://example.com", tmp_path)

    assert (filled["username"], filled["password"]) == (user, password)


@pytest.mark.spec("9.2")
def test_without_a_token_the_users_own_credential_helper_applies(
    home: Path, tmp_path: Path
) -> None:
    helper = "!f(){ echo username=ada; echo password=own; }; f"
    write(home / ".gitconfig", f'[credential]\n\thelper = "{helper}"\n')

    own = fill_credentials(Remote(URL, "main"), URL, tmp_path)
    ours = fill_credentials(Remote(URL, "main", TOKEN), URL, tmp_path)

    assert own["password"] == "own"  # noqa: S105 - no secret
    assert ours["password"] == TOKEN


def test_a_lone_name_in_the_address_is_the_user_that_a_helper_is_asked_for(
    home: Path, upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "A"})
    asked = tmp_path / "asked"
    helper = f"!f(){{ cat >> {asked}; echo password={TOKEN}; }}; f"
    write(home / ".gitconfig", f'[credential]\n\thelper = "{helper}"\n')

    with serving(tmp_path, TOKEN) as server:
        server.user = "acme"
        address = server.url.replace("//", "//acme@") + "/upstream.git"
        helped = GitStore.create(tmp_path / "helped", Remote.parse(address, "main")).fetch()
        with_token = Remote.parse(address, "main", TOKEN)
        given = GitStore.create(tmp_path / "given", with_token).fetch()

    assert helped.commit == given.commit == commit
    assert "username=acme\n" in asked.read_text()


def test_with_a_token_no_helper_gets_to_see_it(upstream: Upstream, tmp_path: Path) -> None:
    commit = upstream.commit({"a.md": "A"})

    with serving(tmp_path, TOKEN) as server:
        remote = Remote(f"{server.url}/upstream.git", "main", TOKEN)
        store = GitStore.create(tmp_path / "store", remote)
        store.fetch()
        with (store.objects / "config").open("a") as config:
            config.write(f'[credential]\n\thelper = "!touch {tmp_path}/alarm; :"\n')
        fetched = store.fetch()

    assert fetched.commit == commit
    assert not (tmp_path / "alarm").exists()


def test_helpers_are_asked_in_the_order_in_which_the_user_has_them(
    home: Path, tmp_path: Path
) -> None:
    first = "!f(){ echo username=a; echo password=x; }; f"
    last = first.replace("=a", "=b")
    config = f'[credential]\nhelper = "{first}"\nhelper =\nhelper = "{last}"\n'
    write(home / ".gitconfig", "[include]\n\tpath = more.config\n")
    write(home / "more.config", config)

    assert fill_credentials(Remote(URL, "main"), URL, tmp_path)["username"] == "b"


ALL_SETTINGS = (
    ("credential.helper", ""),
    ("credential.helper", "store"),
    ("credential.https://example.com.username", "ada"),
    ("http.proxy", "http://proxy:3128"),
    ("http.https://example.com/.proxyauthmethod", "basic"),
    ("http.sslcainfo", "/etc/ca.pem"),
    ("http.sslcapath", "/etc/ca"),
    ("http.https://Example.com/a.b.sslcert", "c.pem"),
    ("http.sslkey", "k.pem"),
    ("http.sslbackend", "schannel"),
    ("http.schannelcheckrevoke", "false"),
    ("http.proxysslcainfo", "p.pem"),
    ("http.version", "HTTP/1.1"),
    ("http.emptyauth", "true"),
    ("http.delegation", "none"),
    ("http.extraheader", "Authorization: Basic eA=="),
    ("http.https://example.com/.extraheader", "X: y"),
    ("safe.directory", "/srv/a"),
)
NEVER = (
    *("url.https://evil.example/.insteadof", "core.hookspath", "core.fsmonitor"),
    *("core.sshcommand", "core.askpass", "core.gitproxy", "init.templatedir"),
    *("filter.lfs.smudge", "filter.lfs.process", "http.sslverify", "http.cookiefile"),
    *("http.followredirects", "http.https://example.com/.followredirects"),
    *("http.lowspeedlimit", "http.savecookies", "http.proxyauth", "alias.fetch"),
    *("protocol.ext.allow", "protocol.allow", "fetch.fsckobjects", "uploadpack.hook"),
    *("uploadpack.packobjectshook", "remote.origin.uploadpack", "gpg.program"),
    *("safe.barerepository", "include.path", "extensions.worktreeconfig", "http"),
    *("credentials.helper", "https.proxy", "sslcainfo", "transfer.bundleuri"),
)


def test_without_a_token_what_proves_who_asks_counts_in_its_order() -> None:
    everything = (*ALL_SETTINGS, *((key, "x") for key in NEVER))

    assert filter_settings(everything, has_token=False) == ALL_SETTINGS


def test_with_a_token_nobody_else_proves_who_asks() -> None:
    chosen = filter_settings(ALL_SETTINGS, has_token=True)

    keys = [key for key, _ in chosen]
    assert len(keys) == 13
    assert not [key for key in keys if key.startswith("credential")]
    assert not [key for key in keys if key.endswith("extraheader")]


def test_a_project_is_not_the_user() -> None:
    raw = (
        b"system\0http.proxy\na\0unknown\0credential.helper\nosxkeychain\0"
        b"local\0http.proxy\nb\0worktree\0http.proxy\nc\0command\0http.proxy\nd\0"
        b"global\0http.emptyauth\0global\0http.x.proxy\ntwo\nlines\0"
    )

    assert parse_user_settings(raw) == (
        ("http.proxy", "a"),
        ("credential.helper", "osxkeychain"),
        ("http.emptyauth", "true"),
        ("http.x.proxy", "two\nlines"),
    )


def test_settings_become_variables_that_git_counts() -> None:
    assert dict(render_settings([("a.b", "1"), ("a.b", "")])) == {
        "GIT_CONFIG_KEY_0": "a.b",
        "GIT_CONFIG_VALUE_0": "1",
        "GIT_CONFIG_KEY_1": "a.b",
        "GIT_CONFIG_VALUE_1": "",
        "GIT_CONFIG_COUNT": "2",
    }


def test_the_shown_form_of_an_access_has_no_token() -> None:
    access = open_access(Remote(URL, "main", TOKEN), ())

    assert TOKEN in access.variables.values()
    assert TOKEN not in repr(access)
    assert TOKEN not in str(access.settings)


def test_only_a_helper_of_the_user_may_need_more_memory_than_git() -> None:
    helped = open_access(Remote(URL, "main"), [("credential.helper", "manager")])
    ours = open_access(Remote(URL, "main", TOKEN), [("credential.helper", "manager")])

    assert helped.starts_helpers
    assert not ours.starts_helpers
    assert not RemoteAccess().is_open


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no owner there")
@pytest.mark.skipif(sys.platform != "win32" and os.geteuid() != 0, reason="only root may give away")
def test_a_folder_of_somebody_else_is_read_if_the_user_trusts_it(
    upstream: Upstream, home: Path, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "A"})
    os.chown(upstream.bare, 12345, 12345)
    if (
        subprocess.run(
            ["git", "ls-remote", upstream.url], capture_output=True, check=False
        ).returncode
        == 0
    ):
        pytest.skip("this version of Git reads the repositories of others")
    store = GitStore.create(tmp_path / "store", upstream.url)

    refused = store.fail()
    write(home / ".gitconfig", f"[safe]\n\tdirectory = {upstream.bare}\n")
    fetched = store.fetch()

    assert "safe.directory" in str(refused)
    assert fetched.commit == commit


def test_a_proxy_of_the_user_is_used_with_a_token(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")

    with serving(tmp_path) as proxy:
        write(home / ".gitconfig", f"[http]\n\tproxy = {proxy.url}\n")
        remote = Remote("https://localhost:1/upstream.git", "main", TOKEN)
        failed = GitStore.create(tmp_path / "store", remote).fail()

    assert "501" in str(failed)  # it makes no way through to anybody


@pytest.mark.parametrize("key", ["http.proxy", "http.http://localhost:1/.proxy"])
def test_a_token_for_this_machine_goes_through_no_proxy(
    key: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")

    with serving(tmp_path) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("all_proxy", proxy.url)
        git("config", "--file", str(home / ".gitconfig"), key, proxy.url, cwd=tmp_path)
        remote = Remote("http://localhost:1/upstream.git", "main", TOKEN)
        failed = GitStore.create(tmp_path / "store", remote).fail()
        asked = tuple(proxy.authorizations)

    assert asked == ()
    assert "cannot be reached" in str(failed)


def test_the_shown_form_of_an_access_has_no_header_of_the_users() -> None:
    access = open_access(Remote(URL, "main"), [("http.extraheader", f"X: {TOKEN}")])

    assert TOKEN in str(access.settings)
    assert TOKEN not in repr(access)


@pytest.mark.skipif(sys.platform == "win32", reason="GitPython starts Git there")
@pytest.mark.usefixtures("started_anew")
def test_git_is_started_without_the_modules_of_gitpython() -> None:
    code = """
import sys
from skills_mcp.content.git.command import load_popen

load_popen()
print("git" in sys.modules)
"""

    assert run_python(code) == "False"
