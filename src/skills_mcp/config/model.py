"""Every setting: what it means, its default, and what is allowed (001 §11.2)."""

from typing import Literal

from pydantic import Field

from skills_mcp.config.analytics import Analytics
from skills_mcp.config.routing import Embedding, Matching, Search
from skills_mcp.config.running import Commands, Scripts
from skills_mcp.config.section import Section
from skills_mcp.config.syncing import Limits, Refresh, Source, Sync
from skills_mcp.config.values import Bytes, EntryCount, Name, Toolset


class Visibility(Section):
    """Which skills are offered (000 §8.3, 002 §8.1)."""

    enabled_skills: tuple[Name, ...] = Field(
        default=(),
        description="Names or paths of skills; if there are any, only these are "
        "offered.",
    )
    enabled_categories: tuple[Name, ...] = Field(
        default=(),
        description="Categories; without enabled_skills, only their skills are "
        "offered.",
    )
    allow: tuple[Name, ...] = Field(
        default=(),
        description="Patterns of paths or names; if there are any, a skill has to fit "
        "one.",
    )
    deny: tuple[Name, ...] = Field(
        default=(),
        description="Patterns of paths or names that are never offered, whatever else "
        "is set.",
    )


class Catalog(Section):
    """How long the list of skills for a system prompt may be (002 §6.1)."""

    max_entries: EntryCount = Field(
        default=200, description="The most skills in the list."
    )
    max_bytes: Bytes = Field(default=32_768, description="The most bytes of the list.")


class Assets(Section):
    """How large a file may be (001 §12.3)."""

    max_size_bytes: Bytes = Field(
        default=1_048_576, description="Larger files are refused before they are read."
    )
    inline_text_max_bytes: Bytes = Field(
        default=10_240,
        description="With responses.format markdown, larger texts get their own block.",
    )


class Files(Section):
    """How much `read_skill_file` returns (000 §3.4, 003)."""

    max_bytes: Bytes = Field(
        default=65_536,
        description="The most bytes of a file in one reply; the reply says whether "
        "more follow.",
    )


class Responses(Section):
    """How replies are shaped (DESIGN §3.14)."""

    format: Literal["json", "markdown"] = Field(
        default="json",
        description="json: one block. markdown: the text in a block of its own.",
    )


class Config(Section):
    """Every setting, with its default."""

    sources: tuple[Source, ...] = Field(
        default=(), description="Folders and repositories to serve together."
    )
    discover: bool = Field(
        default=False,
        description="Whether `.agents/skills` of the project and of your home is "
        "served, too.",
    )
    refresh: Refresh = Refresh.model_construct()
    sync: Sync = Sync.model_construct()
    limits: Limits = Limits.model_construct()
    visibility: Visibility = Visibility.model_construct()
    matching: Matching = Matching.model_construct()
    search: Search = Search.model_construct()
    embedding: Embedding = Embedding.model_construct()
    catalog: Catalog = Catalog.model_construct()
    toolsets: tuple[Toolset, ...] = Field(
        default=("core",),
        min_length=1,
        description="core: `get_skill` and what goes with it. packages: "
        "`search_skills` and what goes with it.",
    )
    responses: Responses = Responses.model_construct()
    assets: Assets = Assets.model_construct()
    files: Files = Files.model_construct()
    scripts: Scripts = Scripts.model_construct()
    commands: Commands = Commands.model_construct()
    analytics: Analytics = Analytics.model_construct()
    trust_content_config: bool = Field(
        default=False,
        description="Whether a remote repository's config.yaml may set more.",
    )
