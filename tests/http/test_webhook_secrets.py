"""The file with the secrets of the webhook."""

import logging
import os
from pathlib import Path

import pytest

from skills_mcp.errors import ConfigError
from skills_mcp.http.webhook_endpoint import WebhookSecrets
from skills_mcp.text.redaction import redact
from tests.http.forge import OTHER_SECRET, SECRET, SIGNING_SECRET


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "webhook"


def write(file: Path, *lines: str, mode: int = 0o600) -> None:
    """Write the file as a program does that replaces it."""
    new = file.with_suffix(".new")
    new.write_text("\n".join(lines))
    new.chmod(mode)
    new.replace(file)


def test_each_line_is_a_secret(file: Path) -> None:
    write(file, SECRET, "", f"  {OTHER_SECRET} ", SIGNING_SECRET, "")

    assert WebhookSecrets(file).load() == (SECRET, OTHER_SECRET, SIGNING_SECRET)


@pytest.mark.parametrize(
    "lines, fault",
    [
        ((), "is empty"),
        (("", "  "), "is empty"),
        (("short",), "secret 1 of .* is shorter than 16 characters"),
        ((SECRET, "x" * 15), "secret 2 of .* is shorter than 16 characters"),
        (("whsec_short",), "shorter than 16"),
        (("whsec_this is no base64!",), "is no base64"),
        (("with\x00a-control-character",), "characters that no secret has"),
    ],
)
def test_a_secret_that_cannot_be_used_is_reported(
    file: Path, lines: tuple[str, ...], fault: str
) -> None:
    write(file, *lines)

    with pytest.raises(ConfigError, match=rf"http\.webhook_secret_file: .*{fault}"):
        WebhookSecrets(file).load()


def test_a_file_that_is_missing_is_reported(tmp_path: Path) -> None:
    for file in (tmp_path / "missing", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            WebhookSecrets(file).load()


def test_a_report_does_not_hold_the_secret(file: Path) -> None:
    write(file, SECRET, "too-short")

    with pytest.raises(ConfigError) as caught:
        WebhookSecrets(file).load()

    assert "too-short" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_secret_never_reaches_the_log(file: Path) -> None:
    secret = "this-one-is-only-in-the-file"  # noqa: S105
    write(file, secret)

    WebhookSecrets(file).load()

    assert secret not in redact(f"a log with {secret}")


def test_a_change_is_read_before_the_next_delivery(file: Path) -> None:
    write(file, SECRET)
    secrets = WebhookSecrets(file)
    secrets.load()

    write(file, OTHER_SECRET)

    assert secrets.current() == (OTHER_SECRET,)


def test_a_link_that_is_moved_is_read_again(tmp_path: Path) -> None:
    """Containers get secrets like this: a link to a folder that is replaced."""
    for name, secret in (("first", SECRET), ("second", OTHER_SECRET)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "webhook", secret)
    link = tmp_path / "data"
    link.symlink_to("first")
    (tmp_path / "webhook").symlink_to("data/webhook")
    secrets = WebhookSecrets(tmp_path / "webhook")
    assert secrets.load() == (SECRET,)

    (tmp_path / "new").symlink_to("second")
    (tmp_path / "new").replace(link)

    assert secrets.current() == (OTHER_SECRET,)


def test_a_file_that_is_broken_later_lets_nothing_in(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(file, SECRET)
    secrets = WebhookSecrets(file)
    secrets.load()

    for _ in range(3):
        write(file, "short")
        os.utime(file, ns=(1, 1))
        assert secrets.current() == ()
    file.unlink()
    assert secrets.current() == ()
    assert secrets.current() == ()
    assert caplog.text.count("cannot be read") == 1

    write(file, OTHER_SECRET)
    assert secrets.current() == (OTHER_SECRET,)


@pytest.mark.skipif(os.name != "posix", reason="there are no such permissions")
@pytest.mark.parametrize("mode, warns", [(0o600, False), (0o440, False), (0o644, True)])
def test_a_file_that_others_can_read_is_only_a_warning(
    file: Path, caplog: pytest.LogCaptureFixture, mode: int, *, warns: bool
) -> None:
    write(file, SECRET, mode=mode)

    with caplog.at_level(logging.WARNING):
        assert WebhookSecrets(file).load() == (SECRET,)

    assert ("chmod 600" in caplog.text) is warns
