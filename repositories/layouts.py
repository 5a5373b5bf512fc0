"""Whole repositories as their owners keep them, one for each way to lay skills out.

All texts are made of a few words, and are the same in every process.
"""

import json
import random
from collections.abc import Callable, Iterable, Mapping

from repositories.tree import Tree

Files = Mapping[str, bytes]

_ACTIONS = (
    *("check", "write", "review", "plan", "measure", "repair", "compare", "draft"),
    *("convert", "collect", "explain", "summarise", "translate", "sort", "archive"),
    *("estimate", "schedule", "publish", "migrate", "audit"),
)
_THINGS = (
    *("invoices", "forms", "contracts", "dashboards", "releases", "letters", "tickets"),
    *("recipes", "timetables", "drawings", "budgets", "interviews", "lessons"),
    *("shipments", "orders", "maps", "scores", "reports", "queries", "backups"),
    *("certificates", "surveys", "playlists", "catalogues", "menus", "leaflets"),
    *("permits", "rotas"),
)
_OCCASIONS = (
    *("before a merge", "after an incident", "for new customers", "under load"),
    *("in the warehouse", "at the end of a quarter", "during an audit", "by hand"),
    *("on a small screen", "without a network", "for a school", "with two teams"),
)

_HEAVY_BYTES = 9 * 1024 * 1024
"""More than a file of a repository may have by default."""

_DEEPER_THAN_SERVED = 40

_BIG_PACKAGES = 20_000
_BIG_FILES_EACH = 5.5


def package(name: str, **fields: object) -> bytes:
    """Return a `SKILL.md`; its description and text differ for each name."""
    return render({"name": name, "description": sentence(name), **fields}, name)


def rules(name: str, *keywords: str, **fields: object) -> bytes:
    """Return a rule file; without keywords it has the words of its name."""
    words = list(keywords) or name.split("-")
    return render({"description": sentence(name), "keywords": words, **fields}, name)


def render(fields: Mapping[str, object], name: str) -> bytes:
    """Return a Markdown file with a frontmatter."""
    # JSON is YAML, so nothing in a value can break out of its field.
    head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in fields.items())
    return f"---\n{head}---\n\n".encode() + prose(name)


def prose(name: str) -> bytes:
    """Return Markdown without a frontmatter."""
    lines = (f"# About {name}", "", sentence(name), "", f"- {sentence(name + ' 2')}")
    return ("\n".join(lines) + "\n").encode()


def sentence(name: str) -> str:
    """Return a sentence that is always the same for a name."""
    chance = random.Random(name)  # noqa: S311 - the same content in every run
    what = f"{chance.choice(_ACTIONS)} {chance.choice(_THINGS)}"
    return f"How to {what} {chance.choice(_OCCASIONS)}: what {name} adds."


def _packages(above: str, *names: str) -> dict[str, bytes]:
    """Return a package in a folder for each name, with a script and a reference."""
    found: dict[str, bytes] = {}
    for name in names:
        found[f"{above}{name}/SKILL.md"] = package(name)
        found[f"{above}{name}/references/details.md"] = prose(f"details of {name}")
        found[f"{above}{name}/scripts/run.sh"] = b"echo done\n"
    return found


def _several(*parts: Files, **more: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for part in parts:
        found |= part
    return found | more


def _skills_and_elsewhere() -> Tree:
    files = _several(
        _packages("skills/", "invoices", "letters", "tickets", "maps"),
        _packages("skills/office/", "menus", "rotas"),
        _packages("plugins/web/skills/", "forms", "drawings"),
        _packages("plugins/data/skills/", "queries"),
        _packages("plugins/cloud/storage/skills/", "backups", "certificates"),
        _packages("plugins/cloud/network/skills/", "permits"),
        _packages("preview/", "scores", "surveys"),
        _packages("skill-flavors/short/", "invoices-short"),
        _packages("skills/.system/", "installer"),
        _packages(".system/", "keeper"),
        _packages(".claude/skills/", "triage"),
        _packages("evals/cases/first/", "letters-eval"),
        _packages("tools/.hidden/more/", "concealed"),
        {
            "README.md": prose("read me"),
            "docs/guide.md": prose("guide"),
            "examples/SKILL.md": package("examples"),
        },
    )
    return Tree(files=files)


def _plugins_only() -> Tree:
    files = {"README.md": prose("read me")}
    for name in ("web", "data", "office"):
        about = {"name": name, "version": "1.0.0", "description": sentence(name)}
        files[f"plugins/{name}/.claude-plugin/plugin.json"] = _json(about)
        files[f"plugins/{name}/README.md"] = prose(name)
        files[f"plugins/{name}/commands/do.md"] = prose(f"{name} command")
        files[f"plugins/{name}/agents/helper.md"] = render(
            {"name": "helper", "description": sentence(f"{name} agent")}, name
        )
        files |= _packages(f"plugins/{name}/skills/", f"{name}-forms", f"{name}-maps")
    # A skill that is called like its plugin, as in many marketplaces.
    files |= _packages("plugins/audit-writing/skills/", "audit-writing")
    return Tree(files=files)


def _marketplace() -> Tree:
    plugins = [
        {"name": "lint", "source": "./tools/lint"},
        {"name": "deploy", "source": "packages/deploy", "skills": ["./abilities/"]},
        {"name": "whole", "source": "./", "skills": ["./own/alpha", "./own/beta"]},
        {"name": "remote", "source": {"source": "github", "repo": "acme/remote"}},
        {
            "name": "address",
            "source": {"source": "url", "url": "https://example.com/a"},
        },
        {"name": "outside", "source": "../x"},
        {"name": "absolute", "source": "/etc"},
        {"name": "missing", "source": "./nowhere"},
        {"name": "empty", "source": "./tools/empty"},
        {"name": "lint", "source": "./tools/lint"},
    ]
    files = _several(
        {
            ".claude-plugin/marketplace.json": _json(
                {"name": "acme", "owner": {"name": "Acme"}, "plugins": plugins}
            ),
            "tools/lint/.claude-plugin/plugin.json": _json({"name": "lint"}),
            "packages/chart/.claude-plugin/plugin.json": _json(
                {"name": "chart", "skills": "./abilities"}
            ),
            "tools/empty/README.md": prose("empty"),
            "README.md": prose("read me"),
        },
        _packages("tools/lint/skills/", "names", "spaces"),
        _packages("packages/deploy/abilities/", "canary", "rollback"),
        _packages("packages/chart/abilities/", "legend"),
        _packages("own/", "alpha", "beta", "gamma"),
        _packages("plugins/unlisted/skills/", "stray"),
    )
    return Tree(files=files)


def _marketplace_at_the_top() -> Tree:
    """One plugin whose folder is the repository, beside `skills/`."""
    listing = {
        "name": "acme",
        "metadata": {"pluginRoot": "./bundles"},
        "plugins": [
            {"name": "main", "source": "./"},
            {"name": "extra", "source": "extra"},
        ],
    }
    files = _several(
        {".claude-plugin/marketplace.json": _json(listing)},
        _packages("skills/", "forms", "maps"),
        _packages("bundles/extra/skills/", "scores"),
    )
    return Tree(files=files)


def _marketplace_that_is_broken() -> Tree:
    files = _several(
        {".claude-plugin/marketplace.json": b'{"plugins": [{"name": "lint", '},
        {"plugins/web/.claude-plugin/plugin.json": b"\xff\xfe{"},
        _packages("plugins/web/skills/", "forms"),
        _packages("tools/lint/skills/", "names"),
    )
    return Tree(files=files)


def _marketplace_of_wrong_types() -> Tree:
    plugins: list[object] = [
        7,
        {},
        {"name": "a/b", "source": "./tools/lint"},
        {"name": "numbered", "source": 7},
        {"name": "listed", "source": ["./tools/lint"]},
        {"name": "odd", "source": "./tools/odd", "skills": {"a": 1}},
        {"name": "..", "source": "./tools/lint"},
        {"name": "nul", "source": "./tools\u0000/lint"},
        {"name": "windows", "source": ".\\tools\\lint"},
    ]
    files = _several(
        {".claude-plugin/marketplace.json": _json({"plugins": plugins})},
        {"tools/odd/.claude-plugin/plugin.json": _json(["not", "an", "object"])},
        _packages("tools/lint/skills/", "names"),
        _packages("tools/odd/skills/", "strange"),
    )
    return Tree(files=files)


def _copies() -> Tree:
    """The same package in three places, and different ones of the same name."""
    files: dict[str, bytes] = {}
    for above in ("skills/", ".claude/skills/", "plugins/a/skills/"):
        files |= _packages(above, "pdf", "maps")
        files[f"{above}forms/SKILL.md"] = package("forms", note=f"of {above}")
    files["plugins/a/skills/maps/more.txt"] = b"The only file that differs.\n"
    files |= _packages("plugins/b/skills/", "pdf")
    files["preview/pdf/SKILL.md"] = package("pdf", note="a preview")
    return Tree(files=files)


def _twins() -> Tree:
    """Names of main files that some disks take for one."""
    files = {
        "both/SKILL.md": package("both"),
        "both/skill.md": package("both-lower"),
        "both/other.md": rules("other-rules"),
        "three/SKILL.md": package("three"),
        "three/Skill.md": package("three-title"),
        "three/skill.MD": package("three-suffix"),
        "lower/skill.md": package("lower"),
        "upper/SKILL.MD": package("upper"),
        "title/Skill.md": package("title"),
        "no-exact/Skill.md": package("no-exact-title"),
        "no-exact/skill.md": package("no-exact-lower"),
        "folders/Forms/SKILL.md": package("forms"),
        "folders/forms/SKILL.md": package("forms"),
        "plain/SKILL.md": package("plain"),
        "plain/readme.txt": b"a\n",
        "plain/README.txt": b"b\n",
    }
    return Tree(files=files)


def _half_broken() -> Tree:
    """Packages without a frontmatter, a description, or a legal name."""
    text = prose("half")
    files = {
        "whole/SKILL.md": package("whole"),
        "no-frontmatter/SKILL.md": text,
        "no-heading/SKILL.md": b"Compare the two lists. Then stop.\n",
        "no-text/SKILL.md": b"",
        "only-heading/SKILL.md": b"# Only a heading\n",
        "no-description/SKILL.md": render({"name": "no-description"}, "half"),
        "blank-description/SKILL.md": package("blank-description", description=" "),
        "no-name/SKILL.md": render({"description": sentence("no-name")}, "no-name"),
        "spaces/SKILL.md": package("A Name With Spaces"),
        "capitals/SKILL.md": package("CAPITALS"),
        "slash/SKILL.md": package("one/two"),
        "parents/SKILL.md": package("../../etc"),
        "long/SKILL.md": package("x" * 100),
        "other-name/SKILL.md": package("not-the-folder"),
        "unclosed/SKILL.md": b"---\nname: unclosed\n\n" + text,
        "a-list/SKILL.md": b"---\n- one\n- two\n---\n\n" + text,
        "colon/SKILL.md": b"---\nname: colon\ndescription: Use: it\n---\n" + text,
        "A Folder With Spaces/SKILL.md": package("a-folder-with-spaces"),
        "_index/SKILL.md": package("index"),
    }
    return Tree(files=files)


def _ordinary_markdown() -> Tree:
    names = [f"{action}-things" for action in _ACTIONS]
    files = _packages("", *names) | {
        "README.md": prose("read me"),
        "CHANGELOG.md": prose("changes"),
        "CONTRIBUTING.md": prose("contributing"),
        "index.md": prose("index"),
    }
    for number in range(400):
        files[f"docs/part-{number // 50}/page-{number}.md"] = prose(f"page {number}")
    for number in range(20):
        page = render({"title": f"Post {number}", "date": "2026-01-01"}, "post")
        files[f"blog/post-{number}.md"] = page
    return Tree(files=files)


def _ordinary_markdown_in_skills() -> Tree:
    files = _packages("skills/", *_THINGS[:8])
    for number in range(60):
        files[f"skills/notes/page-{number}.md"] = prose(f"page {number}")
    files["skills/README.md"] = prose("read me")
    files["skills/catalogue.md"] = prose("catalogue")
    files["docs/guide.md"] = prose("guide")
    return Tree(files=files)


def _rules_only() -> Tree:
    files = {
        "README.md": prose("read me"),
        "skills/_root.md": rules("everything", "rules"),
        "skills/ui/_index.md": rules("ui"),
        "skills/ui/react.md": rules("react", assets=[{"file": "app.tsx", "description": "An app"}]),
        "skills/ui/react/app.tsx": b"export {}\n",
        "skills/ui/forms.md": rules("forms"),
        "skills/data/queries.md": rules("queries"),
        "skills/data/broken.md": b"---\nkeywords: [a\n---\n",
        "skills/data/no-keywords.md": render({"description": "Something"}, "none"),
        "skills/data/no-frontmatter.md": prose("nothing"),
    }
    return Tree(files=files)


def _rules_and_packages() -> Tree:
    files = _several(
        _packages("skills/", "forms", "maps"),
        _packages("skills/ui/", "colours"),
        _packages("skills/ui/react/", "hooks"),
        {
            "skills/_root.md": rules("everything", "rules"),
            "skills/ui/_index.md": rules("ui"),
            "skills/ui/react.md": rules("react"),
            "skills/ui/plain.md": prose("plain"),
            "docs/rules/_index.md": rules("docs-rules"),
            "docs/rules/style.md": rules("style"),
            "docs/rules/plain.md": prose("plain"),
            "handbook/leave.md": rules("leave"),
        },
    )
    return Tree(files=files)


def _tags() -> Tree:
    files: dict[str, bytes] = {}
    for number, thing in enumerate(_THINGS):
        words = [thing, _ACTIONS[number % len(_ACTIONS)], "work"]
        declared = (
            {"tags": words},
            {"triggers": words},
            {"metadata": {"keywords": words}},
            {"metadata": {"skillhub": {"tags": words}}},
            {"metadata": {"triggers": {"keywords": words}}},
            {"tags": ", ".join(words)},
        )[number % 6]
        files[f"skills/{thing}/SKILL.md"] = package(thing, **declared)
    return Tree(files=files)


def _links() -> Tree:
    files = _packages("skills/", "forms", "maps") | {
        "shared/notes.md": prose("notes"),
        "shared/style.md": rules("style"),
        "elsewhere/scores/SKILL.md": package("scores"),
        "skills/linked-main/notes.txt": b"beside a link\n",
    }
    links = {
        "skills/linked-folder": "../elsewhere/scores",
        "skills/linked-rules.md": "../shared/style.md",
        "skills/linked-main/SKILL.md": "../../elsewhere/scores/SKILL.md",
        "skills/forms/notes.md": "../../shared/notes.md",
        "skills/forms/folder": "../../shared",
        "skills/forms/gone.md": "nowhere.md",
        "skills/dangling.md": "nowhere.md",
        "skills/dangling": "nowhere",
        "skills/loop": "loop",
        "skills/loop.md": "loop.md",
        "skills/up": "..",
        "skills/maps/up": "../..",
        "skills/etc": "/etc",
        "skills/passwords.md": "/etc/passwd",
        ".claude/skills": "../skills",
        "plugins/web/skills": "../../skills",
        "other/SKILL.md": "../elsewhere/scores/SKILL.md",
    }
    return Tree(files=files, links=links)


def _package_is_the_repository() -> Tree:
    pages = {f"docs/page-{n}.md": prose(f"page {n}") for n in range(60)}
    text = package("browser") + b"Read [this](docs/page-7.md) and `helpers.py`.\n"
    files = _several(
        pages,
        _packages(".claude/skills/", "triage"),
        _packages("tests/", "letters-test"),
        {
            "SKILL.md": text,
            "README.md": prose("read me"),
            "config.yaml": b"{}\n",
            "helpers.py": b"print()\n",
            "scripts/run.sh": b"echo done\n",
            "src/other.py": b"print()\n",
            ".github/workflows/ci.yml": b"on: push\n",
            "docs/_index.md": prose("index"),
        },
    )
    return Tree(files=files)


def _linked_homes() -> Tree:
    files = _several(
        _packages("skills/", "forms"),
        _packages(".agents/skills/", "maps", "scores"),
        _packages("tools/", "queries"),
        {
            "AGENTS.md": prose("agents"),
            "skills/menus/SKILL.md": b"../../tools/queries/SKILL.md",
            ".claude/skills/queries": b"../../tools/queries\n",
            ".claude/skills/NOTICE": b"Read this.\n",
        },
    )
    links = {
        "CLAUDE.md": "AGENTS.md",
        "libforms.so": "libforms.so.1",
        ".claude/skills/maps": "../../.agents/skills/maps",
        ".claude/skills/rotas": "/elsewhere/rotas",
        ".codex/skills": "../.agents/skills",
        ".cursor": ".agents",
        "plugins/web/skills": "../../tools",
    }
    return Tree(files=files, links=links)


def _skills_is_a_link() -> Tree:
    return Tree(files=_packages("content/", "forms"), links={"skills": "content"})


def _submodules() -> Tree:
    files = _packages("skills/", "forms") | {
        ".gitmodules": b'[submodule "other"]\n\tpath = skills/other\n\turl = ../other\n'
    }
    return Tree(files=files, submodules=("skills/other", "vendor/skills"))


def _encodings() -> Tree:
    text = package("text").decode()
    rule = rules("rule").decode()
    files = {
        "plain/SKILL.md": text.encode(),
        "bom/SKILL.md": text.encode("utf-8-sig"),
        "crlf/SKILL.md": text.replace("\n", "\r\n").encode(),
        "cr/SKILL.md": text.replace("\n", "\r").encode(),
        "zero-byte/SKILL.md": text.encode() + b"before\0after\n",
        "zero-byte-in-head/SKILL.md": text.replace("How", "H\0ow").encode(),
        "invalid/SKILL.md": text.encode() + b"caf\xe9 \xff\n",
        "utf-16/SKILL.md": text.encode("utf-16"),
        "binary/SKILL.md": bytes(range(256)) * 4,
        "controls/SKILL.md": text.replace("How", "\x1b[31mHow").encode(),
        "no-end/SKILL.md": text.rstrip("\n").encode(),
        "rules/bom.md": rule.encode("utf-8-sig"),
        "rules/crlf.md": rule.replace("\n", "\r\n").encode(),
        "rules/invalid.md": rule.encode() + b"\xff\n",
        "rules/zero-byte.md": rule.encode() + b"a\0b\n",
    }
    return Tree(files=files)


def _names() -> Tree:
    """Names that not every system takes, and two spellings of one accent."""
    folders = (
        *("caf\u00e9", "cafe\u0301", "\u65e5\u672c\u8a9e", "smile-\U0001f600"),
        *("aux", "con", "com1", "ends-with-dot.", "ends-with-space ", "a:b", "q?"),
        *("star*", 'quote"', "back\\slash", "tab\tinside", "line\nbreak", "bell\x07"),
        *(os_name(b"invalid-\xff"), "x" * 200, "-dash", "~", "a b", "[x]", "#", "%41"),
        *("right-to-left-\u202e", "zero\u200bwidth", "...", " lead"),
    )
    files = {f"skills/{each}/SKILL.md": package("same-name") for each in folders}
    files |= {f"skills/rules/{each}.md": rules("same-name") for each in folders}
    files["skills/forms/SKILL.md"] = package("forms")
    files |= {f"skills/forms/{each}.txt": b"a\n" for each in folders}
    files |= {f"outside/{each}/SKILL.md": package("outside") for each in folders[:8]}
    return Tree(files=files)


def os_name(raw: bytes) -> str:
    """Return a name that is not UTF-8 as Python writes it."""
    return raw.decode("utf-8", "surrogateescape")


def _deep() -> Tree:
    deep = "/".join(f"d{number}" for number in range(_DEEPER_THAN_SERVED))
    files = {
        "skills/a/b/c/d/e/f/g/h/SKILL.md": package("eighth"),
        f"skills/{deep}/SKILL.md": package("too-deep"),
        f"skills/{deep}/rules.md": rules("too-deep-rules"),
        f"skills/{deep}/other/SKILL.md": package("deeper"),
        f"skills/forms/{deep}/data.txt": b"a\n",
        "skills/forms/SKILL.md": package("forms"),
        f"outside/{deep}/SKILL.md": package("outside-deep"),
    }
    return Tree(files=files)


def _heavy() -> Tree:
    long = package("long") + b"More of the same.\n" * 100_000
    files = {
        "skills/forms/SKILL.md": package("forms"),
        "skills/forms/heavy.bin": bytes(_HEAVY_BYTES),
        "skills/forms/light.bin": bytes(1024),
        "skills/long/SKILL.md": long,
        "skills/rules/long.md": rules("long") + long,
        "skills/heavy/SKILL.md": package("heavy") + bytes(_HEAVY_BYTES),
        "video.mp4": bytes(_HEAVY_BYTES),
    }
    return Tree(files=files)


def _empty_folders() -> Tree:
    files = _packages("skills/", "forms") | {"skills/kept/.gitkeep": b""}
    folders = ("skills/empty", "skills/forms/empty", "plugins/web/skills", "docs")
    return Tree(files=files, empty_folders=folders)


def _nothing() -> Tree:
    """A repository of something else."""
    files = {"README.md": prose("read me"), "src/main.py": b"print(1)\n"}
    return Tree(files=files)


def _dependencies() -> Tree:
    """Folders of tools, some with packages of their own."""
    files = _several(
        _packages("skills/", "forms"),
        _packages("skills/forms/node_modules/lib/", "inside-a-package"),
        _packages("skills/node_modules/lib/skills/", "inside-skills"),
        _packages("node_modules/lib/skills/", "at-the-top"),
        _packages(".venv/lib/site-packages/lib/", "environment"),
        {
            "skills/forms/__pycache__/run.pyc": b"\0\1",
            "skills/forms/.env": b"KEY=secret\n",
            "skills/.DS_Store": b"\0",
            "skills/forms/.DS_Store": b"\0",
        },
    )
    return Tree(files=files)


def _package_at_the_top() -> Tree:
    files = {
        "SKILL.md": package("top"),
        "references/a.md": prose("a"),
        "skills/inner/SKILL.md": package("inner"),
        "plugins/web/skills/forms/SKILL.md": package("forms"),
        "README.md": prose("read me"),
    }
    return Tree(files=files)


def _nested_packages() -> Tree:
    files = _several(
        _packages("skills/", "outer"),
        _packages("skills/outer/", "inner"),
        _packages("skills/outer/inner/", "innermost"),
        _packages("skills/outer/evals/case/", "eval"),
        _packages("skills/outer/.hidden/", "concealed"),
        {"skills/outer/inner/rules.md": rules("inner-rules")},
    )
    return Tree(files=files)


def _file_beside_folder() -> Tree:
    files = _several(
        {
            "ui.md": rules("ui", assets=[{"file": "a.md", "description": "One"}]),
            "ui/a.md": rules("asset"),
            "ui/b.md": rules("hidden"),
            "ui/deep/c.md": rules("hidden-deep"),
            "ui/deep/SKILL.md": package("deep"),
            "pdf.md": rules("pdf"),
            "docs.md": prose("docs"),
            "docs/rules.md": rules("docs-rules"),
            "docs/plain.md": prose("plain"),
            "_index.md": rules("index"),
            "_index/x.md": rules("x"),
        },
        _packages("", "pdf"),
    )
    return Tree(files=files)


def _packages_anywhere() -> Tree:
    """A tree of categories without any `skills/`."""
    files = _several(
        _packages("", "forms"),
        _packages("office/", "letters", "menus"),
        _packages("office/travel/", "maps"),
        _packages(".claude/skills/", "triage"),
        _packages("office/.hidden/", "concealed"),
        _packages("web/skills/", "colours"),
        {"office/README.md": prose("office"), "office/notes.md": prose("notes")},
    )
    return Tree(files=files)


def _big() -> Tree:
    """As many packages as the largest public collections have."""
    chance = random.Random(20)  # noqa: S311 - the same content in every run
    files: dict[str, bytes] = {}
    total = round(_BIG_PACKAGES * _BIG_FILES_EACH)
    for number in range(_BIG_PACKAGES):
        thing, action = chance.choice(_THINGS), chance.choice(_ACTIONS)
        name = f"{action}-{thing}-{number}"
        above = f"skills/{thing}/{name}"
        files[f"{above}/SKILL.md"] = package(name) + _long_text(chance)
        # As in real collections: most have one file, and some have very many.
        others = total * (number + 1) // _BIG_PACKAGES - len(files)
        if number % 8 == 0 or number == _BIG_PACKAGES - 1:
            files |= _supporting(above, others)
    return Tree(files=files)


def _supporting(above: str, count: int) -> Iterable[tuple[str, bytes]]:
    return (
        (f"{above}/references/part-{number}.md", prose(f"{above} {number}"))
        for number in range(count)
    )


def _long_text(chance: random.Random) -> bytes:
    lines = (sentence(str(chance.random())) for _ in range(chance.randint(10, 60)))
    return "\n".join(lines).encode()


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode()


LAYOUTS: Mapping[str, Callable[[], Tree]] = {
    "skills and elsewhere": _skills_and_elsewhere,
    "plugins only": _plugins_only,
    "marketplace": _marketplace,
    "marketplace at the top": _marketplace_at_the_top,
    "marketplace that is broken": _marketplace_that_is_broken,
    "marketplace of wrong types": _marketplace_of_wrong_types,
    "copies": _copies,
    "twins": _twins,
    "half-broken packages": _half_broken,
    "ordinary Markdown": _ordinary_markdown,
    "ordinary Markdown in skills": _ordinary_markdown_in_skills,
    "rules only": _rules_only,
    "rules and packages": _rules_and_packages,
    "tags": _tags,
    "links": _links,
    "linked homes": _linked_homes,
    "package is the repository": _package_is_the_repository,
    "skills is a link": _skills_is_a_link,
    "submodules": _submodules,
    "encodings": _encodings,
    "names": _names,
    "deep": _deep,
    "heavy files": _heavy,
    "empty folders": _empty_folders,
    "nothing": _nothing,
    "dependencies": _dependencies,
    "package at the top": _package_at_the_top,
    "nested packages": _nested_packages,
    "file beside folder": _file_beside_folder,
    "packages anywhere": _packages_anywhere,
}
"""What makes each layout; none takes longer than a moment."""

BIG = "big"
"""The name of the layout that takes a minute, and half a gigabyte."""


def make_layout(name: str) -> Tree:
    """Return the tree of a layout."""
    return _big() if name == BIG else LAYOUTS[name]()
