"""Short names of exported skills.

Rule: a name once given to a path stays as long as the path is exported.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from skills_mcp.skills import model


def assign_names(
    paths: Iterable[model.SkillPath],
    given: Mapping[model.SkillPath, str],
    occupied: Collection[str] = frozenset(),
) -> Mapping[model.SkillPath, str]:
    """Name each path by its shortest unique suffix, in any order of the paths.

    Digits are added only where no suffix is unique, such as for `api` beside `API`.

    Args:
        paths: All exported skills.
        given: Names of an earlier export.
        occupied: Names of folders that no export has written.

    >>> names = assign_names(["web/auth", "ui/react/auth", "pdf"], {})
    >>> sorted(names.values())
    ['pdf', 'react-auth', 'web-auth']
    """
    suffixes = {path: _spell_suffixes(path) for path in sorted(paths)}
    names = {path: given[path] for path in suffixes if model.is_standard_name(given.get(path, ""))}
    taken = {*names.values(), *occupied}
    for length in range(max(map(len, suffixes.values()), default=0)):
        spelled = {path: each[length] for path, each in suffixes.items() if length < len(each)}
        _add_unique(names, taken, spelled)
    _add_unique(names, taken, {p: s[-1] for p, s in suffixes.items() if s and p not in names})
    for path in suffixes.keys() - names.keys():
        name = model.append_digest(path)
        names[path] = model.append_digest(path, digits=model.LONG_DIGITS) if name in taken else name
    return {path: names[path] for path in suffixes}


def _add_unique(
    names: dict[model.SkillPath, str], taken: set[str], spelled: Mapping[model.SkillPath, str]
) -> None:
    counts = Counter(spelled.values())
    for path, name in spelled.items():
        is_free = counts[name] == 1 and name not in taken and model.is_standard_name(name)
        if is_free and path not in names:
            names[path] = name
            taken.add(name)


def _spell_suffixes(path: model.SkillPath) -> list[str]:
    """Spell the suffixes of a path, the shortest first; none for one in another script."""
    words = [model.hyphenate(part) for part in path.split("/")]
    if not words[-1]:
        return []
    return ["-".join(filter(None, words[at:])) for at in range(len(words) - 1, -1, -1)]
