import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

from skills_mcp.content.git.remote import Remote, check_address
from skills_mcp.errors import ConfigError
from skills_mcp.text.redaction import redact
from tests.content.git.addresses import ALLOWED_ADDRESSES, ODD_NAMES, UNSAFE_ADDRESSES
from tests.support import git

TOKEN = "ghp_canary4711"  # noqa: S105 - the bird that must not be heard


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


@pytest.mark.parametrize("scheme", ["https", "http", "ssh", "file"])
def test_a_scheme_may_be_in_capitals(scheme: str) -> None:
    for written in (scheme.upper(), scheme.capitalize()):
        remote = Remote.parse(f"{written}://Example.com/Org/skills.git", "main")

        assert remote.url == f"{scheme}://Example.com/Org/skills.git"
        assert remote.scheme == scheme


def test_a_token_inside_the_url_is_percent_decoded_as_git_does() -> None:
    remote = Remote.parse("https://ada:a%2Fb%40c@example.com/skills", "main")

    assert remote.token == "a/b@c"  # noqa: S105 - no secret


def test_a_pair_inside_the_url_is_a_user_and_a_password() -> None:
    remote = Remote.parse("https://deploy:s:ecret@example.com/skills", "main")

    assert (remote.user, remote.token) == ("deploy", "s:ecret")


def test_beside_a_lone_token_stands_the_user_that_github_wants() -> None:
    remote = Remote.parse(f"https://{TOKEN}@example.com/skills", "main")

    assert (remote.user, remote.token) == ("x-access-token", TOKEN)


@pytest.mark.parametrize("name", ["acme", "acme:", "acme-platform-team-2024", "ada%40acme.com"])
def test_a_lone_name_is_a_user_and_no_token(name: str) -> None:
    own = Remote.parse(f"https://{name}@example.com/acme/skills.git", "main")
    given = Remote.parse(f"https://{name}@example.com/acme/skills.git", "main", TOKEN)

    user = unquote(name.rstrip(":"))
    assert own.url == given.url == "https://example.com/acme/skills.git"
    assert (own.user, own.token) == (user, None)
    assert (given.user, given.token) == (user, TOKEN)
    assert redact(str(own)) == "https://example.com/acme/skills.git (main)"


@pytest.mark.parametrize(
    "token",
    [
        "glpat-9fK2mQ7xLw4Tz8RbYc1V",
        "9fK2mQ7xLw4Tz8RbYc1V",
        "3f2a9c7b1e5d8f4a6c0b3f2a9c7b1e5d8f4a6c0b",
    ],
)
def test_a_lone_name_that_looks_like_a_secret_is_a_token(token: str) -> None:
    remote = Remote.parse(f"https://{token}@example.com/skills", "main")

    assert (remote.user, remote.token) == ("x-access-token", token)
    assert token not in f"{remote!r}"


def test_the_token_of_the_environment_wins_over_that_inside_the_url() -> None:
    remote = Remote.parse("https://old@example.com/skills", "main", TOKEN)

    assert remote.token == TOKEN
    assert "old" not in remote.url


def test_a_user_of_ssh_is_no_secret() -> None:
    remote = Remote.parse("ssh://git@example.com/org/skills", "main")

    assert remote.url == "ssh://git@example.com/org/skills"
    assert remote.token is None


def test_a_password_for_ssh_is_left_out_and_taken_out_of_whatever_is_said() -> None:
    remote = Remote.parse("ssh://git:pass%40word-1@example.com/skills", "main", TOKEN)

    assert remote.url == "ssh://git@example.com/skills"
    assert redact("it is pass@word-1") == "it is ***"


def test_a_password_that_was_not_encoded_is_not_repeated_with_what_is_wrong() -> None:
    with pytest.raises(ConfigError, match="its host or port") as caught:
        Remote.parse("https://ada:first/sec@ond@example.com/skills", "main")

    shown = str(caught.value)
    assert not any(part in shown for part in ("first", "sec@", "ond"))
    assert "example.com/skills" in shown


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
def test_a_token_travels_over_https_or_not_at_all(url: str, *, may_have_it: bool) -> None:
    remote = Remote(url, "main", TOKEN)

    assert remote.sends_token == may_have_it


def test_the_settings_for_git_name_the_host_and_not_the_token() -> None:
    remote = Remote("https://example.com:8443/skills", "main", TOKEN)

    settings = remote.credential_settings()

    assert settings["credential.helper"] == ""
    assert "credential.https://example.com:8443.helper" in settings
    assert TOKEN not in str(settings)


def test_a_branch_called_head_is_whichever_is_the_default() -> None:
    remote = Remote.parse("https://example.com/skills", "HEAD")

    assert remote.requested_ref == "HEAD"
    assert str(remote) == "https://example.com/skills (HEAD)"


@pytest.mark.parametrize(
    "url, may_have_it",
    [
        ("https://example.com/skills", True),
        ("http://127.0.0.1:8080/skills", True),
        ("http://example.com/skills", False),
        ("git@example.com:skills", False),
    ],
)
def test_a_file_with_a_token_is_a_token_wherever_one_may_be_sent(
    url: str, *, may_have_it: bool
) -> None:
    remote = Remote.parse(url, "main", token_file=Path("/run/token"))

    assert remote.sends_token == may_have_it
    assert bool(remote.host) == may_have_it
    assert remote.withholds_token != may_have_it


def test_a_file_with_a_token_wins_over_a_pair_inside_the_url() -> None:
    remote = Remote.parse(
        f"https://ada:{TOKEN}@example.com/skills", "main", token_file=Path("/run/token")
    )

    assert (remote.token, remote.user) == (None, "x-access-token")
    assert remote.url == "https://example.com/skills"


def test_what_was_inside_the_url_is_redacted_from_then_on() -> None:
    Remote.parse("https://ada:canary-in-a-url@example.com/skills", "main")

    assert redact("it is canary-in-a-url") == "it is ***"


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
def test_a_branch_a_tag_or_a_whole_commit_is_wanted(pin: str, wanted: str, user: str) -> None:
    remote = Remote.parse(f"https://{user}example.com/skills", "main", pin=pin)

    assert remote.requested_ref == wanted
    assert remote.commit == (wanted if "/" not in wanted else None)


def test_a_pin_is_part_of_the_name() -> None:
    remote = Remote.parse("https://example.com/skills", "main", pin="v1.2")

    assert str(remote) == "https://example.com/skills (v1.2)"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_is_none_is_refused_with_what_is_allowed(name: str) -> None:
    url = "https://example.com/skills"

    with pytest.raises(ConfigError, match=r"is no name of a branch\. It may not begin"):
        Remote.parse(url, name)
    with pytest.raises(ConfigError, match="is no name of a tag or commit"):
        Remote.parse(url, "main", pin=name)


def test_without_a_named_branch_main_is_asked_for_first() -> None:
    remote = Remote.parse("https://example.com/skills", "")

    assert (remote.is_named, remote.requested_ref) == (False, "refs/heads/main")
    assert str(remote) == "https://example.com/skills (main)"


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


@pytest.mark.parametrize("url", ALLOWED_ADDRESSES)
def test_the_address_of_a_repository_is_allowed(url: str) -> None:
    check_address(url)

    assert Remote.parse(url, "main").branch == "main"


@pytest.mark.parametrize("url", UNSAFE_ADDRESSES)
def test_what_is_more_than_an_address_is_refused_with_what_is_allowed(
    url: str,
) -> None:
    with pytest.raises(ConfigError, match=r"Write https://host/path"):
        Remote.parse(url, "main")


def test_an_address_that_is_refused_shows_no_secret() -> None:
    with pytest.raises(ConfigError) as refused:
        Remote.parse("ftp://ada:pass-of-ada@example.com/x", "main")

    assert "pass-of-ada" not in str(refused.value)
