import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from skills_mcp.cli.commands.serve import command
from skills_mcp.config.variables import _OPTIONS, VARIABLES, name_generic_variable
from skills_mcp.server.windows.rendezvous import (
    OPTIONS,
    Rendezvous,
    find_rendezvous,
    is_private,
    list_folders,
    shapes_server,
)
from tests.support import write

GIT_SENDS = (
    *("GH_CONFIG_DIR", "AWS_PROFILE", "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR"),
    *("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "SSH_AUTH_SOCK", "GIT_SSH_COMMAND"),
    *("http_proxy", "HTTPS_PROXY", "NO_PROXY", "GIT_ASKPASS", "SSL_CERT_FILE", "PATH", "HOME"),
)


def find(*words: str, **variables: str) -> Rendezvous | None:
    return find_rendezvous(words, {**os.environ, **variables})


def key_of(*words: str, **variables: str) -> str:
    found = find(*words, **variables)
    assert found is not None
    return found.key


def test_every_variable_that_is_read_is_a_part_of_the_key() -> None:
    names = {*_OPTIONS, *(each.name for each in VARIABLES), name_generic_variable("http.port")}
    names |= {"LOG_LEVEL", "DO_NOT_TRACK", "OPENAI_API_KEY", "GEMINI_API_KEY", "ANALYTICS_TOKEN"}
    names |= {"OTEL_EXPORTER_OTLP_ENDPOINT", "TIKTOKEN_CACHE_DIR", "USER", "LANG", *GIT_SENDS}

    assert {name for name in names - {""} if not shapes_server(name)} == set()


@pytest.mark.parametrize("name", ["PWD", "TERM", "SHLVL", "CLAUDE_CODE_SSE_PORT", "WINDOWID"])
def test_a_variable_of_a_terminal_is_no_part_of_the_key(name: str) -> None:
    assert key_of(**{name: "one"}) == key_of(**{name: "two"})


def test_a_folder_that_a_host_puts_in_front_of_the_path_is_no_part_of_the_key() -> None:
    codex = "/home/ada/.codex/tmp/arg0/codex-arg0Xq1:/opt/codex/codex-path:/usr/bin:/bin"

    assert key_of(PATH=codex) == key_of(PATH="/usr/bin:/bin")
    assert key_of(PATH=codex) != key_of(PATH="/opt/bin:/usr/bin:/bin")


def test_a_variable_that_a_host_passes_on_without_a_value_is_not_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)

    assert key_of(SSH_AUTH_SOCK="") == key_of() != key_of(SSH_AUTH_SOCK="/agent")
    assert key_of(GIT_ASKPASS="") != key_of()


def test_a_variable_that_the_settings_name_is_a_part_of_the_key(home: Path) -> None:
    write(home / ".skills-mcp/config.yaml", "embedding: {api_key_env: OUR_GATEWAY}")

    assert key_of(OUR_GATEWAY="one") != key_of(OUR_GATEWAY="two")


def test_every_option_of_serve_is_known() -> None:
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}

    assert options == OPTIONS


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--transport", "http"),
        ("--transport=http",),
        ("--nonsense",),
        ("--repo",),
        ("serve", "extra"),
    ],
    ids=" ".join,
)
def test_a_command_line_that_needs_the_program_is_not_forwarded(words: tuple[str, ...]) -> None:
    assert find(*words) is None


@pytest.mark.parametrize(
    "variables",
    [{"SKILLS_MCP_TRANSPORT": "http"}, *({"SKILLS_MCP_SHARE": no} for no in ("0", "False", "off"))],
    ids=str,
)
def test_a_variable_can_forbid_to_forward(variables: Mapping[str, str]) -> None:
    assert find(**variables) is None


def test_serve_is_the_same_as_nothing() -> None:
    assert key_of("serve") == key_of()
    assert key_of("serve", "--offline") == key_of("--offline") != key_of()


@pytest.mark.parametrize(
    "variables",
    [
        {"SKILLS_DIR": "skills"},
        {"SKILLS_REPO": "owner/name"},
        {"SKILLS_MCP_DISCOVER": "1"},
        {"SKILLS_MCP__DISCOVER": "true"},
        {"SKILLS_MCP_TOKEN_FILE": "token"},
    ],
    ids=str,
)
def test_the_working_directory_counts_if_a_variable_refers_to_it(
    variables: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = key_of(**variables)
    monkeypatch.chdir(tmp_path)

    assert key_of(**variables) != here


@pytest.mark.parametrize(
    "repo", ["https://git.example/a.git", "git@git.example:team/a.git", "/srv/a.git", "~/a.git"]
)
def test_the_working_directory_does_not_count_for_an_address(
    repo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = key_of(SKILLS_REPO=repo)
    monkeypatch.chdir(tmp_path)

    assert key_of(SKILLS_REPO=repo) == here


def test_no_folder_is_made_for_a_command(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("s") / "new"  # the path of a socket has to be short
    environment = {**os.environ, "SKILLS_MCP_RUNTIME_DIR": str(folder)}

    assert find_rendezvous([], environment, is_window=False) is None
    assert not folder.exists()
    assert find_rendezvous([], environment) is not None
    assert find_rendezvous([], environment, is_window=False) is not None


def test_the_folder_of_sockets_is_closed_to_others() -> None:
    found = find()

    assert found is not None
    assert stat.S_IMODE(Path(found.folder).stat().st_mode) == 0o700


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "skills-mcp").symlink_to(tmp_path / "elsewhere")

    assert not is_private(str(tmp_path / "skills-mcp"))
    assert is_private(str(tmp_path / "elsewhere"))


@pytest.mark.parametrize("folder", ["/" + "x" * 100, "relative", "/dev/null/folder"])
def test_a_folder_that_can_hold_no_socket_is_done_without(folder: str) -> None:
    assert find(SKILLS_MCP_RUNTIME_DIR=folder) is None


def test_folders_are_looked_for_in_this_order() -> None:
    environment = {"XDG_RUNTIME_DIR": "/run/user/7", "TMPDIR": "/private"}

    user = os.getuid()
    *first, last = list_folders(environment)
    assert first == ["/run/user/7/skills-mcp", f"/private/skills-mcp-{user}"]
    assert last.endswith(f"/skills-mcp-{user}")
    assert list_folders({**environment, "SKILLS_MCP_RUNTIME_DIR": "/own"}) == ["/own"]


def test_a_place_is_claimed_once_until_it_is_left() -> None:
    found = find()
    assert found is not None

    first, second = found.claim(), found.claim()
    assert first is not None
    assert second is None
    found.leave(first)
    third = found.claim()

    assert third is not None
    found.leave(third)
