"""What every section of settings has in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Frozen settings, of which an unknown or wrong one is refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        defer_build=True,  # the first answer needs the defaults, and nothing checked
    )
