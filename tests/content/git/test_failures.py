"""What Git and hosts say, and what a person is told to do about it."""

from datetime import UTC, datetime

import pytest

from skills_mcp.content.git.diagnostics import (
    Advice,
    DamagedStoreError,
    RefMissingError,
    Transcript,
    compose_error,
    find_advice,
    render_reason,
)
from skills_mcp.content.git.remote import Remote
from skills_mcp.errors import (
    AccessRefusedError,
    LimitExceededError,
    RemoteMissingError,
    SyncError,
)
from skills_mcp.text.redaction import register_secret

NOW = datetime(2026, 11, 22, tzinfo=UTC)
URL = "https://example.com/skills"
WITHOUT_TOKEN = Remote(URL, "main")
WITH_TOKEN = Remote(URL, "main", "a-token")


def written(*lines: str) -> Transcript:
    transcript = Transcript()
    transcript.feed("".join(f"{line}\n" for line in lines).encode())
    return transcript


def answered(status: int, remote: Remote = WITHOUT_TOKEN, **headers: str) -> Advice | None:
    lines = [f"HTTP/1.1 {status} x"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    traced = (f"07:25:55.771882 http.c:684 <= Recv header: {line}" for line in lines)
    return find_advice(written(*traced, "fatal: early EOF"), remote, NOW)


def said(words: str, remote: Remote = WITHOUT_TOKEN) -> Advice | None:
    return find_advice(written(words), remote, NOW)


@pytest.mark.spec("9.2")
@pytest.mark.parametrize(
    "status, remote, kind, words",
    [
        (
            401,
            WITH_TOKEN,
            AccessRefusedError,
            "401: the token is wrong, expired or revoked",
        ),
        (401, WITHOUT_TOKEN, AccessRefusedError, "401: this repository needs a token"),
        (403, WITH_TOKEN, AccessRefusedError, "single sign-on"),
        (403, WITHOUT_TOKEN, AccessRefusedError, "Set GITHUB_TOKEN"),
        (404, WITH_TOKEN, RemoteMissingError, "the token may not see it"),
        (404, WITHOUT_TOKEN, RemoteMissingError, "or it is private"),
        (407, WITH_TOKEN, RemoteMissingError, "http.proxy"),
        (410, WITH_TOKEN, RemoteMissingError, "410: the host refuses"),
        (429, WITH_TOKEN, SyncError, "429: too many requests"),
        (500, WITH_TOKEN, SyncError, "500: server error"),
        (503, WITHOUT_TOKEN, SyncError, "503: server error"),
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
        (
            "Could not resolve host: example.invalid",
            SyncError,
            "cannot resolve",
        ),
        ("Failed to connect to 127.0.0.1 port 4", SyncError, "cannot be reached"),
        ("unable to access 'x': Operation timed out", SyncError, "network"),
        ("certificate has expired", SyncError, "expired, or not valid yet"),
        ("SSL certificate problem: self-signed certificate", SyncError, "SSL_CAINFO"),
        ("server certificate verification failed. CAfile: none", SyncError, "CAINFO"),
        ("unable to get local issuer certificate", SyncError, "GIT_SSL_CAINFO"),
        ("does not match target host name 'localhost'", SyncError, "another host name"),
        ("(a.example) does not match target hostname 'b'", SyncError, "another host name"),
        ("gnutls_handshake() failed: Error in pull", SyncError, "TLS connection"),
        (
            "unable to write file store/objects/pack/pack-1.pack: Not a directory",
            DamagedStoreError,
            "damaged",
        ),
        ("mismatched algorithms: client sha1; server sha256", SyncError, "only SHA-1"),
        ("fatal: early EOF", SyncError, "was cut off"),
        ("error: RPC failed; curl 28 Operation too slow.", SyncError, "sent nothing"),
        ("fatal: invalid gitfile format: x", RemoteMissingError, "without file://"),
        ("Repository lacks these prerequisite commits:", RemoteMissingError, "bundle"),
        (
            "fatal: pack has bad object at offset 12: inflate",
            SyncError,
            "data is damaged",
        ),
        ("fatal: write error: No space left on device", SyncError, "disk is full"),
        ("unable to create temporary file: Read-only file system", SyncError, "read-o"),
        ("error: unable to write file objects/pack/x", SyncError, "cannot be written"),
        ("fatal: Out of memory, malloc failed", LimitExceededError, "memory"),
        ("fatal: detected dubious ownership in repo", AccessRefusedError, "safe.direc"),
        ("error in tree 12: hasDotgit: contains '.git'", SyncError, "dangerous"),
    ],
)
def test_each_cause_comes_with_what_to_do(words: str, kind: type[SyncError], advised: str) -> None:
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


def test_a_path_without_a_repository_may_be_meant_as_an_address() -> None:
    words = "fatal: '/home/ada/acme/skills' does not appear to be a git repository"

    advice = said(words, Remote("/home/ada/acme/skills", "main"))

    assert advice is not None
    assert advice.kind is RemoteMissingError
    assert "such as https://github.com/acme/skills.git" in advice.words


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
    advice = answered(200, WITH_TOKEN)

    assert advice is not None
    assert "was cut off" in advice.words


def test_a_host_whose_own_disk_or_store_is_bad_is_no_reason_to_touch_ours() -> None:
    transcript = written(
        "remote: fatal: bad object 12",
        "remote: No space left on device",
        "fatal: hung up unexpectedly",
    )

    advice = find_advice(transcript, WITH_TOKEN, NOW)

    assert advice is not None
    assert "was cut off" in advice.words


def test_a_token_that_is_a_word_leaves_our_own_words_as_they_are() -> None:
    register_secret("expired")

    error = compose_error(answered(401, WITH_TOKEN), "expired!", "", WITH_TOKEN)

    assert "401: the token is wrong, expired or revoked" in str(error)
    assert str(error).endswith("Git said: ***!")


def test_what_nobody_knows_may_be_healed_by_a_new_store() -> None:
    error = compose_error(None, "odd", "Git failed", WITHOUT_TOKEN)

    assert isinstance(error, DamagedStoreError)
    assert str(error) == f"{URL} (main): Git failed. Git said: odd"


def test_what_git_says_of_a_signature_is_quoted_if_nobody_knows_it() -> None:
    assert render_reason("commit", "error:  odd\n") == "Git says: error: odd"
