"""The provider that turns texts into vectors: its address, model and key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from skills_mcp.config import Embedding
from skills_mcp.errors import ConfigError

_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
}
_MODELS = {"openai": "text-embedding-3-small", "gemini": "gemini-embedding-001"}

# What a header can hold; the message of a library would show any other key.
_KEY = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Where texts are sent, and what vectors need in common to be compared."""

    address: str
    """Without `/embeddings` and without a slash at the end."""
    model: str
    dimensions: int
    """How long a vector has to be; 0 leaves it to the model."""
    key: str = field(default="", repr=False)
    """Empty if none is needed.  It is in no file, log, error or URL."""
    key_name: str = ""
    """The environment variable that the key came from."""

    def space(self) -> str:
        """Return the name of the space in which vectors can be compared."""
        parts = (self.address, self.model, str(self.dimensions))
        return sha256("\0".join(parts).encode()).hexdigest()[:16]

    def digest(self, text: str) -> bytes:
        """Return the name of the vector of a text: 32 bytes, the same everywhere."""
        return sha256(f"{self.space()}\0{text}".encode()).digest()

    def find_fault(self) -> str:
        """Return what is wrong with the key; empty if nothing is."""
        if not self.key_name:
            return ""
        if not self.key:
            return f"The variable {self.key_name} is not set."
        is_fit = _KEY.fullmatch(self.key) is not None
        return "" if is_fit else f"The value of {self.key_name} cannot be a key."


def derive_provider(rules: Embedding, environment: Mapping[str, str]) -> Provider:
    """Return the provider of a configuration that is not `none`.

    Raises:
        ConfigError: An address or a model is missing.
    """
    address = rules.base_url or _ADDRESSES.get(rules.provider, "")
    model = rules.model or _MODELS.get(rules.provider, "")
    if not address:
        raise ConfigError(
            "embedding.base_url: the provider openai-compatible needs the address of "
            "its API, such as http://localhost:11434/v1"
        )
    if not model:
        raise ConfigError(
            "embedding.model: the provider openai-compatible needs the name of a model "
            "that it has"
        )
    name, key = _find_key(rules, environment)
    return Provider(
        address=address.rstrip("/"),
        model=model,
        dimensions=rules.dimensions,
        key=key.strip(),
        key_name=name,
    )


def _find_key(rules: Embedding, environment: Mapping[str, str]) -> tuple[str, str]:
    if name := rules.api_key_env:
        return name, environment.get(name, "")
    if rules.provider == "openai":
        return "OPENAI_API_KEY", environment.get("OPENAI_API_KEY", "")
    if rules.provider == "gemini":
        return "GEMINI_API_KEY", environment.get("GEMINI_API_KEY", "")
    return "", ""
