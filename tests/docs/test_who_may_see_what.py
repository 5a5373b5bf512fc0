"""The grants of the page show what its table says."""

import json

import yaml

from skills_mcp.config import Layer, Settings
from skills_mcp.skills.access import derive_access
from tests.docs.pages import DOCS, block, section, tables
from tests.support import make_skill

PAGE = DOCS / "how-to" / "who-may-see-what.md"


def test_each_row_of_the_table_is_what_the_grants_show() -> None:
    layer = Layer("operator", yaml.safe_load(block(PAGE, "yaml")))
    grants = Settings((layer,)).resolve().access
    told = tables(section(PAGE, "## Write grants"))[0]

    for row in told:
        claims, *shown = row.items()
        access = derive_access(grants, json.loads(claims[1].strip("`")))
        seen = {
            path: "yes" if access.sees(make_skill(path.strip("`"))) else "no" for path, _ in shown
        }
        assert seen == dict(shown), claims

    assert len(told) == len(grants) + 2
