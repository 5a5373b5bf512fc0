import subprocess
from pathlib import Path

import pytest

from skills_mcp.content.remote import Remote
from skills_mcp.errors import ConfigError
from tests.support import git

TOKEN = "canary-4711"  # noqa: S105 - the bird that must not be heard


@pytest.mark.spec("9.2")
@pytest.mark.parametrize(
    "url",
    [
        f"https://x-access-token:{TOKEN}@example.com/org/skills.git",
        f"https://{TOKEN}@example.com/org/skills.git",
        f"HTTPS://ada:{TOKEN}@example.com/org/skills.git",
    ],
)
def test_a_token_inside_the_url_is_taken_out_of_it(url: str) -> None:
    remote = Remote.parse(url, "main")

    assert remote.token == TOKEN
    assert remote.url == "https://example.com/org/skills.git"


def test_a_token_inside_the_url_is_percent_decoded_as_git_does() -> None:
    remote = Remote.parse("https://ada:a%2Fb%40c@example.com/skills", "main")

    assert remote.token == "a/b@c"  # noqa: S105 - no secret


def test_a_pair_inside_the_url_is_a_user_and_a_password() -> None:
    remote = Remote.parse("https://deploy:s:ecret@example.com/skills", "main")

    assert (remote.user, remote.token) == ("deploy", "s:ecret")


def test_beside_a_lone_token_stands_the_user_that_github_wants() -> None:
    remote = Remote.parse(f"https://{TOKEN}@example.com/skills", "main")

    assert (remote.user, remote.token) == ("x-access-token", TOKEN)


def test_the_token_of_the_environment_wins_over_that_inside_the_url() -> None:
    remote = Remote.parse("https://old@example.com/skills", "main", TOKEN)

    assert remote.token == TOKEN
    assert "old" not in remote.url


def test_a_user_of_ssh_is_no_secret() -> None:
    remote = Remote.parse("ssh://git@example.com/org/skills", "main")

    assert remote.url == "ssh://git@example.com/org/skills"
    assert remote.token is None


def test_neither_form_of_a_remote_for_people_shows_its_token() -> None:
    remote = Remote.parse(f"https://{TOKEN}@example.com/skills", "main")

    shown = f"{remote!r} {remote}"

    assert TOKEN not in shown
    assert "https://example.com/skills" in shown


@pytest.mark.parametrize(
    "url, scheme",
    [
        ("https://example.com/skills", "https"),
        ("http://example.com/skills", "http"),
        ("ssh://git@example.com/skills", "ssh"),
        ("git@example.com:org/skills.git", "ssh"),
        ("example.com:skills", "ssh"),
        ("file:///srv/skills", "file"),
        ("/srv/skills", "file"),
        ("./skills", "file"),
        ("./odd:name", "file"),
        ("C:/skills", "file"),
    ],
)
def test_the_scheme_is_what_git_would_use(url: str, scheme: str) -> None:
    assert Remote(url, "main").scheme == scheme


@pytest.mark.parametrize(
    "url, may_have_it",
    [
        ("https://example.com/skills", True),
        ("http://127.0.0.1:8080/skills", True),
        ("http://localhost/skills", True),
        ("http://[::1]:8080/skills", True),
        ("http://example.com/skills", False),
        ("http://localhost.example.com/skills", False),
        ("ssh://git@example.com/skills", False),
        ("file:///srv/skills", False),
    ],
)
def test_a_token_travels_over_https_or_not_at_all(
    url: str, *, may_have_it: bool
) -> None:
    remote = Remote(url, "main", TOKEN)

    assert remote.usable_token == (TOKEN if may_have_it else None)


def test_the_settings_for_git_name_the_host_and_not_the_token() -> None:
    remote = Remote("https://example.com:8443/skills", "main", TOKEN)

    settings = remote.credential_settings()

    assert settings["credential.helper"] == ""
    assert "credential.https://example.com:8443.helper" in settings
    assert TOKEN not in str(settings)


def test_a_message_is_redacted() -> None:
    remote = Remote("https://example.com/skills", "main", TOKEN)

    assert remote.redact(f"fatal: {TOKEN} is wrong") == "fatal: *** is wrong"
    assert Remote("https://example.com", "main").redact("as it is") == "as it is"


COMMIT = "0123456789abcdef" * 2 + "01234567"


@pytest.mark.parametrize(
    "pin, wanted",
    [
        ("", "refs/heads/main"),
        ("v1.2", "refs/tags/v1.2"),
        ("release/2024", "refs/tags/release/2024"),
        (COMMIT, COMMIT),
        (COMMIT.upper(), COMMIT),
        (COMMIT + COMMIT[:24], COMMIT + COMMIT[:24]),
        (COMMIT[:12], f"refs/tags/{COMMIT[:12]}"),
    ],
)
@pytest.mark.parametrize("user", ["", "ada@", "ada:secret@"])
def test_a_branch_a_tag_or_a_whole_commit_is_wanted(
    pin: str, wanted: str, user: str
) -> None:
    remote = Remote.parse(f"https://{user}example.com/skills", "main", pin=pin)

    assert remote.wanted == wanted
    assert remote.commit == (wanted if "/" not in wanted else None)


def test_a_pin_is_part_of_the_name() -> None:
    remote = Remote.parse("https://example.com/skills", "main", pin="v1.2")

    assert str(remote) == "https://example.com/skills (v1.2)"


ODD_NAMES = [
    "--upload-pack=touch",
    "-x",
    "main:refs/heads/other",
    "*",
    "a b",
    "a..b",
    "a~1",
    "a^",
    "a?",
    "a[b",
    "a\\b",
    "a@{1}",
    "@",
    ".hidden",
    "a/.hidden",
    "/a",
    "a/",
    "a//b",
    "a.",
    "a.lock",
    "a.lock/b",
    "new\nline",
    "tab\t",
    "main\n",
    "\x7f",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_is_none_is_refused_with_what_is_allowed(name: str) -> None:
    url = "https://example.com/skills"

    with pytest.raises(ConfigError, match=r"is no name of a branch\. It may not begin"):
        Remote.parse(url, name)
    with pytest.raises(ConfigError, match="is no name of a tag or commit"):
        Remote.parse(url, "main", pin=name)


def test_a_branch_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="'' is no name of a branch"):
        Remote.parse("https://example.com/skills", "")


@pytest.mark.parametrize(
    "name",
    ["main", "feature/#12", "v1.0-rc.1", "user@home", "é", "a.b/c_d", "a-", "{a}", "1"],
)
def test_what_git_allows_is_allowed(name: str, tmp_path: Path) -> None:
    git("check-ref-format", f"refs/heads/{name}", cwd=tmp_path)

    assert Remote.parse("https://example.com/skills", name).branch == name


@pytest.mark.parametrize("name", [n for n in ODD_NAMES if n[0] not in "-@"])
def test_what_git_refuses_is_refused(name: str, tmp_path: Path) -> None:
    # A leading dash or a lone @ Git refuses only where a command could misread it.
    with pytest.raises(subprocess.CalledProcessError):
        git("check-ref-format", f"refs/heads/{name}", cwd=tmp_path)


@pytest.mark.parametrize(
    "url, host",
    [
        ("https://Example.com:8443/skills", "example.com:8443"),
        ("https://example.com/skills", "example.com"),
        ("http://example.com/skills", ""),
        ("git@example.com:skills", ""),
    ],
)
def test_the_host_is_where_the_token_would_be_sent(url: str, host: str) -> None:
    assert Remote(url, "main", TOKEN).host == host
    assert Remote(url, "main").host == ""
