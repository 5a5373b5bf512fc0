"""The errors of skills-mcp, as one tree, each with a stable code.

```text
SkillsError                     code                  whose turn it is
├── ConfigError                 CONFIG_INVALID        operator
├── ContentError
│   ├── SyncError               SYNC_FAILED           server: it retries
│   │   ├── AccessRefusedError      AUTH_FAILED         operator: token, rights
│   │   ├── RemoteMissingError      REMOTE_NOT_FOUND    operator: URL, branch
│   │   ├── LimitExceededError      CONTENT_TOO_LARGE   operator: limits
│   │   ├── HistoryRewrittenError   HISTORY_REWRITTEN   operator: find out why
│   │   ├── SkillsRemovedError      SKILLS_REMOVED      operator: allow it once
│   │   ├── SignatureError          SIGNATURE_REFUSED   author: sign the commit
│   │   ├── PowersExceededError     POWERS_EXCEEDED     author: allow or remove the powers
│   │   └── UnreadableContentError  CONTENT_UNREADABLE  author: repair the skills
│   └── ContentUnavailableError CONTENT_UNAVAILABLE   server: it retries
├── InvalidArgumentsError       INVALID_ARGUMENTS     model
├── SkillNotFoundError          SKILL_NOT_FOUND       model
├── SkillDisabledError          SKILL_DISABLED        operator
├── AmbiguousNameError          SKILL_AMBIGUOUS       model: pass the path
├── RefreshLimitError           REFRESH_TOO_OFTEN     model: later
├── OutOfMemoryError            OUT_OF_MEMORY         operator: a higher limit
├── EventStoreError             EVENTS_UNAVAILABLE    server: senders come again
│   └── EventStoreFullError     EVENTS_DISK_FULL      operator: room on the disk
├── PackageRefusedError         PACKAGE_REFUSED       author: repair the archive
├── PackageNotAddedError        PACKAGE_NOT_ADDED     operator: the folder
├── UploadStoppedError          UPLOAD_STOPPED        author: send it again
├── SkillNotWrittenError        SKILL_NOT_WRITTEN     author: another path
├── ExportError                 EXPORT_FAILED         operator: the folder
├── HostFileError               HOST_FILE_REFUSED     operator: the file of a host
├── FileError
│   ├── InvalidPathError        INVALID_PATH          model
│   ├── UndeclaredFileError     FILE_NOT_FOUND        model
│   ├── MissingFileError        FILE_MISSING          author: add the file
│   ├── ChangedFileError        FILE_CHANGED          model: refresh_skills
│   ├── LfsPointerError         LFS_POINTER           author: keep it in Git
│   └── FileTooLargeError       FILE_TOO_LARGE        operator
└── ScriptRefusedError
    ├── ScriptsDisabledError    SCRIPTS_DISABLED      operator
    ├── UndeclaredScriptError   SCRIPT_NOT_DECLARED   model
    ├── AgentScriptError        SCRIPT_RUNS_IN_AGENT  model: run it yourself
    ├── MissingArgumentsError   MISSING_ARGUMENTS     model
    ├── ExtensionError          EXTENSION_NOT_ALLOWED operator
    ├── CommandsDisabledError   COMMANDS_DISABLED     operator
    ├── CommandError            COMMAND_NOT_ALLOWED   operator
    ├── RunnerError             RUNNER_NOT_CONFIGURED operator
    ├── RunnerNotFoundError     RUNNER_NOT_FOUND      operator
    ├── FolderNotAllowedError   CWD_NOT_ALLOWED       operator: scripts.roots
    ├── SandboxUnavailableError SANDBOX_UNAVAILABLE   operator: install one
    ├── TemporaryFolderError    NO_TEMPORARY_FOLDER   operator: TMPDIR
    ├── NotConfirmedError       NOT_CONFIRMED         user
    ├── BusyError               SCRIPTS_BUSY          model: later
    └── NoEntryError            ENTRY_NOT_DECLARED    model
```

Not errors: a file that is no skill (`Problem`), a task that no skill matches
(`NoMatch`), a script that fails or times out (`ScriptResult`).
The meaning of a code never changes; a message is for people and says what to do next.
"""

from typing import ClassVar


class SkillsError(Exception):
    """The base of all errors of skills-mcp, with a stable `code`."""

    code: ClassVar[str] = "SKILLS_ERROR"


class ConfigError(SkillsError):
    """The operator's configuration is invalid; the message lists every finding."""

    code = "CONFIG_INVALID"


class ContentError(SkillsError):
    """Content cannot be fetched, or there is none yet."""


class SyncError(ContentError):
    """A sync failed. The commit that was served is still served."""

    code = "SYNC_FAILED"

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        is_recalled: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        """The `Retry-After` of the host, if it sent one."""
        self.is_recalled = is_recalled
        """Whether this repeats the failure of an earlier sync, without a request."""


class AccessRefusedError(SyncError):
    """401 or 403: the token is missing or invalid, or may not read the repository."""

    code = "AUTH_FAILED"


class RemoteMissingError(SyncError):
    """The repository, branch, tag or commit does not exist, or the token hides it."""

    code = "REMOTE_NOT_FOUND"


class LimitExceededError(SyncError):
    """A commit is larger than `limits` allow; nothing was written."""

    code = "CONTENT_TOO_LARGE"


class HistoryRewrittenError(SyncError):
    """The branch no longer contains the served commit, as the settings demand."""

    code = "HISTORY_REWRITTEN"


class SignatureError(SyncError):
    """The commit has no signature by a key in `sync.allowed_signers`."""

    code = "SIGNATURE_REFUSED"


class PowersExceededError(SyncError):
    """Skills of the commit have powers that its `powers.yaml` does not allow."""

    code = "POWERS_EXCEEDED"


class SkillsRemovedError(SyncError):
    """The commit removes more skills than `sync.max_removed` allows."""

    code = "SKILLS_REMOVED"


class UnreadableContentError(SyncError):
    """No skill of the commit can be read, so the commit is not served."""

    code = "CONTENT_UNREADABLE"


class ContentUnavailableError(ContentError):
    """No content has been fetched yet: the first sync is running or has failed."""

    code = "CONTENT_UNAVAILABLE"


class InvalidArgumentsError(SkillsError):
    """A tool was called with arguments that its schema does not allow."""

    code = "INVALID_ARGUMENTS"


FILES_STEP = "find_skill_files lists all of them."
AGENTS_STEP = "list_skills or search_skills shows what there is."
"""The next steps in a message for agents; a command and a page name their own."""


class SkillNotFoundError(SkillsError):
    """No skill has this path."""

    code = "SKILL_NOT_FOUND"


class SkillDisabledError(SkillsError):
    """The operator's `visibility` settings hide this skill."""

    code = "SKILL_DISABLED"


class AmbiguousNameError(SkillsError):
    """Several skills have this name; their paths differ."""

    code = "SKILL_AMBIGUOUS"


class RefreshLimitError(SkillsError):
    """A caller of a shared server has refreshed as often as `http` allows."""

    code = "REFRESH_TOO_OFTEN"


class OutOfMemoryError(SkillsError):
    """The system gave no more memory: the limit of the process, or the machine's."""

    code = "OUT_OF_MEMORY"


class EventStoreError(SkillsError):
    """The database of events cannot be reached, or refuses a statement."""

    code = "EVENTS_UNAVAILABLE"


class EventStoreFullError(EventStoreError):
    """The disk of the database of events has less room than `limits.max_total_bytes`."""

    code = "EVENTS_DISK_FULL"


class PackageRefusedError(SkillsError):
    """An archive is unsafe, damaged or no skill; nothing was extracted."""

    code = "PACKAGE_REFUSED"


class PackageNotAddedError(SkillsError):
    """A package cannot be installed; existing files are unchanged."""

    code = "PACKAGE_NOT_ADDED"


class UploadStoppedError(SkillsError):
    """An upload took too long, or the server has ended it; nothing was added."""

    code = "UPLOAD_STOPPED"


class SkillNotWrittenError(SkillsError):
    """A new skill cannot be written there; nothing was changed."""

    code = "SKILL_NOT_WRITTEN"


class ExportError(SkillsError):
    """Skills cannot be written into a folder, or its lock cannot be read."""

    code = "EXPORT_FAILED"


class HostFileError(SkillsError):
    """A file of a host cannot be read or changed; it is unchanged."""

    code = "HOST_FILE_REFUSED"


class FileError(SkillsError):
    """A file of a skill cannot be served."""


class InvalidPathError(FileError):
    """The path could leave the skill's folder, so it was not looked up."""

    code = "INVALID_PATH"


class UndeclaredFileError(FileError):
    """Neither the skill nor its ancestors declare the file."""

    code = "FILE_NOT_FOUND"


class MissingFileError(FileError):
    """The file is declared, but it is not in the skill's folder."""

    code = "FILE_MISSING"


class ChangedFileError(FileError):
    """The file has changed since the skills were read."""

    code = "FILE_CHANGED"


class LfsPointerError(FileError):
    """The file is a Git LFS pointer; its content is not fetched."""

    code = "LFS_POINTER"


class FileTooLargeError(FileError):
    """The file is larger than `assets.max_size_bytes`."""

    code = "FILE_TOO_LARGE"


class ScriptRefusedError(SkillsError):
    """A script or command was refused; no program was started."""


class ScriptsDisabledError(ScriptRefusedError):
    """`scripts.enabled` is false."""

    code = "SCRIPTS_DISABLED"


class UndeclaredScriptError(ScriptRefusedError):
    """The skill does not declare this script."""

    code = "SCRIPT_NOT_DECLARED"


class AgentScriptError(ScriptRefusedError):
    """The script is declared for the agent's own shell, not for the server."""

    code = "SCRIPT_RUNS_IN_AGENT"


class MissingArgumentsError(ScriptRefusedError):
    """Required arguments are missing; the message lists them all."""

    code = "MISSING_ARGUMENTS"


class ExtensionError(ScriptRefusedError):
    """`scripts.allowed_extensions` does not list the script's extension."""

    code = "EXTENSION_NOT_ALLOWED"


class CommandsDisabledError(ScriptRefusedError):
    """`commands.enabled` is false."""

    code = "COMMANDS_DISABLED"


class CommandError(ScriptRefusedError):
    """`commands.allowed` does not list the program."""

    code = "COMMAND_NOT_ALLOWED"


class RunnerError(ScriptRefusedError):
    """`scripts.runners` has no command for the script's extension."""

    code = "RUNNER_NOT_CONFIGURED"


class RunnerNotFoundError(ScriptRefusedError):
    """The program of a run is not installed, or cannot be started."""

    code = "RUNNER_NOT_FOUND"


class FolderNotAllowedError(ScriptRefusedError):
    """`cwd` lies in none of the folders of `scripts.roots`."""

    code = "CWD_NOT_ALLOWED"


class SandboxUnavailableError(ScriptRefusedError):
    """`scripts.sandbox` is `required`, and this machine has none."""

    code = "SANDBOX_UNAVAILABLE"


class TemporaryFolderError(ScriptRefusedError):
    """The private folder of a run cannot be made or filled."""

    code = "NO_TEMPORARY_FOLDER"


class NotConfirmedError(ScriptRefusedError):
    """The user did not allow a run, or cannot be asked."""

    code = "NOT_CONFIRMED"


class BusyError(ScriptRefusedError):
    """The server runs and queues as many runs as it takes, or is ending."""

    code = "SCRIPTS_BUSY"


class NoEntryError(ScriptRefusedError):
    """The skill's frontmatter has no `entry`."""

    code = "ENTRY_NOT_DECLARED"
