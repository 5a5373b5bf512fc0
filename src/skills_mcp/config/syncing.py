"""Every setting of where content comes from, and what is demanded of it (001 §9)."""

from pydantic import Field

from skills_mcp.config.section import Section
from skills_mcp.config.values import (
    Bytes,
    BytesOnDisk,
    FileCount,
    Minutes,
    Name,
    Place,
    Seconds,
    Subfolder,
    Verify,
)


class Refresh(Section):
    """When a Git repository is fetched without being asked (001 §9.3)."""

    enabled: bool = Field(
        default=True,
        description="Whether to fetch at all between two calls of `refresh_skills`.",
    )
    interval_minutes: Minutes = Field(
        default=15,
        description="Minutes between two fetches, give or take ten per cent.",
    )


class Sync(Section):
    """What is demanded of a repository before its content is served."""

    timeout_seconds: Seconds = Field(
        default=120, description="Seconds after which a sync is given up."
    )
    allow_non_fast_forward: bool = Field(
        default=True,
        description="Whether a branch is followed when its history was rewritten or "
        "taken back.",
    )
    allowed_signers: str = Field(
        default="",
        description="A file with the keys that may sign, as ssh-keygen has it; with "
        "one, only signed content of repositories is served.",
    )
    revoked_signers: str = Field(
        default="", description="A file with keys that count no more."
    )
    verify: Verify = Field(
        default="commit",
        description="What has to be signed: the commit, the tag that ref names, or "
        "both.",
    )
    offline: bool = Field(
        default=False,
        description="Whether nothing at all is asked of the network.",
    )


class Limits(Section):
    """How much content is looked at (DESIGN §9)."""

    max_files: FileCount = Field(
        default=100_000,
        description="The most files and folders of one source that are looked at.",
    )
    max_characters: Bytes = Field(
        default=250_000_000,
        description="The most characters that all skills of one source have together.",
    )
    max_file_bytes: Bytes = Field(
        default=8_388_608,
        description="Larger files of a repository are left out.",
    )
    max_total_bytes: BytesOnDisk = Field(
        default=268_435_456,
        description="The most bytes that all files of a commit have together.",
    )
    max_download_bytes: BytesOnDisk = Field(
        default=1_073_741_824,
        description="The most bytes that Git may fetch of a repository at once.",
    )


class Source(Section):
    """A folder or a repository, and where its skills stand in the tree."""

    folder: str = Field(
        default="", description="A folder with skills; either this or repo."
    )
    repo: str = Field(
        default="",
        description="The URL of a Git repository with skills; either this or folder.",
    )
    branch: Name = Field(
        default="main",
        description="The branch to follow; HEAD for whichever is the default.",
    )
    ref: str = Field(
        default="",
        description="A tag or a commit to stay at, instead of following a branch.",
    )
    subfolder: Subfolder = Field(
        default="",
        description="The part of it to serve; without one, its `skills`, or else all.",
    )
    mount: Place = Field(
        default="",
        description="Where its skills stand in the tree, such as `teams/web`; without "
        "one, at the top.",
    )
    allow_non_fast_forward: bool | None = Field(
        default=None, description="As in sync, for this repository alone."
    )
    allowed_signers: str | None = Field(
        default=None,
        description="As in sync, for this repository alone; empty asks for no "
        "signature.",
    )
    revoked_signers: str | None = Field(
        default=None, description="As in sync, for this repository alone."
    )
    verify: Verify | None = Field(
        default=None, description="As in sync, for this repository alone."
    )
