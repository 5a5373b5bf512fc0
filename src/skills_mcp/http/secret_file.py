"""Secret files, reloaded on change while the server runs."""

import logging
import os
import stat
import threading
from pathlib import Path
from typing import ClassVar

from skills_mcp.errors import ConfigError
from skills_mcp.files.durable import read_regular, read_stamp
from skills_mcp.files.paths import expand_home_folder
from skills_mcp.text.redaction import register_secret

logger = logging.getLogger(__name__)

MIN_CHARACTERS = 16
"""More than 80 bits of random letters and digits."""

_MAX_FILE_BYTES = 64 * 1024


class SecretFile:
    """Secrets of a file, reloaded on change. Blocking."""

    setting: ClassVar[str]
    """Setting with the path of the file."""
    purpose: ClassVar[str]
    """Description of a secret, for messages."""
    refused: ClassVar[str]
    """Consequence of an unusable file, for messages."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp: object = None
        self._secrets: tuple[str, ...] = ()
        self._gate = threading.Lock()

    def load(self) -> tuple[str, ...]:
        """Read the secrets.

        Raises:
            ConfigError: There is none, or one is too short.
        """
        self._secrets = ()
        self._stamp = read_stamp(self._file)
        self._secrets = self._read()
        return self._secrets

    def current(self) -> tuple[str, ...]:
        """Current secrets; none if the file is unusable, logged once."""
        with self._gate:  # two deliveries may come at once
            if self._stamp == read_stamp(self._file):
                return self._secrets
            try:
                self.load()
                logger.info("%s was read again", self.setting)
            except ConfigError as error:
                logger.error("%s: %s", self.refused, error)  # noqa: TRY400
            return self._secrets

    def find_fault(self, secret: str) -> str:
        """Fault of a secret, for messages; empty if valid."""
        if len(secret) < MIN_CHARACTERS:
            return f"is shorter than {MIN_CHARACTERS} characters"
        if not secret.isprintable() or "\N{REPLACEMENT CHARACTER}" in secret:
            return "holds characters that no secret has"
        return ""

    def _read(self) -> tuple[str, ...]:
        # In a container it is a link to a folder that is replaced as a whole.
        file = Path(os.path.realpath(self._file))
        if (raw := read_regular(file, _MAX_FILE_BYTES)) is None:
            raise ConfigError(
                f"{self.setting}: {self._file} cannot be read. Write {self.purpose} "
                "into it, and let the server's user read it."
            )
        lines = raw.decode("utf-8", "replace").splitlines()
        secrets = tuple(filter(None, map(str.strip, lines)))
        for number, secret in enumerate(secrets, 1):
            if fault := self.find_fault(secret):
                raise ConfigError(
                    f"{self.setting}: secret {number} of {self._file} "
                    f"{fault}. Write one that `openssl rand -hex 32` prints."
                )
            register_secret(secret)
        if not secrets:
            raise ConfigError(
                f"{self.setting}: {self._file} is empty. Write {self.purpose} into it, "
                "or take the setting out."
            )
        self._warn_if_open(file)
        return secrets

    def _warn_if_open(self, file: Path) -> None:
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & stat.S_IRWXO:
            logger.warning("%s is open to every user of this machine: chmod 600 it", self._file)


def find_secret_file(setting: str, text: str) -> Path:
    """Absolute path from a setting.

    Raises:
        ConfigError: It is a relative path.
    """
    file = expand_home_folder(text)
    if not file.is_absolute():
        name = setting.rpartition(".")[2]
        raise ConfigError(
            f"{setting}: {file} is a relative path. Write the whole path of the file, "
            f"such as /run/secrets/{name.removesuffix('_file').split('_')[0]}."
        )
    return file
