"""Settings: each key with its default, bounds, text, and who may set it and how.

The annotation of a key holds its type and bounds, its text, `SetBy` if others than
trusted content may or may not set it, and the `Variable` and `Option` that set it, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeGuard, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from skills_mcp.config.values import (
    AbsolutePath,
    AlgorithmSetting,
    Bytes,
    BytesOnDisk,
    CommandLine,
    ConfirmDemand,
    Count,
    Day,
    Disclosure,
    Drain,
    EmbeddingProvider,
    EntryCount,
    EnvironmentName,
    Extension,
    ForgeKind,
    GroupName,
    HeaderName,
    Identity,
    Issuer,
    Linger,
    MountPath,
    Name,
    Option,
    PlainAddress,
    Port,
    PowersDemand,
    PowersNote,
    ProgramName,
    Ratio,
    ReadableUrl,
    Root,
    SafeAddress,
    SandboxDemand,
    Seconds,
    SetBy,
    Sha256,
    ShareOrNumber,
    Subfolder,
    Synonym,
    ToolScope,
    Toolset,
    UploadMode,
    Variable,
    VariableName,
    Verify,
)

_Marker = TypeVar("_Marker", SetBy, Variable, Option, str)


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

    enabled: Annotated[
        bool, "Whether to fetch on a timer, not only when `refresh_skills` is called."
    ] = True
    interval_minutes: Annotated[
        int,
        Field(ge=1, le=7 * 24 * 60),
        Variable("REFRESH_INTERVAL_MINUTES", switches_on=True),
        "Minutes between two fetches, with a jitter of 10 per cent.",
    ] = 15


class Sync(Section):
    """The sync of repositories and folders, and their requirements."""

    timeout_seconds: Annotated[Seconds, "The timeout of one sync, in seconds."] = 120
    allow_non_fast_forward: Annotated[
        bool, "Whether to follow a branch whose history was rewritten (force-pushed) or moved back."
    ] = True
    allowed_signers: Annotated[
        str,
        "An allowed-signers file of ssh-keygen with the keys that may sign; if set, only signed "
        "content of repositories is served.",
    ] = ""
    revoked_signers: Annotated[
        str, "A file with the signing keys that are revoked, for every repository."
    ] = ""
    verify: Annotated[
        Verify, "What must be signed: the commit, the tag that ref names, or both."
    ] = "commit"
    offline: Annotated[
        bool,
        Option("--offline", "SKILLS_MCP_OFFLINE"),
        "Whether to make no network request at all.",
    ] = False
    max_removed: Annotated[
        ShareOrNumber,
        "How many skills of a source one commit may remove: a share below 1, or a number. A loss "
        "of three or more, and of over a tenth, that exceeds it waits for `skills-mcp sync "
        "--allow-removal`; unset, none waits.",
    ] = None
    powers: Annotated[
        PowersDemand,
        "enforce: a commit whose skills have powers that its `powers.yaml` does not allow, or that "
        "has no such file, is not served; the last one that was stays.",
    ] = "off"


class Limits(Section):  # DESIGN §9
    """How much content is read."""

    max_files: Annotated[
        int,
        Field(ge=1, le=10_000_000),
        "The maximum number of files and folders read from one source.",
    ] = 200_000
    max_file_bytes: Annotated[
        Bytes, "The maximum size of a file of a repository; larger ones are left out."
    ] = 8_388_608
    max_total_bytes: Annotated[
        BytesOnDisk,
        "The maximum size of all files of a source together; one fetch may have twice as many "
        "bytes.",
    ] = 1_073_741_824


class RolloutTarget(Section):
    """Who gets a version before the others."""

    groups: Annotated[
        tuple[Name, ...], "Over HTTP: callers whose claim `groups` has one of these."
    ] = ()
    share: Annotated[
        Ratio,
        "On standard input and output: a share of the machines, such as 0.1.",
    ] = 0.0


class Rollout(Section):
    """Another version of a source, for some of its users."""

    ref: Annotated[Name, "A branch, or a full commit SHA, which they get instead."]
    to: Annotated[RolloutTarget, "Who gets it: groups, a share of the machines, or both."]
    until: Annotated[Day, "The last day (UTC), after which all get the same again; or empty."] = ""

    def describe(self) -> str:
        """Who gets it, such as `group web, 10 % of the machines, until 2026-12-31`."""
        groups = [f"group {name}" for name in self.to.groups]
        share = [f"{self.to.share * 100:.4g} % of the machines"] if self.to.share else []
        return ", ".join([*groups, *share, *([f"until {self.until}"] if self.until else [])])


class Source(Section):
    """A folder, a repository or an archive, and where its skills appear in the tree."""

    folder: Annotated[str, "A folder with skills; set only one of folder, repo and archive."] = ""
    repo: Annotated[
        str, "The URL of a Git repository with skills; set only one of folder, repo and archive."
    ] = ""
    archive: Annotated[
        str,
        "The https URL or the path of a .tar.gz or .zip with skills; set only one of folder, "
        "repo and archive.",
    ] = ""
    sha256: Annotated[Sha256, "The SHA-256 that the archive has to have."] = ""
    branch: Annotated[
        str,
        "The branch to follow, or HEAD for the repository's default branch; without one `main`, "
        "or the default branch if there is no `main`.",
    ] = ""
    ref: Annotated[str, "Pin to a tag or full commit SHA instead of following a branch."] = ""
    subfolder: Annotated[
        Subfolder,
        "The folder of the source to serve; without one its `skills` if there is one, else the "
        "whole source.",
    ] = ""
    everywhere: Annotated[
        bool,
        "Whether packages and rule files outside of the folders where skills usually begin are "
        "served, too.",
    ] = False
    plugins: Annotated[
        tuple[Name, ...],
        "Names or patterns of plugins of the source; if set, only their skills are served.",
    ] = ()
    mount: Annotated[
        MountPath,
        "Where its skills appear in the tree, such as `teams/web`; without one, at the top.",
    ] = ""
    allowed_signers: Annotated[
        str | None,
        "Overrides sync.allowed_signers for this repository; an empty text requires no signature.",
    ] = None
    verify: Annotated[Verify | None, "Overrides sync.verify for this repository."] = None
    pins: Annotated[
        dict[Name, Name],
        "Skills that stay at a tag or full commit SHA: the path of a skill, or that of a folder "
        "with a slash at its end, as it is without `mount`.",
    ] = {}
    rollout: Annotated[
        Rollout | None, "Another version for some of its users, before all get it."
    ] = None


class Matching(Section):  # 001 §5
    """How a task is matched to a skill."""

    algorithm: Annotated[
        AlgorithmSetting,
        Option("--algorithm"),
        "keyword compares declared keywords; ranked compares all words of a skill; auto is "
        "keyword for rule files that declare keywords, and ranked for all other skills.",
    ] = "auto"
    min_score: Annotated[
        Ratio,
        "The minimum score of a match: with keyword also of each candidate, with ranked of the "
        "best one.",
    ] = 0.2
    max_results: Annotated[
        Count, "keyword: the maximum number of candidates in an ambiguous answer."
    ] = 3
    ambiguity_threshold: Annotated[
        Ratio,
        "keyword: if the two best scores differ by less than this, the answer is ambiguous. "
        "ranked: the highest chance of being wrong that a single answer may have.",
    ] = 0.1


class Routing(Section):
    """What the ranked algorithm knows of the words of an organisation."""

    synonyms: Annotated[
        tuple[Synonym, ...],
        Field(max_length=1000),
        "Words that mean the same here: `rfc = request for change` for an abbreviation, `outage, "
        "incident` for words near to each other, `cobalt > billing` if only the left leads to "
        "the right.",
    ] = ()


class Search(Section):  # 000 §3.2
    """What `search_skills` returns."""

    limit: Annotated[
        Count, Variable("SEARCH_LIMIT"), "The maximum number of skills in one answer."
    ] = 10
    threshold: Annotated[
        Ratio,
        Variable("SEARCH_THRESHOLD"),
        "If there are more than five results, those below this share of the best score are "
        "dropped.",
    ] = 0.2


class Embedding(Section):  # 000 §6.3
    """An embedding model, which compares meanings in addition to words."""

    provider: Annotated[
        EmbeddingProvider,
        Variable("EMBEDDING_PROVIDER"),
        "The provider of embeddings. none: no embeddings; no text leaves this machine.",
    ] = "none"
    model: Annotated[
        str,
        Variable("EMBEDDING_MODEL"),
        "The embedding model; without one, `text-embedding-3-small` of openai or "
        "`gemini-embedding-001` of gemini.",
    ] = ""
    base_url: Annotated[
        PlainAddress,
        "The base URL, to which `/embeddings` is added; without one, the provider's own.",
    ] = ""
    api_key_env: Annotated[
        VariableName,
        "The environment variable that holds the API key; without one, `OPENAI_API_KEY` or "
        "`GEMINI_API_KEY`.",
    ] = ""
    dimensions: Annotated[
        int, Field(ge=0, le=8192), "The length of a vector; 0 takes the model's default."
    ] = 0


class Scripts(Section):  # 001 §8.4, §12.2
    """What `run_script` may do, and in which sandbox."""

    enabled: Annotated[bool, "Whether scripts may run at all."] = True
    timeout_seconds: Annotated[
        Seconds, "The timeout of a script, in seconds; its child processes are ended with it."
    ] = 60
    max_output_bytes: Annotated[
        Bytes, "Bytes kept of stdout and of stderr each; the rest is dropped."
    ] = 1_048_576
    allowed_extensions: Annotated[tuple[Extension, ...], "File extensions that may run."] = (
        ".sh",
        ".ts",
        ".js",
        ".py",
    )
    runners: Annotated[
        dict[Extension, CommandLine],
        "The command for each extension; the script's path is appended.",
    ] = {".sh": "bash", ".ts": "npx tsx", ".js": "node", ".py": "python3"}
    sandbox: Annotated[
        SandboxDemand,
        SetBy.OPERATOR,
        "required: refuse scripts if no sandbox confines them. best_effort: the strongest "
        "sandbox of this machine. off: no sandbox.",
    ] = "best_effort"
    confirm: Annotated[
        ConfirmDemand,
        SetBy.OPERATOR,
        "always: the client asks its user before each run of a script, a command or an entry. "
        "if_possible: the same, but a client that cannot ask runs it. never: only the client "
        "itself decides.",
    ] = "never"
    network: Annotated[bool, SetBy.OPERATOR, "Whether a sandboxed script may use the network."] = (
        False
    )
    roots: Annotated[
        tuple[Root, ...],
        SetBy.OPERATOR,
        "Folders that `cwd` may be in; `.` is the folder in which the server was started, unless "
        "that is your home or the root of the disk.",
    ] = (".",)
    roots_writable: Annotated[
        bool, SetBy.OPERATOR, "Whether a sandboxed script may write to its `cwd`."
    ] = False
    readable: Annotated[
        tuple[AbsolutePath, ...],
        SetBy.OPERATOR,
        "More folders that a sandboxed script may read, such as that of a compiler.",
    ] = ()
    environment: Annotated[
        tuple[EnvironmentName, ...],
        SetBy.OPERATOR,
        "More environment variables of the server that a script may see.",
    ] = ()
    max_memory_bytes: Annotated[
        BytesOnDisk, SetBy.OPERATOR, "The maximum memory of each process of a script."
    ] = 1_073_741_824
    max_file_bytes: Annotated[
        BytesOnDisk,
        SetBy.OPERATOR,
        "The maximum size of a file that a script writes and, if the sandbox can limit it, of "
        "its private folder.",
    ] = 67_108_864
    # At once: Node.js and its tools start a dozen, and a fork bomb ends here.
    max_processes: ClassVar[int] = 64


class Commands(Section):  # 000 §3.5, §6.2, 003
    """What the commands and entry commands of packages may do."""

    enabled: Annotated[
        bool, "Whether the tools of packages include `run_skill_command` and `run_skill_entry`."
    ] = False
    allowed: Annotated[
        tuple[ProgramName, ...],
        Variable("ALLOWED_COMMANDS"),
        "Names of programs that may be started, without a path.",
    ] = ("python", "python3", "uv", "node", "cat", "ls", "grep")
    timeout_seconds: Annotated[
        Seconds,
        Variable("EXEC_TIMEOUT_SECONDS"),
        "The timeout of a command, in seconds; its child processes are ended with it.",
    ] = 60
    max_output_bytes: Annotated[
        Bytes,
        Variable("EXEC_MAX_OUTPUT_BYTES"),
        "Bytes kept of stdout and of stderr each; the rest is dropped.",
    ] = 65_536


class Analytics(Section):  # 001 §10
    """The recorded events: their content and their receiver."""

    enabled: Annotated[bool, "Whether to record events."] = False
    endpoint: Annotated[
        SafeAddress,
        Variable("ANALYTICS_ENDPOINT", switches_on=True),
        "The URL that events are posted to; without one they stay on this machine.",
    ] = ""
    token_file: Annotated[
        str,
        SetBy.OPERATOR,
        Variable("ANALYTICS_TOKEN_FILE"),
        "A file with the token that the endpoint asks for, sent as `Authorization: Bearer`; "
        "without one, that of the variable `ANALYTICS_TOKEN`, or none.",
    ] = ""
    context: Annotated[
        Disclosure,
        SetBy.OPERATOR,
        "How texts by agents are recorded, such as tasks. full: as they are. redacted: without "
        "secrets. hashed: as a hash, so that equal texts can be counted. none: not at all.",
    ] = "hashed"
    identity: Annotated[
        Identity,
        SetBy.OPERATOR,
        "What server_id contains. user: the user name. hash: a pseudonym for the user. none: no "
        "user.",
    ] = "hash"
    group: Annotated[
        GroupName,
        SetBy.OPERATOR,
        Variable("ANALYTICS_GROUP"),
        "The team, site or other group whose events these are, for a report by group.",
    ] = ""
    keep_days: Annotated[
        int,
        Field(ge=0, le=3650),
        SetBy.OPERATOR,
        "Days for which recorded events are kept on this machine; 0 deletes them once they are "
        "sent.",
    ] = 90


class Events(Section):
    """Where the server over HTTP keeps the events of all machines."""

    enabled: Annotated[
        bool,
        Variable("SKILLS_MCP_EVENTS_ENABLED"),
        "Whether `POST /events` takes events and keeps them.",
    ] = True
    database: Annotated[
        str,
        Variable("SKILLS_MCP_EVENTS_DATABASE"),
        "The URL of the database, such as `postgresql+psycopg://USER@HOST/DATABASE`; without "
        "one, the file `events.db` of SQLite in the home of skills-mcp.",
    ] = ""
    ingest_token_file: Annotated[
        str,
        Variable("SKILLS_MCP_EVENTS_INGEST_TOKEN_FILE"),
        "A file with the tokens that senders of events may use, one in a line; without one they "
        "sign in with the scope `skills:events`.",
    ] = ""
    retention_days: Annotated[
        int,
        Field(ge=1, le=3650),
        Variable("SKILLS_MCP_EVENTS_RETENTION_DAYS"),
        "Days for which events are kept.",
    ] = 400
    # A thousand machines with one token: 180 events of 500 bytes each a day are 90 MB,
    # and five days without the server come back within the quota of a day.
    sender_bytes_per_day: Annotated[
        BytesOnDisk,
        "Bytes of events that one sender may have stored in a day, and in a minute a 32nd of it: "
        "a token of ingest_token_file, or a caller who has signed in. All senders together may "
        "have twice as many, at each replica.",
    ] = 536_870_912


class Visibility(Section):  # 000 §8.3, 002 §8.1
    """Which skills are served."""

    enabled_skills: Annotated[
        tuple[Name, ...],
        Variable("SKILLHUB_ENABLED_SKILLS"),
        "Names or paths of skills; if set, only these are served.",
    ] = ()
    enabled_categories: Annotated[
        tuple[Name, ...],
        Variable("SKILLHUB_ENABLED_CATEGORIES"),
        "Categories of skills; if set, and enabled_skills is not, only these are served.",
    ] = ()
    allow: Annotated[
        tuple[Name, ...],
        "Patterns of paths or names; if set, only skills that match one are served.",
    ] = ()
    deny: Annotated[
        tuple[Name, ...],
        "Patterns of paths or names of skills that are never served; wins over the other keys.",
    ] = ()
    drafts: Annotated[
        bool,
        "Whether drafts are routed to, listed and exported like other skills; with access, "
        "a grant decides that.",
    ] = False


class ValidationRules(Section):
    """What `skills-mcp validate` reports."""

    select: Annotated[
        tuple[Name, ...], "Rules, or patterns of them; if set, only these are reported."
    ] = ()
    ignore: Annotated[tuple[Name, ...], "Rules, or patterns of them, that are not reported."] = ()
    baseline: Annotated[
        Subfolder, "A file with known findings, relative to this one; these are not reported."
    ] = ""
    max_tokens: Annotated[
        int,
        Field(ge=1, le=10_000_000),
        "The budget of a skill with the rules that it inherits or requires, in tokens; beyond it, "
        "composed-length warns.",
    ] = 25_000


class Catalog(Section):  # 002 §6.1
    """How long the list of skills for a system prompt may be."""

    max_entries: Annotated[EntryCount, "The maximum number of skills in the list."] = 200
    max_bytes: Annotated[Bytes, "The maximum size of the list."] = 32_768


class Assets(Section):  # 001 §12.3
    """How large an asset may be."""

    max_size_bytes: Annotated[
        Bytes, SetBy.LOWERING, "The maximum size; larger assets are refused before they are read."
    ] = 1_048_576
    inline_text_max_bytes: Annotated[
        Bytes,
        SetBy.LOWERING,
        "With responses.format markdown, larger texts get a block of their own.",
    ] = 10_240


class Files(Section):  # 000 §3.4, 003
    """How much of a file `read_skill_file` returns."""

    max_bytes: Annotated[
        Bytes,
        Variable("MAX_FILE_BYTES"),
        "The maximum number of bytes in one reply; the reply says whether there is more.",
    ] = 65_536


class Responses(Section):  # DESIGN §3.14
    """The format and the length of replies."""

    format: Annotated[
        Literal["auto", "json", "markdown"],
        "json: one block. markdown: the text in a block of its own. auto: json, and markdown for "
        "hosts that show JSON badly.",
    ] = "auto"
    max_characters: Annotated[
        int,
        Field(ge=10_000, le=500_000),
        "The maximum number of characters of a reply, unless one text is longer; lists are cut, "
        "and say how to go on.",
    ] = 40_000
    powers: Annotated[
        PowersNote,
        SetBy.OPERATOR,
        "note: a reply with a skill says for the agent's user which powers of the level review or "
        "above it has that `powers.yaml` does not allow. off: it does not.",
    ] = "off"


class Auth(Section):
    """Whose tokens sign a caller in."""

    issuer: Annotated[
        Issuer,
        Variable("SKILLS_MCP_HTTP_ISSUER"),
        "The issuer of the tokens: the URL of your identity provider, exactly as its tokens have "
        "it.",
    ] = ""
    audience: Annotated[
        str,
        Variable("SKILLS_MCP_HTTP_AUDIENCE"),
        "What a token must have as its audience; without one, `http.base_url` and `/mcp`.",
    ] = ""
    # Machines with a time server are much closer; a token lives for minutes at least.
    clock_skew_seconds: ClassVar[int] = 60
    scope_claims: Annotated[
        tuple[Name, ...],
        "The claims that hold the scopes of a token: each a text with spaces, or a list.",
    ] = ("scope", "scp")
    scope_prefix: Annotated[
        str,
        "What the identity provider puts in front of `skills:read` and the other scopes, such as "
        "`api://skills/`.",
    ] = ""
    requested_scopes: Annotated[
        tuple[Name, ...], "The scopes that clients are told to ask for."
    ] = ("skills:read", "skills:feedback", "skills:refresh")
    default_scopes: Annotated[
        tuple[ToolScope, ...],
        "The scopes of a token without any of `scope_claims`, for providers that have no scopes "
        "of your own.",
    ] = ()
    accept_id_tokens: Annotated[
        bool, "Whether ID tokens are accepted, for providers whose access tokens look like them."
    ] = False
    require_dpop: Annotated[
        bool,
        "Whether only tokens that are bound to a key of the client are accepted (DPoP, RFC 9449); "
        "without it, both kinds are.",
    ] = False


class Http(Section):  # 000 §7.2
    """How the server is reached with `--transport http`."""

    host: Annotated[
        Name,
        Variable("SKILLS_MCP_HTTP_HOST"),
        Option("--host"),
        "The address to listen on for MCP.",
    ] = "127.0.0.1"
    port: Annotated[
        Port,
        Variable("SKILLS_MCP_HTTP_PORT"),
        Option("--port"),
        "The port of it; 0 takes any that is free.",
    ] = 8000
    operations_host: Annotated[
        Name,
        Variable("SKILLS_MCP_HTTP_OPERATIONS_HOST"),
        Option("--operations-host"),
        "The address to listen on for `/healthz`, `/readyz` and `/metrics`.",
    ] = "127.0.0.1"
    operations_port: Annotated[
        Port,
        Variable("SKILLS_MCP_HTTP_OPERATIONS_PORT"),
        Option("--operations-port"),
        "The port of it; 0 takes any that is free.",
    ] = 8001
    base_url: Annotated[
        ReadableUrl,
        Variable("SKILLS_MCP_HTTP_BASE_URL"),
        Option("--base-url"),
        "The URL that clients use, without `/mcp`; without one, the host and the port.",
    ] = ""
    stateless: Annotated[
        bool,
        Variable("SKILLS_MCP_HTTP_STATELESS"),
        "Whether no session is kept between requests, as several replicas without affinity need.",
    ] = False
    trust_proxy_headers: Annotated[
        bool,
        "Whether `X-Forwarded-For`, `-Host` and `-Proto` are believed; only behind a proxy that "
        "sets them.",
    ] = False
    allowed_hosts: Annotated[
        tuple[Name, ...],
        Variable("SKILLS_MCP_HTTP_ALLOWED_HOSTS"),
        "What a request may name as its `Host`, besides that of `base_url`; on a loopback "
        "address its names are allowed, too.",
    ] = ()
    allowed_origins: Annotated[
        tuple[Name, ...],
        Variable("SKILLS_MCP_HTTP_ALLOWED_ORIGINS"),
        "Origins of web pages whose requests are answered, besides that of `base_url`.",
    ] = ()
    anonymous: Annotated[
        tuple[ToolScope, ...] | None,
        "The scopes of callers without sign-in, such as `[skills:read]`, or `[]` for none. "
        "Without it, a server that only its own machine reaches permits everything, and any "
        "other needs `http.auth.issuer`.",
    ] = None
    allow_anonymous: Annotated[
        bool,
        "Deprecated: `anonymous: [skills:read, skills:refresh, skills:feedback]` says the same.",
    ] = False
    auth: Auth = Auth.model_construct()
    webhook_secret_file: Annotated[
        str,
        Variable("SKILLS_MCP_HTTP_WEBHOOK_SECRET_FILE"),
        "A file with the secret of the webhook `/hooks/git`; without one there is no webhook.",
    ] = ""
    # One process answers on one core: more at once are no faster, and each holds memory.
    max_concurrent_requests: ClassVar[int] = 64
    # What 64 at once answer within the 10 seconds that a request waits at most.
    max_waiting_requests: ClassVar[int] = 1024
    # They only wait for notices, and each is an open file.
    max_streams: ClassVar[int] = 4096
    max_body_bytes: Annotated[Bytes, "The maximum size of the body of a request."] = 4_194_304
    # To send a request, and to read on while it is answered; then a client is cut off.
    request_timeout_seconds: ClassVar[int] = 30
    # Of one caller: enough for people who wait for a merge, too few for a loop.
    refreshes_per_minute: ClassVar[int] = 6
    drain_seconds: Annotated[
        Drain,
        "Seconds between the signal to end, when `/readyz` turns 503, and the last new "
        "connection: so long a load balancer takes to notice.",
    ] = 0
    shutdown_seconds: Annotated[Drain, "Seconds that requests have to end after that."] = 8


class TrustedHeader(Section):
    """Which proxy says who uses the pages."""

    user: Annotated[
        HeaderName,
        "The header in which the proxy names the person, such as `X-Forwarded-User`; it must "
        "remove what a browser sends under this name.",
    ] = ""
    groups: Annotated[HeaderName, "The header with the person's groups, separated by commas."] = ""
    # The usual name in tokens, so that one grant of `access` fits both.
    groups_claim: ClassVar[str] = "groups"
    scopes: Annotated[
        HeaderName,
        "The header with what else the person may do, such as `skills:report`, separated by "
        "commas or spaces; everyone may read.",
    ] = ""
    proxies: Annotated[
        tuple[Name, ...],
        "The addresses or networks of the proxy; the headers of other addresses are not believed.",
    ] = ()


class Web(Section):
    """The pages for people, and how they sign in."""

    enabled: Annotated[
        bool, Variable("SKILLS_MCP_WEB_ENABLED"), "Whether there are pages at `/`, and `/api`."
    ] = True
    client_id: Annotated[
        str,
        Variable("SKILLS_MCP_WEB_CLIENT_ID"),
        "The client ID of the pages at `http.auth.issuer`, where people sign in with OpenID "
        "Connect. Its redirect URI is `http.base_url` and `/sign-in/callback`.",
    ] = ""
    client_secret_file: Annotated[
        str,
        Variable("SKILLS_MCP_WEB_CLIENT_SECRET_FILE"),
        "A file with the secret of this client; without one it is a public client.",
    ] = ""
    scopes: Annotated[
        tuple[Name, ...],
        "The scopes to ask for; `openid` must be one. Every person who signs in may read; a "
        "scope such as `skills:refresh` permits more.",
    ] = ("openid", "profile")
    session_hours: Annotated[
        int,
        Field(ge=1, le=24 * 30),
        "Hours until a person has to sign in again; after a sixth of them without a request a "
        "session ends earlier.",
    ] = 12
    cookie_key_file: Annotated[
        str,
        Variable("SKILLS_MCP_WEB_COOKIE_KEY_FILE"),
        "A file with the key that signs cookies: 64 digits of `openssl rand -hex 32`, the same "
        "for all replicas. Without one, `web.key` in the home of skills-mcp is made.",
    ] = ""
    forges: Annotated[
        dict[str, ForgeKind],
        "The kind of forge by host, where the name of the host does not tell: the pages link "
        "each file to its source.",
    ] = {}
    history: Annotated[
        int,
        Field(ge=0, le=200),
        "How many commits of a branch the pages and `skills-mcp log` look through for changes; "
        "they are fetched when a person looks. 0 for none.",
    ] = 100
    trusted_header: TrustedHeader = TrustedHeader.model_construct()


class Upload(Section):
    """Whether people and programs may add skills, and where these go."""

    mode: Annotated[
        UploadMode,
        Variable("SKILLS_MCP_UPLOAD_MODE"),
        "off: adding skills is not allowed. folder: into the folder of a source, where they are "
        "served at once. branch: onto a new branch of a repository, where they are reviewed.",
    ] = "off"
    source: Annotated[
        MountPath,
        Variable("SKILLS_MCP_UPLOAD_SOURCE"),
        "The `mount` of the source that takes them; empty for the source at the top.",
    ] = ""


class Grant(Section):
    """Which skills some callers may see."""

    when: Annotated[
        dict[str, tuple[Name, ...]],
        "Claims of a token, each with a list of values; every claim must have one of its values. "
        "Without any, the grant is for every caller.",
    ] = {}
    allow: Annotated[tuple[Name, ...], "Patterns of paths or names that they may see."] = ()
    deny: Annotated[
        tuple[Name, ...],
        "Patterns of those that this grant does not give, although its `allow` fits.",
    ] = ()
    drafts: Annotated[bool, "Whether those that it gives may be drafts."] = False


class Share(Section):
    """Whether one server serves all windows of a user on standard input and output."""

    enabled: Annotated[
        bool,
        "Whether windows with the same settings share a server; `share: false` is short for it.",
    ] = True
    linger_minutes: Annotated[
        Linger, "How long the server stays after its last window has closed, in minutes."
    ] = 5


class Config(Section):
    """Every setting, with its default."""

    sources: Annotated[
        tuple[Source, ...], SetBy.OPERATOR, "Folders and repositories to serve together."
    ] = ()
    discover: Annotated[
        bool,
        SetBy.OPERATOR,
        Option("--discover", "SKILLS_MCP_DISCOVER"),
        "Whether to serve `.agents/skills` of the project and of your home, too.",
    ] = False
    refresh: Annotated[Refresh, SetBy.CONTENT] = Refresh.model_construct()
    sync: Annotated[Sync, SetBy.OPERATOR] = Sync.model_construct()
    limits: Annotated[Limits, SetBy.OPERATOR] = Limits.model_construct()
    visibility: Visibility = Visibility.model_construct()
    access: Annotated[
        tuple[Grant, ...],
        SetBy.OPERATOR,
        "Over HTTP: which callers see which skills, below `visibility`. A caller sees what any "
        "grant gives; without grants, everything.",
    ] = ()
    share: Annotated[Share, SetBy.OPERATOR] = Share.model_construct()
    http: Annotated[Http, SetBy.OPERATOR] = Http.model_construct()
    web: Annotated[Web, SetBy.OPERATOR] = Web.model_construct()
    upload: Annotated[Upload, SetBy.OPERATOR] = Upload.model_construct()
    matching: Annotated[Matching, SetBy.CONTENT] = Matching.model_construct()
    routing: Annotated[Routing, SetBy.CONTENT] = Routing.model_construct()
    search: Search = Search.model_construct()
    embedding: Annotated[Embedding, SetBy.OPERATOR] = Embedding.model_construct()
    catalog: Catalog = Catalog.model_construct()
    validation: Annotated[ValidationRules, SetBy.CONTENT] = ValidationRules.model_construct()
    toolsets: Annotated[
        tuple[Toolset, ...],
        Field(min_length=1),
        SetBy.OPERATOR,
        Option("--toolsets", "SKILLS_MCP_TOOLSETS"),
        "Which tools to offer. core: `get_skill` and related tools. packages: `search_skills` "
        "and related tools.",
    ] = ("core",)
    responses: Responses = Responses.model_construct()
    assets: Annotated[Assets, SetBy.CONTENT] = Assets.model_construct()
    files: Files = Files.model_construct()
    scripts: Scripts = Scripts.model_construct()
    commands: Annotated[Commands, SetBy.OPERATOR] = Commands.model_construct()
    analytics: Analytics = Analytics.model_construct()
    events: Annotated[Events, SetBy.OPERATOR] = Events.model_construct()
    trust_content_config: Annotated[
        bool, SetBy.OPERATOR, "Whether the config.yaml of a remote repository may set more."
    ] = False


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the settings with its annotation."""

    path: tuple[str, ...]
    field: FieldInfo
    set_by: SetBy
    """As its section, unless the key has its own."""

    def find(self, marker: type[_Marker]) -> _Marker | None:
        return _find(self.field, marker)


def _find(field: FieldInfo, marker: type[_Marker]) -> _Marker | None:
    return next((each for each in field.metadata if isinstance(each, marker)), None)


def is_section(kind: object) -> TypeGuard[type[Section]]:
    return isinstance(kind, type) and issubclass(kind, Section)


def _walk(
    model: type[Section] = Config, above: tuple[str, ...] = (), inherited: SetBy = SetBy.TRUSTED
) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        key = Key((*above, name), field, _find(field, SetBy) or inherited)
        yield key
        if is_section(field.annotation):
            yield from _walk(field.annotation, key.path, key.set_by)


KEYS: Mapping[tuple[str, ...], Key] = {key.path: key for key in _walk()}
"""All sections and keys, except those of the items of lists."""
