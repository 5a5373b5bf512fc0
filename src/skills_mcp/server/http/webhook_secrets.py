"""The secrets of the webhook: a file, with one in each line.

Rule: a file that cannot be used lets nothing in. A secret that was taken out of it is
refused from the next delivery on.
"""

import base64
import binascii
import logging
import os
import stat
import threading
from pathlib import Path

from skills_mcp.errors import ConfigError
from skills_mcp.files.durable import read_regular
from skills_mcp.server.http.forge_delivery import SIGNING_PREFIX
from skills_mcp.text.redaction import remember_secret

logger = logging.getLogger(__name__)

# Of letters and digits at random, they hold more than 80 bits.
_MIN_CHARACTERS = 16

_MAX_FILE_BYTES = 64 * 1024

_Stamp = tuple[int, ...]


class WebhookSecrets:
    """The secrets of a file, which is read again when it changes.  Blocking."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp: _Stamp | None = None
        self._secrets: tuple[str, ...] = ()
        self._gate = threading.Lock()

    def load(self) -> tuple[str, ...]:
        """Read the secrets.

        Raises:
            ConfigError: There is none, or one is too short.
        """
        self._secrets = ()
        self._stamp = self._read_stamp()
        self._secrets = self._read()
        return self._secrets

    def current(self) -> tuple[str, ...]:
        """Return the secrets; none if the file cannot be used, which is logged once."""
        with self._gate:  # two deliveries may come at once
            if self._stamp == self._read_stamp():
                return self._secrets
            try:
                self.load()
                logger.info("The secrets of the webhook were read again")
            except ConfigError as error:
                logger.error("The webhook refuses all deliveries: %s", error)  # noqa: TRY400
            return self._secrets

    def _read_stamp(self) -> _Stamp | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _read(self) -> tuple[str, ...]:
        # In a container it is a link to a folder that is replaced as a whole.
        file = Path(os.path.realpath(self._file))
        if (raw := read_regular(file, _MAX_FILE_BYTES)) is None:
            raise ConfigError(
                f"http.webhook_secret_file: {self._file} cannot be read. Write the "
                "secret of the webhook into it, and let the server's user read it."
            )
        lines = raw.decode("utf-8", "replace").splitlines()
        secrets = tuple(filter(None, map(str.strip, lines)))
        for number, secret in enumerate(secrets, 1):
            if fault := _find_fault(secret):
                raise ConfigError(
                    f"http.webhook_secret_file: secret {number} of {self._file} "
                    f"{fault}. Write one that `openssl rand -hex 32` prints."
                )
            remember_secret(secret)
        if not secrets:
            raise ConfigError(
                f"http.webhook_secret_file: {self._file} is empty. Write the secret of "
                "the webhook into it, or take the setting out."
            )
        self._warn_if_open(file)
        return secrets

    def _warn_if_open(self, file: Path) -> None:
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & stat.S_IRWXO:
            logger.warning(
                "%s is open to every user of this machine: chmod 600 it", self._file
            )


def _find_fault(secret: str) -> str:
    """Return what is wrong with a secret; empty if nothing is."""
    key = secret.removeprefix(SIGNING_PREFIX)
    if len(key) < _MIN_CHARACTERS:
        return f"is shorter than {_MIN_CHARACTERS} characters"
    if not secret.isprintable() or "\N{REPLACEMENT CHARACTER}" in secret:
        return "holds characters that no secret has"
    if key == secret:
        return ""
    try:
        base64.b64decode(key, validate=True)
    except binascii.Error:
        return f"begins with {SIGNING_PREFIX}, but the rest is no base64"
    return ""
