"""Every setting of what is counted, and for whom (001 §10)."""

from pydantic import Field

from skills_mcp.config.section import Section
from skills_mcp.config.values import (
    SAFE_ADDRESS,
    Disclosure,
    Identity,
    KeptDays,
    SpoolBytes,
)


class Analytics(Section):
    """What is counted, what of it is written down, and who is told (001 §10)."""

    enabled: bool = Field(
        default=False, description="Whether events are written down at all."
    )
    endpoint: str = Field(
        default="",
        pattern=SAFE_ADDRESS,
        description="The URL that events are posted to; without one they stay here.",
    )
    context: Disclosure = Field(
        default="hashed",
        description="What becomes of texts that agents write. full: kept as they are. "
        "redacted: kept without secrets. hashed: only told apart. none: left out.",
    )
    identity: Identity = Field(
        default="hash",
        description="Who counts, in server_id. user: the user's name. hash: a name "
        "that tells people apart, but not who they are. none: nobody.",
    )
    max_spool_bytes: SpoolBytes = Field(
        default=10_485_760,
        description="The most bytes that wait to be sent; beyond it the oldest events "
        "are dropped, and counted.",
    )
    keep_days: KeptDays = Field(
        default=90,
        description="For how many days the record of events stays on this machine; "
        "0 keeps none that was sent.",
    )
