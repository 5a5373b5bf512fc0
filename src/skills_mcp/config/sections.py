"""Schema of the settings, with defaults and bounds."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from skills_mcp.config.values import (
    HEADER_NAME,
    ISSUER,
    PLAIN_ADDRESS,
    SAFE_ADDRESS,
    VARIABLE_NAME,
    AbsolutePath,
    AlgorithmSetting,
    Bytes,
    BytesOnDisk,
    CommandLine,
    Concurrency,
    ConfirmDemand,
    Count,
    Dimensions,
    Disclosure,
    Drain,
    EmbeddingProvider,
    EntryCount,
    EnvironmentName,
    Extension,
    FileCount,
    ForgeKind,
    GroupName,
    Identity,
    IdleMinutes,
    KeptDays,
    Minutes,
    MountPath,
    Name,
    Patience,
    Port,
    ProgramName,
    Ratio,
    ReadableUrl,
    ReplyCharacters,
    RetentionDays,
    Root,
    SandboxDemand,
    Seconds,
    SessionHours,
    Sha256,
    Skew,
    SpoolBytes,
    Subfolder,
    Synonym,
    ToolScope,
    Toolset,
    UploadMode,
    Verify,
)


class Section(BaseModel):
    """Base of all sections: frozen and strict, unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        defer_build=True,  # the first answer needs the defaults, and nothing checked
    )


class Refresh(Section):  # 001 §9.3
    """When repositories are fetched in the background."""

    enabled: bool = Field(
        default=True,
        description="Whether to fetch on a timer, not only when `refresh_skills` is called.",
    )
    interval_minutes: Minutes = Field(
        default=15,
        description="Minutes between two fetches, with a jitter of 10 per cent.",
    )


class Sync(Section):
    """How repositories and folders are synced, and what they must meet."""

    timeout_seconds: Seconds = Field(
        default=120, description="The timeout of one sync, in seconds."
    )
    allow_non_fast_forward: bool = Field(
        default=True,
        description="Whether to follow a branch whose history was rewritten "
        "(force-pushed) or moved back.",
    )
    allowed_signers: str = Field(
        default="",
        description="An allowed-signers file of ssh-keygen with the keys that may "
        "sign; if set, only signed content of repositories is "
        "served.",
    )
    revoked_signers: str = Field(
        default="", description="A file with the signing keys that are revoked."
    )
    verify: Verify = Field(
        default="commit",
        description="What must be signed: the commit, the tag that ref names, or both.",
    )
    offline: bool = Field(
        default=False,
        description="Whether to make no network request at all.",
    )
    watch: bool = Field(
        default=True,
        description="Whether folders are watched, so that an edit is served at once.",
    )


class Limits(Section):  # DESIGN §9
    """How much content is read."""

    max_files: FileCount = Field(
        default=200_000,
        description="The maximum number of files and folders read from one source.",
    )
    max_characters: Bytes = Field(
        default=250_000_000,
        description="The maximum number of characters in all skills of one source.",
    )
    max_file_bytes: Bytes = Field(
        default=8_388_608,
        description="The maximum size of a file of a repository; larger ones are left out.",
    )
    max_total_bytes: BytesOnDisk = Field(
        default=1_073_741_824,
        description="The maximum size of all files of a source together.",
    )
    max_download_bytes: BytesOnDisk = Field(
        default=2_147_483_648,
        description="The maximum size of one fetch.",
    )


class Source(Section):
    """A folder, a repository or an archive, and where its skills appear in the tree."""

    folder: str = Field(
        default="",
        description="A folder with skills; set only one of folder, repo and archive.",
    )
    repo: str = Field(
        default="",
        description="The URL of a Git repository with skills; set only one of folder, "
        "repo and archive.",
    )
    archive: str = Field(
        default="",
        description="The https URL or the path of a .tar.gz or .zip with skills; set "
        "only one of folder, repo and archive.",
    )
    sha256: Sha256 = Field(default="", description="The SHA-256 that the archive has to have.")
    branch: str = Field(
        default="",
        description="The branch to follow, or HEAD for the repository's default "
        "branch; without one `main`, or the default branch if there is no `main`.",
    )
    ref: str = Field(
        default="",
        description="Pin to a tag or full commit SHA instead of following a branch.",
    )
    subfolder: Subfolder = Field(
        default="",
        description="The folder of the source to serve; without one its `skills` "
        "if there is one, else the whole source.",
    )
    everywhere: bool = Field(
        default=False,
        description="Whether packages and rule files outside of the folders where "
        "skills usually begin are served, too.",
    )
    plugins: tuple[Name, ...] = Field(
        default=(),
        description="Names or patterns of plugins of the source; if set, only their "
        "skills are served.",
    )
    mount: MountPath = Field(
        default="",
        description="Where its skills appear in the tree, such as `teams/web`; "
        "without one, at the top.",
    )
    allow_non_fast_forward: bool | None = Field(
        default=None,
        description="Overrides sync.allow_non_fast_forward for this repository.",
    )
    allowed_signers: str | None = Field(
        default=None,
        description="Overrides sync.allowed_signers for this repository; an empty "
        "text requires no signature.",
    )
    revoked_signers: str | None = Field(
        default=None, description="Overrides sync.revoked_signers for this repository."
    )
    verify: Verify | None = Field(
        default=None, description="Overrides sync.verify for this repository."
    )


class Matching(Section):  # 001 §5
    """How a task is matched to a skill."""

    algorithm: AlgorithmSetting = Field(
        default="auto",
        description="keyword compares declared keywords; ranked compares all "
        "words of a skill; auto is keyword if every skill is a rule file with "
        "keywords, else ranked.",
    )
    min_score: Ratio = Field(
        default=0.2,
        description="The minimum score of a match: with keyword also of each "
        "candidate, with ranked of the best one.",
    )
    max_results: Count = Field(
        default=3,
        description="keyword: the maximum number of candidates in an ambiguous answer.",
    )
    max_candidates: Count = Field(
        default=5,
        description="ranked: the maximum number of candidates in an ambiguous answer.",
    )
    ambiguity_threshold: Ratio = Field(
        default=0.1,
        description="keyword: if the two best scores differ by less than this, the "
        "answer is ambiguous. ranked: the highest chance of being wrong that a "
        "single answer may have.",
    )


class Routing(Section):
    """What the ranked algorithm knows of the words of an organisation."""

    synonyms: tuple[Synonym, ...] = Field(
        default=(),
        max_length=1000,
        description="Words that mean the same here: `rfc = request for change` for an "
        "abbreviation, `outage, incident` for words near to each other, "
        "`cobalt > billing` if only the left leads to the right.",
    )


class Search(Section):  # 000 §3.2
    """What `search_skills` returns."""

    limit: Count = Field(default=10, description="The maximum number of skills in one answer.")
    threshold: Ratio = Field(
        default=0.2,
        description="If there are more than five results, those below this share "
        "of the best score are dropped.",
    )


class Embedding(Section):  # 000 §6.3
    """Whether an embedding model compares meanings, besides the words."""

    provider: EmbeddingProvider = Field(
        default="none",
        description="The provider of embeddings. none: no embeddings; no text leaves this machine.",
    )
    model: str = Field(
        default="",
        description="The embedding model; without one, `text-embedding-3-small` "
        "of openai or `gemini-embedding-001` of gemini.",
    )
    base_url: str = Field(
        default="",
        pattern=PLAIN_ADDRESS,
        description="The base URL, to which `/embeddings` is added; without one, "
        "the provider's own.",
    )
    api_key_env: str = Field(
        default="",
        pattern=VARIABLE_NAME,
        description="The environment variable that holds the API key; without "
        "one, `OPENAI_API_KEY` or `GEMINI_API_KEY`.",
    )
    dimensions: Dimensions = Field(
        default=0, description="The length of a vector; 0 takes the model's default."
    )
    timeout_seconds: Patience = Field(
        default=2.0,
        description="Seconds to wait for the vector of a task; after that only the words count.",
    )
    batch_size: Count = Field(
        # To read the reply of 64 long vectors takes 10 ms, in which nothing else runs.
        default=32,
        description="The maximum number of skills in one request.",
    )
    weight: Ratio = Field(
        default=0.3,
        description="The weight of the embedding in a score, from 0 to 1; the words have the rest.",
    )


class Scripts(Section):  # 001 §8.4, §12.2
    """What `run_script` may do, and in which sandbox."""

    enabled: bool = Field(default=True, description="Whether scripts may run at all.")
    timeout_seconds: Seconds = Field(
        default=60,
        description="The timeout of a script, in seconds; its child processes are ended with it.",
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
        description="required: refuse scripts if no sandbox confines them. "
        "best_effort: the strongest sandbox of this machine. off: no "
        "sandbox.",
    )
    confirm: ConfirmDemand = Field(
        default="never",
        description="always: the client asks its user before each run of a script, a "
        "command or an entry. if_possible: the same, but a client that "
        "cannot ask runs it. never: only the client itself decides.",
    )
    network: bool = Field(
        default=False, description="Whether a sandboxed script may use the network."
    )
    roots: tuple[Root, ...] = Field(
        default=(".",),
        description="Folders that `cwd` may be in; `.` is the folder in which the "
        "server was started, unless that is your home or the root of "
        "the disk.",
    )
    roots_writable: bool = Field(
        default=False,
        description="Whether a sandboxed script may write to its `cwd`.",
    )
    readable: tuple[AbsolutePath, ...] = Field(
        default=(),
        description="More folders that a sandboxed script may read, such as that of a compiler.",
    )
    environment: tuple[EnvironmentName, ...] = Field(
        default=(),
        description="More environment variables of the server that a script may see.",
    )
    max_memory_bytes: BytesOnDisk = Field(
        default=1_073_741_824,
        description="The maximum memory of each process of a script.",
    )
    max_file_bytes: BytesOnDisk = Field(
        default=67_108_864,
        description="The maximum size of a file that a script writes and, if the "
        "sandbox can limit it, of its private folder.",
    )
    max_processes: Count = Field(
        default=64, description="The maximum number of processes of a script at once."
    )


class Commands(Section):  # 000 §3.5, §6.2, 003
    """What the commands and entry commands of packages may do."""

    enabled: bool = Field(
        default=False,
        description="Whether the tools of packages include `run_skill_command` "
        "and `run_skill_entry`.",
    )
    allowed: tuple[ProgramName, ...] = Field(
        default=("python", "python3", "uv", "node", "cat", "ls", "grep"),
        description="Names of programs that may be started, without a path.",
    )
    timeout_seconds: Seconds = Field(
        default=60,
        description="The timeout of a command, in seconds; its child processes are ended with it.",
    )
    max_output_bytes: Bytes = Field(
        default=65_536,
        description="Bytes kept of stdout and of stderr each; the rest is dropped.",
    )


class Analytics(Section):  # 001 §10
    """Which events are recorded, what they contain, and where they are sent."""

    enabled: bool = Field(default=False, description="Whether to record events.")
    endpoint: str = Field(
        default="",
        pattern=SAFE_ADDRESS,
        description="The URL that events are posted to; without one they stay on this machine.",
    )
    token_file: str = Field(
        default="",
        description="A file with the token that the endpoint asks for, sent as "
        "`Authorization: Bearer`; without one, that of the variable "
        "`ANALYTICS_TOKEN`, or none.",
    )
    heartbeats: bool = Field(
        default=True,
        description="Whether the endpoint is told, once per "
        "`refresh.interval_minutes`, which commit this server serves.",
    )
    context: Disclosure = Field(
        default="hashed",
        description="How texts by agents are recorded, such as tasks. full: as "
        "they are. redacted: without secrets. hashed: as a hash, so "
        "that equal texts can be counted. none: not at all.",
    )
    identity: Identity = Field(
        default="hash",
        description="What server_id contains. user: the user name. hash: a "
        "pseudonym for the user. none: no user.",
    )
    group: GroupName = Field(
        default="",
        description="The team, site or other group whose events these are, for a report by group.",
    )
    max_spool_bytes: SpoolBytes = Field(
        default=10_485_760,
        description="The maximum size of events that wait to be sent; beyond it "
        "the oldest are dropped and counted.",
    )
    keep_days: KeptDays = Field(
        default=90,
        description="Days for which recorded events are kept on this machine; 0 "
        "deletes them once they are sent.",
    )


class Events(Section):
    """Where the server over HTTP keeps the events of all machines."""

    enabled: bool = Field(
        default=True,
        description="Whether `POST /events` takes events and keeps them.",
    )
    database: str = Field(
        default="",
        description="The URL of the database, such as "
        "`postgresql+psycopg://USER@HOST/DATABASE`; without one, the file "
        "`events.db` of SQLite in the home of skills-mcp.",
    )
    ingest_token_file: str = Field(
        default="",
        description="A file with the tokens that senders of events may use, one in a "
        "line; without one they sign in with the scope `skills:events`.",
    )
    retention_days: RetentionDays = Field(
        default=400, description="Days for which events are kept."
    )
    # A thousand machines with one token: 180 events of 500 bytes each a day are 90 MB,
    # and five days without the server come back within the quota of a day.
    sender_bytes_per_day: BytesOnDisk = Field(
        default=536_870_912,
        description="Bytes of events that one sender may have stored in a day, and in "
        "a minute a 32nd of it: a token of ingest_token_file, or a caller who has "
        "signed in.",
    )
    # Two senders at their quota; one of them leaves half of it to all others.
    total_bytes_per_day: BytesOnDisk = Field(
        default=1_073_741_824,
        description="The same for all senders together, at each replica.",
    )
    # As large as a source may be (limits.max_total_bytes): a new commit still fits.
    reserve_bytes: BytesOnDisk = Field(
        default=1_073_741_824,
        description="With SQLite, events are refused while its disk has fewer bytes "
        "left; the senders keep them.",
    )


class Visibility(Section):  # 000 §8.3, 002 §8.1
    """Which skills are served."""

    enabled_skills: tuple[Name, ...] = Field(
        default=(),
        description="Names or paths of skills; if set, only these are served.",
    )
    enabled_categories: tuple[Name, ...] = Field(
        default=(),
        description="Categories of skills; if set, and enabled_skills is not, "
        "only these are served.",
    )
    allow: tuple[Name, ...] = Field(
        default=(),
        description="Patterns of paths or names; if set, only skills that match one are served.",
    )
    deny: tuple[Name, ...] = Field(
        default=(),
        description="Patterns of paths or names of skills that are never served; "
        "wins over the other keys.",
    )


class ValidationRules(Section):
    """What `skills-mcp validate` reports."""

    select: tuple[Name, ...] = Field(
        default=(),
        description="Rules, or patterns of them; if set, only these are reported.",
    )
    ignore: tuple[Name, ...] = Field(
        default=(), description="Rules, or patterns of them, that are not reported."
    )
    baseline: Subfolder = Field(
        default="",
        description="A file with known findings, relative to this one; these are not reported.",
    )


class Catalog(Section):  # 002 §6.1
    """How long the list of skills for a system prompt may be."""

    max_entries: EntryCount = Field(
        default=200, description="The maximum number of skills in the list."
    )
    max_bytes: Bytes = Field(default=32_768, description="The maximum size of the list.")


class Assets(Section):  # 001 §12.3
    """How large an asset may be."""

    max_size_bytes: Bytes = Field(
        default=1_048_576,
        description="The maximum size; larger assets are refused before they are read.",
    )
    inline_text_max_bytes: Bytes = Field(
        default=10_240,
        description="With responses.format markdown, larger texts get a block of their own.",
    )


class Files(Section):  # 000 §3.4, 003
    """How much of a file `read_skill_file` returns."""

    max_bytes: Bytes = Field(
        default=65_536,
        description="The maximum number of bytes in one reply; the reply says "
        "whether there is more.",
    )


class Responses(Section):  # DESIGN §3.14
    """The format and the length of replies."""

    format: Literal["auto", "json", "markdown"] = Field(
        default="auto",
        description="json: one block. markdown: the text in a block of its own. auto: "
        "json, and markdown for hosts that show JSON badly.",
    )
    max_characters: ReplyCharacters = Field(
        default=40_000,
        description="The maximum number of characters of a reply, unless one text is "
        "longer; lists are cut, and say how to go on.",
    )


class Auth(Section):
    """Whose tokens sign a caller in."""

    issuer: ReadableUrl = Field(
        default="",
        pattern=ISSUER,
        description="The issuer of the tokens: the URL of your identity provider, "
        "exactly as its tokens have it.",
    )
    audience: str = Field(
        default="",
        description="What a token must have as its audience; without one, "
        "`http.base_url` and `/mcp`.",
    )
    clock_skew_seconds: Skew = Field(
        default=60,
        description="By how many seconds the clock of the issuer may differ.",
    )
    scope_claims: tuple[Name, ...] = Field(
        default=("scope", "scp"),
        description="The claims that hold the scopes of a token: each a text with "
        "spaces, or a list.",
    )
    scope_prefix: str = Field(
        default="",
        description="What the identity provider puts in front of `skills:read` and "
        "the other scopes, such as `api://skills/`.",
    )
    requested_scopes: tuple[Name, ...] = Field(
        default=("skills:read", "skills:feedback", "skills:refresh"),
        description="The scopes that clients are told to ask for.",
    )
    default_scopes: tuple[ToolScope, ...] = Field(
        default=(),
        description="The scopes of a token without any of `scope_claims`, for "
        "providers that have no scopes of your own.",
    )
    accept_id_tokens: bool = Field(
        default=False,
        description="Whether ID tokens are accepted, for providers whose access "
        "tokens look like them.",
    )


class Http(Section):  # 000 §7.2
    """How the server is reached with `--transport http`."""

    host: Name = Field(default="127.0.0.1", description="The address to listen on for MCP.")
    port: Port = Field(default=8000, description="The port of it; 0 takes any that is free.")
    operations_host: Name = Field(
        default="127.0.0.1",
        description="The address to listen on for `/healthz`, `/readyz` and `/metrics`.",
    )
    operations_port: Port = Field(
        default=8001, description="The port of it; 0 takes any that is free."
    )
    base_url: ReadableUrl = Field(
        default="",
        pattern=PLAIN_ADDRESS,
        description="The URL that clients use, without `/mcp`; without one, the host and the port.",
    )
    stateless: bool = Field(
        default=False,
        description="Whether no session is kept between requests, as several "
        "replicas without affinity need.",
    )
    trust_proxy_headers: bool = Field(
        default=False,
        description="Whether `X-Forwarded-For`, `-Host` and `-Proto` are believed; "
        "only behind a proxy that sets them.",
    )
    allowed_hosts: tuple[Name, ...] = Field(
        default=(),
        description="What a request may name as its `Host`, besides that of "
        "`base_url`; on a loopback address its names are allowed, too.",
    )
    allowed_origins: tuple[Name, ...] = Field(
        default=(),
        description="Origins of web pages whose requests are answered, besides that of `base_url`.",
    )
    anonymous: tuple[ToolScope, ...] | None = Field(
        default=None,
        description="The scopes of callers without sign-in, such as `[skills:read]`, "
        "or `[]` for none. Without it, a server that only its own machine reaches "
        "permits everything, and any other needs `http.auth.issuer`.",
    )
    allow_anonymous: bool = Field(
        default=False,
        description="Deprecated: `anonymous: [skills:read, skills:refresh, "
        "skills:feedback]` says the same.",
        json_schema_extra={"deprecated": True},
    )
    auth: Auth = Auth.model_construct()
    webhook_secret_file: str = Field(
        default="",
        description="A file with the secret of the webhook `/hooks/git`; without one "
        "there is no webhook.",
    )
    max_concurrent_requests: Concurrency = Field(
        default=64,
        description="The maximum number of requests that are answered at once; the "
        "others wait. One client has at most a quarter of them, or 8.",
    )
    max_waiting_requests: EntryCount = Field(
        default=1024,
        description="The maximum number of requests that wait, for at most 10 seconds; "
        "one more gets 503 and `Retry-After`.",
    )
    max_streams: Concurrency = Field(
        default=4096,
        description="The maximum number of streams that only wait for notices.",
    )
    max_body_bytes: Bytes = Field(
        default=4_194_304, description="The maximum size of the body of a request."
    )
    request_timeout_seconds: Seconds = Field(
        default=30,
        description="Seconds that a client has to send its request, and to read on "
        "while it is answered; then it is cut off.",
    )
    refreshes_per_minute: Count = Field(
        default=6,
        description="How often a caller may call `refresh_skills` in a minute.",
    )
    drain_seconds: Drain = Field(
        default=0,
        description="Seconds between the signal to end, when `/readyz` turns 503, and "
        "the last new connection: so long a load balancer takes to notice.",
    )
    shutdown_seconds: Drain = Field(
        default=8,
        description="Seconds that requests have to end after that.",
    )


class TrustedHeader(Section):
    """Which proxy says who uses the pages."""

    user: str = Field(
        default="",
        pattern=HEADER_NAME,
        description="The header in which the proxy names the person, such as "
        "`X-Forwarded-User`; it must remove what a browser sends under this name.",
    )
    groups: str = Field(
        default="",
        pattern=HEADER_NAME,
        description="The header with the person's groups, separated by commas.",
    )
    groups_claim: Name = Field(
        default="groups",
        description="The claim of `access` that these groups are.",
    )
    scopes: str = Field(
        default="",
        pattern=HEADER_NAME,
        description="The header with what else the person may do, such as "
        "`skills:report`, separated by commas or spaces; everyone may read.",
    )
    proxies: tuple[Name, ...] = Field(
        default=(),
        description="The addresses or networks of the proxy; the headers of other "
        "addresses are not believed.",
    )


class Web(Section):
    """The pages for people, and how they sign in."""

    enabled: bool = Field(default=True, description="Whether there are pages at `/`, and `/api`.")
    client_id: str = Field(
        default="",
        description="The client ID of the pages at `http.auth.issuer`, where people "
        "sign in with OpenID Connect. Its redirect URI is `http.base_url` and "
        "`/sign-in/callback`.",
    )
    client_secret_file: str = Field(
        default="",
        description="A file with the secret of this client; without one it is a public client.",
    )
    scopes: tuple[Name, ...] = Field(
        default=("openid", "profile"),
        description="The scopes to ask for; `openid` must be one. Every person who "
        "signs in may read; a scope such as `skills:refresh` permits more.",
    )
    session_hours: SessionHours = Field(
        default=12, description="Hours until a person has to sign in again."
    )
    idle_minutes: IdleMinutes = Field(
        default=120,
        description="Minutes without a request after which a session ends earlier.",
    )
    cookie_key_file: str = Field(
        default="",
        description="A file with the key that signs cookies: 64 digits of "
        "`openssl rand -hex 32`, the same for all replicas. Without one, "
        "`web.key` in the home of skills-mcp is made.",
    )
    forges: dict[str, ForgeKind] = Field(
        default={},
        description="The kind of forge by host, where the name of the host does not "
        "tell: the pages link each file to its source.",
    )
    history: int = Field(
        default=20,
        ge=0,
        le=200,
        description="How many commits of a branch the page of a skill looks through "
        "for changes; they are fetched when a person looks. 0 for none.",
    )
    trusted_header: TrustedHeader = TrustedHeader.model_construct()


class Upload(Section):
    """Whether people and programs may add skills, and where these go."""

    mode: UploadMode = Field(
        default="off",
        description="off: adding skills is not allowed. folder: into the folder of a "
        "source, where they are served at once. branch: onto a new branch of a "
        "repository, where they are reviewed.",
    )
    source: MountPath = Field(
        default="",
        description="The `mount` of the source that takes them; empty for the source at the top.",
    )


class Grant(Section):
    """Which skills some callers may see."""

    when: dict[str, tuple[Name, ...]] = Field(
        default={},
        description="Claims of a token, each with a list of values; every claim must "
        "have one of its values. Without any, the grant is for every caller.",
    )
    allow: tuple[Name, ...] = Field(
        default=(), description="Patterns of paths or names that they may see."
    )
    deny: tuple[Name, ...] = Field(
        default=(),
        description="Patterns of those that this grant does not give, although its `allow` fits.",
    )


class Config(Section):
    """Every setting, with its default."""

    sources: tuple[Source, ...] = Field(
        default=(), description="Folders and repositories to serve together."
    )
    discover: bool = Field(
        default=False,
        description="Whether to serve `.agents/skills` of the project and of your home, too.",
    )
    refresh: Refresh = Refresh.model_construct()
    sync: Sync = Sync.model_construct()
    limits: Limits = Limits.model_construct()
    visibility: Visibility = Visibility.model_construct()
    access: tuple[Grant, ...] = Field(
        default=(),
        description="Over HTTP: which callers see which skills, below `visibility`. A "
        "caller sees what any grant gives; without grants, everything.",
    )
    http: Http = Http.model_construct()
    web: Web = Web.model_construct()
    upload: Upload = Upload.model_construct()
    matching: Matching = Matching.model_construct()
    routing: Routing = Routing.model_construct()
    search: Search = Search.model_construct()
    embedding: Embedding = Embedding.model_construct()
    catalog: Catalog = Catalog.model_construct()
    validation: ValidationRules = ValidationRules.model_construct()
    toolsets: tuple[Toolset, ...] = Field(
        default=("core",),
        min_length=1,
        description="Which tools to offer. core: `get_skill` and related tools. "
        "packages: `search_skills` and related tools.",
    )
    responses: Responses = Responses.model_construct()
    assets: Assets = Assets.model_construct()
    files: Files = Files.model_construct()
    scripts: Scripts = Scripts.model_construct()
    commands: Commands = Commands.model_construct()
    analytics: Analytics = Analytics.model_construct()
    events: Events = Events.model_construct()
    trust_content_config: bool = Field(
        default=False,
        description="Whether the config.yaml of a remote repository may set more.",
    )


_EMPTY = {"const": ""}
_NOT_EMPTY = {"not": _EMPTY}
_UNTOUCHED = {"enum": ["", "main"]}
_UNSET = {"enum": ["", None]}

_KINDS_OF_SOURCE = [
    {
        "required": ["folder"],
        "properties": {
            "folder": _NOT_EMPTY,
            "repo": _EMPTY,
            "branch": _UNTOUCHED,
            "ref": _EMPTY,
            "allow_non_fast_forward": _UNSET,
            "allowed_signers": _UNSET,
            "revoked_signers": _UNSET,
            "verify": _UNSET,
        },
    },
    {
        "required": ["repo"],
        "properties": {
            "repo": _NOT_EMPTY,
            "folder": _EMPTY,
            "ref": _EMPTY,
            # A branch has no tag to verify.
            "verify": {"enum": ["commit", None]},
        },
    },
    {
        "required": ["repo", "ref"],
        "properties": {
            "repo": _NOT_EMPTY,
            "folder": _EMPTY,
            "branch": _UNTOUCHED,
            "ref": _NOT_EMPTY,
        },
    },
]
"""A folder, a followed branch, or a pinned repository."""


def json_schema() -> dict[str, Any]:
    for field in Config.model_fields.values():
        if isinstance(field.default, BaseModel):
            type(field.default).model_rebuild()  # its default is a part of the schema
    schema = _without_titles(Config.model_json_schema())
    schema["$defs"]["Source"]["anyOf"] = _KINDS_OF_SOURCE
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _without_titles(node: Any) -> Any:
    """Drop titles, as they only repeat the keys."""
    if isinstance(node, list):
        return [_without_titles(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    return {key: _without_titles(node[key]) for key in node if key != "title"}
