"""The page of a file at its forge."""

import pytest

from skills_mcp.config.values import ForgeKind
from skills_mcp.content.git.remote import derive_page_url

FILE = "skills/ui/über uns.md"
ENCODED = "skills/ui/%C3%BCber%20uns.md"
COMMIT = "c" * 40


@pytest.mark.parametrize(
    "remote, page",
    [
        (
            "https://github.com/acme/skills.git",
            f"https://github.com/acme/skills/blob/{COMMIT}/{ENCODED}",
        ),
        (
            "git@github.com:acme/skills.git",
            f"https://github.com/acme/skills/blob/{COMMIT}/{ENCODED}",
        ),
        (
            "ssh://git@gitlab.acme.com:2222/platform/skills.git",
            f"https://gitlab.acme.com/platform/skills/-/blob/{COMMIT}/{ENCODED}",
        ),
        (
            "https://codeberg.org/acme/skills/",
            f"https://codeberg.org/acme/skills/src/commit/{COMMIT}/{ENCODED}",
        ),
        (
            "http://forgejo.acme.com:3000/acme/skills",
            f"http://forgejo.acme.com:3000/acme/skills/src/commit/{COMMIT}/{ENCODED}",
        ),
        (
            "https://bitbucket.org/acme/skills.git",
            f"https://bitbucket.org/acme/skills/src/{COMMIT}/{ENCODED}",
        ),
        (
            "https://dev.azure.com/acme/web/_git/skills",
            f"https://dev.azure.com/acme/web/_git/skills?path=/{ENCODED}&version=GC{COMMIT}",
        ),
        (
            "https://git.acme.com/acme/skills.git",
            f"https://git.acme.com/acme/skills/-/blob/{COMMIT}/{ENCODED}",
        ),
        ("https://code.acme.com/acme/skills.git", ""),
        ("file:///srv/skills.git", ""),
        ("/srv/skills.git", ""),
    ],
)
def test_each_forge_has_its_own_address_of_a_file(remote: str, page: str) -> None:
    forges: dict[str, ForgeKind] = {"git.acme.com": "gitlab"}

    assert derive_page_url(remote, COMMIT, FILE, forges) == page
