"""The JSON replies of the tool set `packages`.  Pure."""

import base64
import shlex
from typing import Any

from skills_mcp.library import (
    MAX_LISTED_FILES,
    FoundFiles,
    LoadedSkill,
    RanScript,
    ReadFile,
    ServedExamples,
    derive_sha256,
)
from skills_mcp.routing.search import Hit, SearchResult
from skills_mcp.server.replies import Reply, inventory, origin, reminder
from skills_mcp.skills.examples import FittingExample

_MAX_DESCRIPTION = 1024

_SOURCE_PATH = "source_path"  # `path` is SkillHub's word for the folder


def found_skills(found: SearchResult) -> Reply:
    """Return the reply of `search_skills`: the hits, and how many there are."""
    data: dict[str, Any] = {
        "skills": [_hit(hit) for hit in found.hits],
        "count": len(found.hits),
        "truncated": found.total > len(found.hits),
    }
    if not found.hits:
        data["message"] = "No skill fits. Go on without one, or try other words once."
    return Reply(data)


def loaded_skill(loaded: LoadedSkill) -> Reply:
    """Return the reply of `load_skill`: the text, the folder and the files."""
    skill = loaded.skill
    # Each commit has a folder of its own, so a known skill may have moved.
    path = str(skill.directory) if skill.directory else None
    data: dict[str, Any] = {
        "name": skill.name,
        "skill_path": skill.path,
        "path": path,
        "digest": loaded.digest,
    }
    if loaded.is_known:
        data |= reminder(skill)
        return Reply(data | origin(loaded.provenance, _SOURCE_PATH))
    files = list(skill.files)
    data |= {
        "description": skill.description,
        "category": skill.category or None,
        "scope": skill.scope,
        "instructions": loaded.instructions,
        **({"entry": shlex.join(skill.entry)} if skill.entry else {}),
        "files": files[:MAX_LISTED_FILES],
        "files_truncated": len(files) > MAX_LISTED_FILES,
        **inventory(skill.inventory),
        "sha256": derive_sha256(loaded.instructions),
        **origin(loaded.provenance, _SOURCE_PATH),
    }
    return Reply(data, prose="instructions")


def read_file(read: ReadFile) -> Reply:
    """Return the reply of `read_skill_file`: a part of a file, and its lines."""
    part = read.part
    data: dict[str, Any] = {"skill_path": read.skill.path, "file_path": read.file}
    if part.content.is_binary:
        encoded = base64.b64encode(part.content.data).decode("ascii")
        data |= {"content": encoded, "encoding": "base64"}
        data["mime_type"] = part.content.mime_type
    else:
        text = part.content.data.decode("utf-8")
        data |= {"content": text, "encoding": "utf-8"}
    data |= {"truncated": part.truncated, "size_bytes": part.size_bytes}
    lines = {
        "start_line": part.start_line,
        "end_line": part.end_line,
        "total_lines": part.total_lines,
        "next_line": read.next_line,
    }
    data |= {key: value for key, value in lines.items() if value is not None}
    if read.is_line_cut:
        data["line_truncated"] = True
    if read.resolved_from:
        data["resolved_from"] = read.resolved_from
    data |= {"sha256": derive_sha256(part.content.data), **origin(read.provenance)}
    return Reply(data, prose=None if part.content.is_binary else "content")


def found_files(found: FoundFiles) -> Reply:
    """Return the reply of `find_skill_files`."""
    files = [
        {"file": file, "size_bytes": found.skill.files[file].size_bytes}
        for file in found.files
    ]
    return Reply(
        {
            "skill_path": found.skill.path,
            "files": files,
            "truncated": found.truncated,
            "digest": found.digest,
            **origin(found.provenance),
        }
    )


def loaded_examples(served: ServedExamples) -> Reply:
    """Return the reply of `load_skill_examples`."""
    loaded = served.loaded
    data: dict[str, Any] = {
        "skill_path": loaded.skill.path,
        "examples": list(map(_example, loaded.examples)),
        "total": loaded.total,
    }
    if loaded.notes:
        data["notes"] = list(loaded.notes)
    return Reply(data | origin(served.provenance))


def command_result(ran: RanScript) -> Reply:
    """Return the reply of `run_skill_command`."""
    return Reply(_result(ran) | origin(ran.provenance))


def entry_result(ran: RanScript) -> Reply:
    """Return the reply of `run_skill_entry`, with the command that ran."""
    command = {"command": list(ran.words)}
    return Reply(_result(ran) | command | origin(ran.provenance))


def _result(ran: RanScript) -> dict[str, Any]:
    result = ran.result
    return {
        "stdout": result.stdout,
        "stderr": result.stderr,
        "exit_code": result.exit_code,
        "timeout": result.timed_out,
        "truncated": {
            "stdout": result.truncated_stdout,
            "stderr": result.truncated_stderr,
        },
        "sandbox": result.sandbox,
        "sha256": ran.sha256,
        "stdout_bytes": result.stdout_bytes,
        "stderr_bytes": result.stderr_bytes,
    }


def _shorten(text: str) -> str:
    """Cut a description that is longer than the standard allows."""
    is_long = len(text) > _MAX_DESCRIPTION
    return f"{text[: _MAX_DESCRIPTION - 1]}…" if is_long else text


def _example(fitting: FittingExample) -> dict[str, Any]:
    example = fitting.example
    return {
        "title": example.title,
        "file": example.file,
        "tags": list(example.tags),
        "score": fitting.score,
        "text": example.text,
        "truncated": example.truncated,
        "sha256": derive_sha256(example.text),
    }


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "name": hit.skill.name,
        "description": _shorten(hit.skill.description),
        "score": round(hit.score, 4),
        "category": hit.skill.category or None,
        "skill_path": hit.skill.path,
        "scope": hit.skill.scope,
        "reason": hit.reason,
    }
