"""Every setting: what it means, its default, and what is allowed."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from skills_mcp.config.values import (
    PLAIN_ADDRESS,
    SAFE_ADDRESS,
    VARIABLE_NAME,
    AbsolutePath,
    AlgorithmSetting,
    Bytes,
    BytesOnDisk,
    CommandLine,
    Count,
    Dimensions,
    Disclosure,
    EmbeddingProvider,
    EntryCount,
    EnvironmentName,
    Extension,
    FileCount,
    Identity,
    KeptDays,
    Minutes,
    MountPath,
    Name,
    Patience,
    ProgramName,
    Ratio,
    Root,
    SandboxDemand,
    Seconds,
    SpoolBytes,
    Subfolder,
    Toolset,
    Verify,
)


class Section(BaseModel):
    """Frozen settings, of which an unknown or wrong one is refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        defer_build=True,  # the first answer needs the defaults, and nothing checked
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
    mount: MountPath = Field(
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


class Matching(Section):
    """How a task finds its skill (001 §5)."""

    algorithm: AlgorithmSetting = Field(
        default="auto",
        description="auto: keyword if every skill declares keywords, else ranked, "
        "which looks at all words.",
    )
    min_score: Ratio = Field(
        default=0.2, description="Skills that score below this are not considered."
    )
    max_results: Count = Field(
        default=3, description="The most candidates that an ambiguous answer lists."
    )
    ambiguity_threshold: Ratio = Field(
        default=0.1,
        description="If the best two scores differ by less, the answer is ambiguous.",
    )


class Search(Section):
    """What `search_skills` returns (000 §3.2)."""

    limit: Count = Field(default=10, description="The most skills in one answer.")
    threshold: Ratio = Field(
        default=0.2,
        description="Of more than five hits, those below this share of the best score "
        "are left out.",
    )


class Embedding(Section):
    """Whether a model compares meanings beside the words (000 §6.3)."""

    provider: EmbeddingProvider = Field(
        default="none",
        description="Who turns texts into vectors. none: nobody, and nothing leaves "
        "this machine.",
    )
    model: str = Field(
        default="",
        description="The model; without one, `text-embedding-3-small` of openai or "
        "`gemini-embedding-001` of gemini.",
    )
    base_url: str = Field(
        default="",
        pattern=PLAIN_ADDRESS,
        description="The address above `/embeddings`; without one, the provider's own.",
    )
    api_key_env: str = Field(
        default="",
        pattern=VARIABLE_NAME,
        description="The environment variable that holds the key; without one, "
        "`OPENAI_API_KEY` or `GEMINI_API_KEY`.",
    )
    dimensions: Dimensions = Field(
        default=0, description="How long a vector is; 0 leaves it to the model."
    )
    timeout_seconds: Patience = Field(
        default=2.0,
        description="Seconds that an agent waits for the vector of its task; later the "
        "words decide alone.",
    )
    batch_size: Count = Field(
        # To read the reply of 64 long vectors takes 10 ms, in which nothing else runs.
        default=32,
        description="The most skills in one request.",
    )
    weight: Ratio = Field(
        default=0.3,
        description="The share of the meaning in a score; the words have the rest.",
    )


class Scripts(Section):
    """What `run_script` may do (001 §8.4, §12.2)."""

    enabled: bool = Field(default=True, description="The switch for all scripts.")
    timeout_seconds: Seconds = Field(
        default=60,
        description="Seconds after which a script and all its children are ended.",
    )
    max_output_bytes: Bytes = Field(
        default=1_048_576,
        description="Bytes kept of stdout and of stderr each; the rest is dropped.",
    )
    allowed_extensions: tuple[Extension, ...] = Field(
        default=(".sh", ".ts", ".js", ".py"),
        description="File extensions that may run.",
    )
    runners: dict[Extension, CommandLine] = Field(
        default={
            ".sh": "bash",
            ".ts": "npx tsx",
            ".js": "node",
            ".py": "python3",
        },
        description="The command for each extension; the script's path is appended.",
    )
    sandbox: SandboxDemand = Field(
        default="best_effort",
        description="required: run nothing without a sandbox. best_effort: the "
        "strongest that this machine has. off: none.",
    )
    network: bool = Field(
        default=False, description="Whether a sandboxed script may use the network."
    )
    roots: tuple[Root, ...] = Field(
        default=(".",),
        description="Folders in which `cwd` may lie; `.` is the folder in which the "
        "server was started, unless that is your home or the top of the disk.",
    )
    roots_writable: bool = Field(
        default=False,
        description="Whether a sandboxed script may write into its `cwd`.",
    )
    readable: tuple[AbsolutePath, ...] = Field(
        default=(),
        description="More folders that a sandboxed script may read, such as that of a "
        "compiler.",
    )
    environment: tuple[EnvironmentName, ...] = Field(
        default=(),
        description="More variables of the server's environment that a script sees.",
    )
    max_memory_bytes: BytesOnDisk = Field(
        default=1_073_741_824,
        description="The most memory that each process of a script may ask for.",
    )
    max_file_bytes: BytesOnDisk = Field(
        default=67_108_864,
        description="The largest file that a script may write, and the most that its "
        "private folder holds where the sandbox can say so.",
    )
    max_processes: Count = Field(
        default=64, description="The most processes that a script may have at once."
    )


class Commands(Section):
    """What commands and entries of skills may do (000 §3.5, §6.2, 003)."""

    enabled: bool = Field(
        default=False,
        description="Whether `run_skill_command` and `run_skill_entry` are among the "
        "tools of packages.",
    )
    allowed: tuple[ProgramName, ...] = Field(
        default=("python", "python3", "uv", "node", "cat", "ls", "grep"),
        description="Programs that may be started, by their bare names.",
    )
    timeout_seconds: Seconds = Field(
        default=60,
        description="Seconds after which a command and all its children are ended.",
    )
    max_output_bytes: Bytes = Field(
        default=65_536,
        description="Bytes kept of stdout and of stderr each; the rest is dropped.",
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
