"""The name of a package, and the folder that has to be called the same."""

import re
from collections.abc import Iterator

from skills_mcp.authoring.validation.head import Head
from skills_mcp.authoring.validation.kinds import name_kind, write_as_text
from skills_mcp.authoring.validation.rules import Finding, enumerate_shortly
from skills_mcp.skills.fields import text_of
from skills_mcp.text.appearance import normalize

MAX_NAME = 64

_FOREIGN = re.compile("[^a-z0-9-]")
_SEPARATORS = re.compile("[^a-z0-9]+")


def check_name(head: Head, folder: str | None) -> Iterator[Finding]:
    """Compare a name with the standard and with its folder.

    Args:
        head: The frontmatter.
        folder: What the folder is called; None if that is not the author's choice,
            as with the top of a repository.
    """
    line = head.line("name")
    name = normalize("NFKC", text_of(head.texts, "name"))
    suggestion = derive_name(name or folder or "")
    if not name:
        kind = name_kind(head.values.get("name"))
        is_other = kind not in {"", "empty"}
        reason = f"has a name that is {kind}, not a text" if is_other else "has no name"
        yield Finding("name", reason, f"add name: {suggestion or '…'}", line)
        return
    if kind := name_kind(head.values.get("name")):
        hint = write_as_text("name", head.values["name"], name)
        yield Finding("name", f"has a name that is {kind}, not a text", hint, line)
    folder = folder and normalize("NFKC", folder)
    misspelt = tuple(_spelling(name, _advise(suggestion, folder), line))
    yield from misspelt
    if folder and not misspelt:  # or the advice says what the folder shall be called
        yield from _compare(name, folder, line)


def derive_name(text: str) -> str:
    """Return the nearest name that the standard allows; it may be empty.

    >>> derive_name("Créer des PDF_Files")
    'creer-des-pdf-files'
    """
    plain = normalize("NFKD", text).encode("ascii", "ignore").decode()
    return _SEPARATORS.sub("-", plain.lower()).strip("-")[:MAX_NAME].rstrip("-")


def _spelling(name: str, hint: str, line: int) -> Iterator[Finding]:
    if len(name) > MAX_NAME:
        reason = f"has a name of {len(name)} characters; {MAX_NAME} are allowed"
        yield Finding("name-length", reason, hint, line)
    if foreign := dict.fromkeys(_FOREIGN.findall(name)):
        shown = enumerate_shortly(foreign)
        reason = f"has a name with other characters than a-z, 0-9 and hyphens: {shown}"
        yield Finding("name-characters", reason, hint, line)
    if name != name.strip("-") or "--" in name:
        reason = "has a name with a hyphen at an end, or two in a row"
        yield Finding("name-hyphens", reason, hint, line)


def _advise(suggestion: str, folder: str | None) -> str:
    if folder and folder == derive_name(folder):
        return f"write name: {folder}, as its folder is called"
    if not suggestion:
        return "write the name in Latin letters, such as name: review-code"
    also = ", and call its folder the same" if folder else ""
    return f"write name: {suggestion}{also}"


def _compare(name: str, folder: str, line: int) -> Iterator[Finding]:
    if name == folder:
        return
    reason = f"has the name {name!r} in a folder called {folder!r}"
    hint = f"rename the folder to {derive_name(name) or '…'}"
    if folder == derive_name(folder):
        hint = f"write name: {folder}, or {hint}"
    yield Finding("name-is-folder", reason, hint, line)
