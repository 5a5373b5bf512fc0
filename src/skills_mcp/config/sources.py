"""The rules between the keys of `sources` and `sync`, which none can check alone.

Rule: a demand that could not be kept is refused, never forgotten.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from skills_mcp.config.findings import name_key, show
from skills_mcp.config.syncing import Source
from skills_mcp.config.values import simplify_path

_TOP = ""
_BRANCH = Source().branch

_OF_A_REPO = (
    *("branch", "ref", "allow_non_fast_forward"),
    *("allowed_signers", "revoked_signers", "verify"),
)
_OF_A_TAG = ("tag", "both")
_UNSET = ("", None)


def source_findings(sources: Any, sync: Any) -> Iterator[str]:
    """Say what is wrong with the sources of an operator, whatever else is wrong.

    What is no list of mappings is left to the checks of the keys.

    Args:
        sources: The list.
        sync: The section, which holds for a source that says nothing else.
    """
    mounted: dict[str, list[str]] = {}
    for number, source in enumerate(sources if isinstance(sources, tuple) else ()):
        if not isinstance(source, Mapping):
            continue
        name = name_key(("sources", number))
        yield from (f"{name} {finding}" for finding in _alone(source))
        if _has(source, "repo"):
            yield from (f"{name} {finding}" for finding in _unsigned(source, sync))
        mount = simplify_path(str(source.get("mount", _TOP)))
        mounted.setdefault(mount, []).append(name)
    for mount, names in mounted.items():
        if len(names) > 1:
            yield _same_place(names, mount)


def sync_findings(sources: Any, sync: Any) -> Iterator[tuple[str, str]]:
    """Yield each key of `sync` that asks for signatures of nobody, and what to do."""
    listed = sources if isinstance(sources, tuple) else ()
    sections = [each for each in (sync, *listed) if isinstance(each, Mapping)]
    if any(_has(each, "allowed_signers") for each in sections):
        return
    remedy = "name the file with the keys that may sign in sync.allowed_signers"
    if _shared(sync, "verify") in _OF_A_TAG:
        yield (
            "verify",
            f"sync.verify asks for signatures, but nobody may sign: {remedy}",
        )
    if _shared(sync, "revoked_signers") not in _UNSET:
        yield (
            "revoked_signers",
            f"sync.revoked_signers takes keys back, but nobody may sign: {remedy}",
        )


def _alone(source: Mapping[str, Any]) -> Iterator[str]:
    folder, repo = _has(source, "folder"), _has(source, "repo")
    given = [key for key in _OF_A_REPO if _has(source, key)]
    if folder and repo:
        yield "has a folder and a repo: keep one, and add the other as a source"
    elif not folder and not repo:
        yield "needs a folder, or the URL of a repo"
    if "branch" in given and "ref" in given:
        yield "has a branch and a ref: keep the branch to follow it, the ref to stay"
    elif folder and not repo and given:
        yield (
            f"has a folder, which is served as it is: take {', '.join(given)} away, or "
            "write a repo instead of the folder"
        )


def _unsigned(source: Mapping[str, Any], sync: Any) -> Iterator[str]:
    """Say which signature is demanded that nobody could give."""
    own = [key for key in ("revoked_signers", "verify") if _has(source, key)]
    verify = _decide(source, sync, "verify")
    if _decide(source, sync, "allowed_signers") in _UNSET:
        if own:
            yield (
                f"has {' and '.join(own)}, but nobody may sign: name the file with the "
                "keys that may in allowed_signers"
            )
    elif verify in _OF_A_TAG and not _has(source, "ref"):
        yield (
            f"follows a branch, which has no tag that could be signed (verify: "
            f"{verify}): let ref name a tag, or write `verify: commit`"
        )


def _has(source: Mapping[str, Any], key: str) -> bool:
    nothing = (*_UNSET, _BRANCH) if key == "branch" else _UNSET
    return source.get(key) not in nothing


def _decide(source: Mapping[str, Any], sync: Any, key: str) -> Any:
    """Return what holds for a source; what it says itself wins."""
    own = source.get(key)
    return _shared(sync, key) if own is None else own


def _shared(sync: Any, key: str) -> Any:
    return sync.get(key) if isinstance(sync, Mapping) else None


def _same_place(names: list[str], mount: str) -> str:
    every = f"{', '.join(names[:-1])} and {names[-1]}"
    if mount == _TOP:
        return (
            f"{every} stand at the top of the tree: give all but one of them a mount, "
            "such as `mount: teams/web`"
        )
    return f"{every} have the mount {show(mount)}: give each a mount of its own"
