"""Name and version of the program, and the installation of this copy."""

__version__ = "0.1.0"

DISTRIBUTION = "skills-mcp-server"
"""The name on PyPI; `skills-mcp` there is another project."""

NOTHING_TO_SERVE = "No skills can be served yet"
"""Start of the instructions of a server without usable settings."""


def compose_requirement(extras: str = "") -> str:
    """The requirement by which this copy was installed (PEP 610), with other extras."""
    import json  # the version is printed without it
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        text = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    origin = json.loads(text or "{}")
    suffix = f"[{extras}]" if extras else ""
    url = origin.get("url", "")
    if "dir_info" in origin:
        return f"{unquote(urlsplit(url).path)}{suffix}"
    if vcs := origin.get("vcs_info"):
        revision = vcs.get("requested_revision")
        url = f"{vcs['vcs']}+{url}{f'@{revision}' if revision else ''}"
    return f"{DISTRIBUTION}{suffix} @ {url}" if url else f"{DISTRIBUTION}{suffix}"


def compose_install_command(extras: str) -> str:
    """The command that adds extras to this copy, with the installer that made it."""
    import shlex  # for a message only
    import sys
    from importlib.util import find_spec
    from pathlib import Path

    prefix = Path(sys.prefix)
    requirement = shlex.quote(compose_requirement(extras))
    python = shlex.quote(sys.executable)
    if (prefix / "uv-receipt.toml").is_file():
        return f"uv tool install --force {requirement}"
    if (prefix / "pipx_metadata.json").is_file():
        return f"pipx install --force {requirement}"
    if is_passing(sys.prefix):
        return f"uvx --from {requirement} skills-mcp"
    if find_spec("pip") is None:
        return f"uv pip install --python {python} {requirement}"
    return f"{python} -m pip install {requirement}"


def is_passing(path: str) -> bool:
    """Whether uv keeps it for `uvx` only; the next start may find another folder."""
    return bool({"archive-v0", "environments-v2"} & {*path.replace("\\", "/").split("/")})
