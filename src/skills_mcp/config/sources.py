"""The rules between the keys of `sources`, which no key can check by itself."""

from collections.abc import Iterator, Mapping
from typing import Any

from skills_mcp.config.findings import name_key, show
from skills_mcp.config.model import Source
from skills_mcp.config.values import simplify_path

_TOP = ""
_BRANCH = Source().branch


def source_findings(sources: Any) -> Iterator[str]:
    """Say what is wrong with the sources of an operator, whatever else is wrong.

    What is no list of mappings is left to the checks of the keys.
    """
    mounted: dict[str, list[str]] = {}
    for number, source in enumerate(sources if isinstance(sources, tuple) else ()):
        if not isinstance(source, Mapping):
            continue
        name = name_key(("sources", number))
        yield from (f"{name} {finding}" for finding in _alone(source))
        mount = simplify_path(str(source.get("mount", _TOP)))
        mounted.setdefault(mount, []).append(name)
    for mount, names in mounted.items():
        if len(names) > 1:
            yield _same_place(names, mount)


def _alone(source: Mapping[str, Any]) -> Iterator[str]:
    folder, repo, ref = (source.get(key, "") != "" for key in ("folder", "repo", "ref"))
    branch = source.get("branch", _BRANCH) != _BRANCH
    if folder and repo:
        yield "has a folder and a repo: keep one, and add the other as a source"
    elif not folder and not repo:
        yield "needs a folder, or the URL of a repo"
    if branch and ref:
        yield "has a branch and a ref: keep the branch to follow it, the ref to stay"
    elif folder and not repo and (branch or ref):
        yield "has a folder, which is served as it is: a branch or a ref needs a repo"


def _same_place(names: list[str], mount: str) -> str:
    every = f"{', '.join(names[:-1])} and {names[-1]}"
    if mount == _TOP:
        return (
            f"{every} stand at the top of the tree: give all but one of them a mount, "
            "such as `mount: teams/web`"
        )
    return f"{every} have the mount {show(mount)}: give each a mount of its own"
