"""What Git and hosts say, and what a person is told to do about it."""

from datetime import UTC, datetime

import pytest

from skills_mcp.content.git.advice import Advice, find_advice
from skills_mcp.content.git.causes import RefMissingError
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.transcript import Response
from skills_mcp.errors import (
    AccessRefusedError,
    LimitExceededError,
    RemoteMissingError,
    SyncError,
)

NOW = datetime(2026, 11, 22, tzinfo=UTC)
URL = "https://example.com/skills"
WITHOUT_TOKEN = Remote(URL, "main")
WITH_TOKEN = Remote(URL, "main", "a-token")


def answered(
    status: int, remote: Remote = WITHOUT_TOKEN, **headers: str
) -> Advice | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return find_advice("fatal: Git failed", "", remote, Response(status, named), NOW)


def said(words: str, remote: Remote = WITHOUT_TOKEN) -> Advice | None:
    return find_advice(words, words, remote, None, NOW)


@pytest.mark.spec("9.2")
@pytest.mark.parametrize(
    "status, remote, kind, words",
    [
        (401, WITH_TOKEN, AccessRefusedError, "wrong, expired or revoked"),
        (401, WITHOUT_TOKEN, AccessRefusedError, "Set GITHUB_TOKEN"),
        (403, WITH_TOKEN, AccessRefusedError, "single sign-on"),
        (403, WITHOUT_TOKEN, AccessRefusedError, "Set GITHUB_TOKEN"),
        (404, WITH_TOKEN, RemoteMissingError, "the token may not see it"),
        (404, WITHOUT_TOKEN, RemoteMissingError, "or it is private"),
        (407, WITH_TOKEN, RemoteMissingError, "http.proxy"),
        (410, WITH_TOKEN, RemoteMissingError, "answered 410"),
        (429, WITH_TOKEN, SyncError, "fewer requests"),
        (500, WITH_TOKEN, SyncError, "in trouble (500)"),
        (503, WITHOUT_TOKEN, SyncError, "in trouble (503)"),
    ],
)
def test_each_status_is_told_apart(
    status: int, remote: Remote, kind: type[SyncError], words: str
) -> None:
    advice = answered(status, remote)

    assert advice is not None
    assert advice.kind is kind
    assert words in advice.words


def test_a_token_in_a_file_is_a_token(tmp_path: object) -> None:
    advice = answered(401, Remote(URL, "main", token_file=tmp_path))  # type: ignore[arg-type]

    assert advice is not None
    assert "SKILLS_MCP_TOKEN_FILE" in advice.words


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_host_that_asks_to_wait_is_no_refusal(status: int) -> None:
    advice = answered(status, WITH_TOKEN, retry_after="60")

    assert advice is not None
    assert advice.kind is SyncError
    assert advice.retry_after_seconds == 60


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_new_address_is_named_without_what_git_adds(status: int) -> None:
    new = "https://new.example/skills"

    advice = answered(status, location=f"{new}/info/refs?service=git-upload-pack")

    assert advice is not None
    assert advice.words == f"the address has moved to {new}. Configure the new one"


def test_a_host_that_does_not_say_where_to_is_reported_without() -> None:
    advice = answered(302)

    assert advice is not None
    assert advice.words == "the address has moved. Configure the new one"


@pytest.mark.spec("9.1")
@pytest.mark.parametrize(
    "words, kind, advised",
    [
        ("fatal: Authentication failed for 'x'", AccessRefusedError, "GITHUB_TOKEN"),
        ("fatal: could not read Username for", AccessRefusedError, "GITHUB_TOKEN"),
        ("The requested URL returned error: 403", AccessRefusedError, "GITHUB_TOKEN"),
        ("git@x: Permission denied (publickey).", AccessRefusedError, "SSH"),
        ("Host key verification failed.", AccessRefusedError, "terminal"),
        ("REMOTE HOST IDENTIFICATION HAS CHANGED!", AccessRefusedError, "compare"),
        ("error: cannot run ssh: No such file", SyncError, "Install it"),
        ("ERROR: Repository not found.", RemoteMissingError, "Check its address"),
        ("fatal: repository 'x' not found", RemoteMissingError, "Check its address"),
        ("'x' does not appear to be a git repository", RemoteMissingError, "address"),
        ("x/info/refs not valid: is this a git repository?", RemoteMissingError, "ad"),
        ("git: 'remote-x' is not a git command.", RemoteMissingError, "address"),
        ("fatal: couldn't find remote ref refs/heads/x", RefMissingError, "branch"),
        ("The requested URL returned error: 301", SyncError, "moved"),
        ("Could not resolve host: example.invalid", SyncError, "name is not known"),
        ("Failed to connect to 127.0.0.1 port 4", SyncError, "cannot be reached"),
        ("unable to access 'x': Operation timed out", SyncError, "network"),
        ("certificate has expired", SyncError, "out of date"),
        ("SSL certificate problem: self-signed certificate", SyncError, "SSL_CAINFO"),
        ("server certificate verification failed. CAfile: none", SyncError, "CAINFO"),
        ("unable to get local issuer certificate", SyncError, "GIT_SSL_CAINFO"),
        ("does not match target host name 'localhost'", SyncError, "another name"),
        ("gnutls_handshake() failed: Error in pull", SyncError, "secure connection"),
        ("mismatched algorithms: client sha1; server sha256", SyncError, "only SHA-1"),
        ("fatal: early EOF", SyncError, "cut or damaged"),
        ("error: RPC failed; curl 28 Operation too slow.", SyncError, "too slow"),
        ("fatal: invalid gitfile format: x", RemoteMissingError, "without file://"),
        ("Repository lacks these prerequisite commits:", RemoteMissingError, "bundle"),
        ("fatal: pack has bad object at offset 12: inflate", SyncError, "cut or"),
        ("fatal: write error: No space left on device", SyncError, "disk is full"),
        ("unable to create temporary file: Read-only file system", SyncError, "read-o"),
        ("error: unable to write file objects/pack/x", SyncError, "cannot be written"),
        ("fatal: Out of memory, malloc failed", LimitExceededError, "memory"),
        ("fatal: detected dubious ownership in repo", AccessRefusedError, "safe.direc"),
        ("error in tree 12: hasDotgit: contains '.git'", SyncError, "dangerous"),
    ],
)
def test_each_cause_comes_with_what_to_do(
    words: str, kind: type[SyncError], advised: str
) -> None:
    advice = said(words)

    assert advice is not None
    assert advice.kind is kind
    assert advised in advice.words


def test_a_folder_that_may_not_be_read_is_not_an_ssh_key() -> None:
    advice = said(
        "fatal: unable to access '/srv/x/config': Permission denied",
        Remote("/srv/x", "main"),
    )

    assert advice is not None
    assert advice.kind is AccessRefusedError
    assert "permissions" in advice.words


@pytest.mark.parametrize(
    "words",
    [
        "fatal: couldn't find remote ref refs/tags/v9",
        "fatal: remote error: upload-pack: not our ref 1111",
        "error: Server does not allow request for unadvertised object 1111",
        "error: expected commit type, but the object dereferences to tree type",
    ],
)
def test_a_tag_or_commit_that_is_not_there_has_an_advice_of_its_own(
    words: str,
) -> None:
    pinned = said(words, Remote(URL, "main", pin="v9"))

    assert pinned is not None
    assert pinned.kind is RemoteMissingError
    assert "Check `ref`" in pinned.words
    assert pinned != said(words)


def test_a_pinned_remote_that_is_away_is_away() -> None:
    advice = said("Could not resolve host: x.invalid", Remote(URL, "main", pin="v9"))

    assert advice is not None
    assert "network" in advice.words


@pytest.mark.parametrize(
    "words",
    [
        "fatal: not a git repository: 'objects.git'",
        "error: object file objects.git/objects/12/34 is empty",
        "fatal: loose object 1234 (stored in objects/12/34) is corrupt",
        "fatal: bad object refs/skills/published",
        "error: packfile ./objects/pack/pack-1.pack cannot be accessed",
        "error: remote did not send all necessary objects",
        "fatal: pack has 3 unresolved deltas fatal: fetch-pack: invalid index-pack",
        "fatal: bad config line 1 in file config",
        "error: cannot lock ref 'refs/skills/published'",
        "something that nobody has ever seen",
    ],
)
def test_what_a_new_store_may_heal_has_no_advice_about_the_remote(words: str) -> None:
    assert said(words) is None


def test_a_full_disk_is_no_reason_to_throw_the_store_away() -> None:
    advice = said(
        "error: object file objects/12/34: No space left on device "
        "fatal: fetch-pack: invalid index-pack output"
    )

    assert advice is not None
    assert "disk is full" in advice.words


def test_a_good_answer_says_nothing_about_what_went_wrong_later() -> None:
    advice = find_advice(
        "fatal: early EOF", "fatal: early EOF", WITH_TOKEN, Response(200), NOW
    )

    assert advice is not None
    assert "cut or damaged" in advice.words


def test_a_host_whose_own_disk_or_store_is_bad_is_no_reason_to_touch_ours() -> None:
    said = "remote: fatal: bad object 12 remote: No space left on device fatal: hung up"

    advice = find_advice(f"{said} unexpectedly", "fatal:", WITH_TOKEN, None, NOW)

    assert advice is not None
    assert "cut or damaged" in advice.words
