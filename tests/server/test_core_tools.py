import base64
import hashlib
import json
from pathlib import Path
from typing import Any, get_args

import anyio
import anyio.to_thread
import pytest
from mcp_types import TextContent

from skills_mcp.events.spool import Spool
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.scripts.execution import CONFINING_TIERS, SandboxName
from tests.clients import Lifeline, SlowSource, ask, connected
from tests.packages import contents, write_package, write_pdf
from tests.server.conftest import branch_of
from tests.support import (
    SKILLS_CONTENT,
    Upstream,
    open_library,
    sha256_of,
    skill_text,
    spooled,
    write,
    write_skill,
)

# get_skill


@pytest.mark.core
@pytest.mark.spec("8.1")
async def test_a_match_has_exactly_the_documented_keys_in_their_order(
    library: SkillLibrary,
) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="a login component in react")

    assert list(reply) == [
        "skill_path",
        "score",
        "matched_keywords",
        "content",
        "assets",
        "scripts",
        "inherited_assets",
        "inherited_scripts",
        "digest",
        "sha256",
        "commit",
        "path",
    ]
    assert reply["skill_path"] == "ui/react/auth"
    assert reply["score"] == 0.6
    assert reply["matched_keywords"] == ["react", "login", "component"]


@pytest.mark.spec("6.1")
async def test_a_match_brings_the_rules_from_general_to_specific(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="a login component in react")

    headers = [line for line in reply["content"].split("\n") if line[:4] == "=== "]
    assert headers == [
        "=== GLOBAL RULES (from _root.md) ===",
        "=== UI (from ui/_index.md) ===",
        "=== UI > REACT (from ui/react/_index.md) ===",
        "=== UI > REACT > AUTH (from ui/react/auth.md) ===",
    ]


@pytest.mark.spec("8.1")
async def test_a_match_lists_its_own_files_and_the_inherited_ones(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="a login component in react")

    assert [list(asset) for asset in reply["assets"]] == [["file", "description", "type"]] * 3
    assert [list(script) for script in reply["scripts"]] == [
        ["file", "description", "execution", "args"]
    ] * 2
    assert reply["scripts"][1]["execution"] == "server"
    assert reply["scripts"][1]["args"][0] == {
        "name": "client_id",
        "description": "Client id registered at the identity provider, for example np-web-staging",
        "required": True,
    }
    assert [(a["file"], a["from"]) for a in reply["inherited_assets"]] == [
        ("assets/pull-request.md", "_root"),
        ("assets/design-tokens.json", "ui/_index"),
    ]
    assert reply["inherited_scripts"] == []


@pytest.mark.core
@pytest.mark.spec("8.1")
async def test_several_good_candidates_are_listed_for_the_caller_to_pick(
    library: SkillLibrary,
) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="auth")

    assert list(reply) == ["ambiguous", "candidates", "message"]
    assert reply["ambiguous"] is True
    assert reply["message"] == ("Multiple skills match. Specify your need or pick a skill_path.")
    assert reply["candidates"][1] == {
        "skill_path": "ui/react/auth",
        "score": 0.2,
        "description": "Login, logout, session handling and protected views in the React web app",
        "matched_keywords": ["auth"],
    }
    assert reply["candidates"][0]["skill_path"] == "api/auth"


@pytest.mark.core
@pytest.mark.spec("8.1")
async def test_a_task_that_no_skill_serves_is_no_error(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="zebra")

    assert list(reply.items()) == [
        ("no_match", True),
        ("message", "No skill matches the given context."),
    ]


@pytest.mark.parametrize("algorithm, least", [("keyword", 0.7), ("ranked", 1)])
async def test_a_task_without_a_match_gets_the_nearest_skills(algorithm: str, least: float) -> None:
    matching = {"algorithm": algorithm, "min_score": least, "max_results": 1}
    library = open_library(SKILLS_CONTENT, settings={"matching": matching})

    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="the auth of some tokens")
        first = reply["near"][0]["skill_path"]
        picked = await ask(client, "get_skill", context="auth", skill_path=first)

    assert list(reply) == ["no_match", "near", "message"]
    assert 1 < len(reply["near"]) <= 3
    for near in reply["near"]:
        assert list(near) == ["skill_path", "score", "description"]
        assert least / 4 <= near["score"] < least
        assert near["description"]
    assert "skill_path" in reply["message"]
    assert "go on without" in reply["message"]
    assert picked["skill_path"] == first


async def test_a_task_with_a_long_log_is_answered_and_explained_in_few_words(
    library: SkillLibrary,
) -> None:
    noise = "".join(f"{number:x}/{number * 7919:012x} ok\n" for number in range(9_000))
    task = f"add a login to the React app\n\n{noise}"[:199_900]
    token = "x" * 200_000

    async with connected(library) as client:
        reply = await ask(client, "get_skill", context=task)
        explained = await ask(client, "get_skill", context=task, explain=True)
        nothing = await ask(client, "get_skill", context=token, explain=True)

    assert reply["skill_path"] == explained["skill_path"] == "ui/react/auth"
    assert "add a login to the React app" in explained["explanation"]["notes"][0]
    assert nothing["no_match"] is True
    assert len(json.dumps(nothing)) < 40_000


async def test_a_caller_picks_a_candidate_by_its_path(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="auth", skill_path="api/auth")

    assert reply["skill_path"] == "api/auth"
    assert reply["score"] == 0.2
    assert reply["matched_keywords"] == ["auth"]


async def test_a_skill_that_does_not_fit_the_task_can_still_be_picked(
    library: SkillLibrary,
) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="zebra", skill_path="api/auth")

    assert (reply["skill_path"], reply["score"]) == ("api/auth", 0.0)
    assert reply["matched_keywords"] == []


async def test_a_path_that_leads_nowhere_names_similar_ones(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="x", skill_path="react/auth")

    assert reply["error"]["code"] == "SKILL_NOT_FOUND"
    assert "Did you mean api/auth or ui/react/auth?" in reply["error"]["message"]
    assert "list_skills" in reply["error"]["message"]


async def test_null_for_an_optional_argument_is_as_good_as_leaving_it_out(
    library: SkillLibrary,
) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="react login", skill_path=None)

    assert reply["skill_path"] == "ui/react/auth"


async def test_a_package_is_routed_with_its_files_and_an_inventory(tmp_path: Path) -> None:
    write_pdf(tmp_path)

    async with connected(open_library(tmp_path)) as client:
        reply = await ask(client, "get_skill", context="x", skill_path="pdf")

    assert len(reply.pop("digest")) == 16
    assert reply.pop("sha256") == sha256_of(reply["content"])
    assert reply == {
        "skill_path": "pdf",
        "score": 0.0,
        "matched_keywords": [],
        "content": "=== PDF (from pdf/SKILL.md) ===\n\nDo it.",
        "assets": [
            {"file": "logo.png", "description": "", "type": "other"},
            {"file": "references/forms.md", "description": "", "type": "reference"},
            {"file": "templates/letter.txt", "description": "", "type": "template"},
        ],
        "scripts": [
            {
                "file": "scripts/fill.py",
                "description": "",
                "execution": "claude",
                "args": [],
            }
        ],
        "inherited_assets": [],
        "inherited_scripts": [],
        "file_inventory": {
            "hasSkillMd": True,
            "hasScripts": True,
            "hasReferences": True,
            "scriptFiles": ["scripts/fill.py"],
            "referenceFiles": ["references/forms.md"],
            "templateFiles": ["templates/letter.txt"],
            "totalFiles": 5,
            "totalSizeBytes": sum(map(len, contents(tmp_path / "pdf").values())),
        },
        "commit": None,
        "path": "pdf/SKILL.md",
    }


async def test_the_other_tools_know_packages_too(tmp_path: Path) -> None:
    write_pdf(tmp_path)
    script = {"skill_path": "pdf", "file": "scripts/fill.py"}

    async with connected(open_library(tmp_path)) as client:
        tree = await ask(client, "list_skills", path="pdf")
        asset = await ask(client, "get_asset", **script)
        run = await ask(client, "run_script", **script, args={})

    assert (tree["tree"]["assetCount"], tree["tree"]["scriptCount"]) == (3, 1)
    assert (asset["content"], asset["type"]) == ("print('filled')\n", "script")
    assert run["error"]["code"] == "SCRIPT_RUNS_IN_AGENT"


_BY_NAME: dict[str, dict[str, Any]] = {
    "get_skill": {"context": "fill in a form"},
    "get_asset": {"file": "scripts/fill.py"},
    "run_script": {"file": "scripts/fill.py", "args": {}},
    "report_usage": {"useful": True},
}


async def test_every_tool_takes_a_name_that_one_skill_has(tmp_path: Path, spool: Spool) -> None:
    write_pdf(tmp_path, "office/documents/pdf")
    settings = {"analytics": {"enabled": True}}

    async with connected(open_library(tmp_path, spool=spool, settings=settings)) as client:
        replies = {
            tool: await ask(client, tool, skill_path="pdf", **arguments)
            for tool, arguments in _BY_NAME.items()
        }

    assert replies["get_skill"]["skill_path"] == "office/documents/pdf"
    assert replies["get_asset"]["skill_path"] == "office/documents/pdf"
    assert replies["run_script"]["error"]["code"] == "SCRIPT_RUNS_IN_AGENT"
    assert spooled(spool)[-1]["data"]["skill_path"] == "office/documents/pdf"


@pytest.mark.parametrize("tool", _BY_NAME)
async def test_every_tool_asks_which_skill_is_meant_if_several_have_the_name(
    tmp_path: Path, tool: str
) -> None:
    write_pdf(tmp_path, "a/pdf")
    write_pdf(tmp_path, "b/pdf", description="Another one.")

    async with connected(open_library(tmp_path)) as client:
        reply = await ask(client, tool, skill_path="pdf", **_BY_NAME[tool])

    assert reply["error"]["code"] == "SKILL_AMBIGUOUS"
    assert "a/pdf" in reply["error"]["message"]
    assert "b/pdf" in reply["error"]["message"]


async def test_a_skill_for_users_alone_is_served_by_its_path_and_found_by_no_task(
    tmp_path: Path,
) -> None:
    write_pdf(tmp_path, "office/pdf", **{"disable-model-invocation": True})
    write_package(tmp_path, "office/fax", description="Send a fax.")
    task = "Fill in PDF forms."
    settings = {"toolsets": ["core", "packages"]}

    async with connected(open_library(tmp_path, settings=settings)) as client:
        found = await ask(client, "get_skill", context=task)
        narrowed = await ask(client, "get_skill", context=task, within="office")
        searched = await ask(client, "search_skills", query=task)
        named = await ask(client, "get_skill", context=task, within="office/pdf")
        picked = await ask(client, "get_skill", context=task, skill_path="office/pdf")
        loaded = await ask(client, "load_skill", skill_name="pdf")
        explained = await ask(client, "get_skill", context=task, explain=True)
        tree = await ask(client, "list_skills", path="office/pdf")

    assert found["no_match"] is narrowed["no_match"] is True
    assert "office/pdf" not in json.dumps([found, narrowed, searched, explained])
    assert named["skill_path"] == "office/pdf"
    assert picked["skill_path"] == loaded["skill_path"] == tree["tree"]["path"] == "office/pdf"
    assert picked["score"] > 0


@pytest.mark.parametrize(
    "policy, is_found",
    [
        ("policy:\n  allow_implicit_invocation: false\n", False),
        ("policy:\n  allow_implicit_invocation: true\n", True),
        ("interface:\n  display_name: PDF\n", True),
        ("policy: [", True),
    ],
)
async def test_a_policy_of_codex_keeps_a_skill_from_tasks(
    tmp_path: Path, policy: str, *, is_found: bool
) -> None:
    write_pdf(tmp_path, "pdf")
    write(tmp_path / "pdf/agents/openai.yaml", policy)
    task = "Fill in PDF forms."

    async with connected(open_library(tmp_path)) as client:
        found = await ask(client, "get_skill", context=task)
        picked = await ask(client, "get_skill", context=task, skill_path="pdf")

    assert (found.get("skill_path") == "pdf") is is_found
    assert picked["skill_path"] == "pdf"


def write_near_copies(root: Path) -> None:
    body = "Run the checks, then the release script, and tell the channel. " * 10
    for home in (".agents/skills", ".kiro/skills", "skills"):
        text = f"{body}Written for {home}."
        about = "Deploy the shop to production."
        write_package(root, f"{home}/deploy", description=about, body=text)
    write_package(root, "skills/rollback", description="Undo a deploy of the shop to production.")


async def test_near_copies_for_several_agents_are_one_candidate(tmp_path: Path) -> None:
    write_near_copies(tmp_path)
    task, settings = "deploy the shop to production", {"toolsets": ["core", "packages"]}

    async with connected(open_library(tmp_path, settings=settings)) as client:
        found = await ask(client, "get_skill", context=task)
        searched = await ask(client, "search_skills", query=task)
        other = await ask(client, "get_skill", context=task, skill_path=".kiro/deploy")

    copies = [".agents/deploy", ".kiro/deploy"]
    listed = found.get("candidates", [found])
    assert [each["skill_path"] for each in listed][:1] == ["deploy"]
    assert sorted(listed[0]["near_copies"]) == copies
    assert [each["skill_path"] for each in searched["skills"]] == ["deploy", "rollback"]
    assert sorted(searched["skills"][0]["near_copies"]) == copies
    assert "Written for .kiro/skills." in other["content"]


async def test_skills_of_one_name_with_different_texts_stay_candidates(tmp_path: Path) -> None:
    for team, what in (("app", "stores and devices"), ("web", "browsers and caches")):
        about = f"Deploy the shop to production: {what}."
        write_package(tmp_path, f"{team}/deploy", description=about, body=f"See {what}.")

    async with connected(open_library(tmp_path)) as client:
        found = await ask(client, "get_skill", context="deploy the shop to production")

    assert [each["skill_path"] for each in found["candidates"]] == ["app/deploy", "web/deploy"]
    assert "near_copies" not in found["candidates"][0]


# One block, or two


@pytest.mark.parametrize(
    "tool, arguments",
    [
        ("get_skill", {"context": "react login"}),
        ("get_skill", {"context": "auth"}),
        ("list_skills", {}),
        ("get_asset", {"skill_path": "nowhere", "file": "x"}),
        ("report_usage", {"skill_path": "ui/react/auth", "useful": True}),
    ],
)
@pytest.mark.spec("8")
async def test_an_answer_is_one_text_block_of_json_and_nothing_else(
    library: SkillLibrary, tool: str, arguments: dict[str, Any]
) -> None:
    async with connected(library) as client:
        result = await client.call_tool(tool, arguments)

    assert result.structured_content is None
    [block] = result.content
    assert isinstance(block, TextContent)
    assert isinstance(json.loads(block.text), dict)


async def test_markdown_comes_in_a_block_of_its_own_if_the_operator_wants_it() -> None:
    settings = {"responses": {"format": "markdown"}}
    plain = open_library(SKILLS_CONTENT)
    split = open_library(SKILLS_CONTENT, settings=settings)

    async with connected(plain) as client:
        whole = await ask(client, "get_skill", context="react login")
    async with connected(split) as client:
        result = await client.call_tool("get_skill", {"context": "react login"})

    first, second = result.content
    assert isinstance(first, TextContent)
    assert isinstance(second, TextContent)
    assert json.loads(first.text)["digest"] == whole["digest"]
    assert second.text == whole["content"]
    assert result.structured_content is None


async def test_answers_without_prose_stay_one_block_in_markdown_format() -> None:
    library = open_library(SKILLS_CONTENT, settings={"responses": {"format": "markdown"}})

    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="zebra")

    assert reply["no_match"] is True


# list_skills


@pytest.mark.core
@pytest.mark.spec("8.2")
async def test_the_whole_tree_is_listed(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(client, "list_skills")

    assert list(reply) == ["tree", "algorithm", "sources", "total", "session_start"]
    assert reply["algorithm"] == "keyword"
    tree = reply["tree"]
    assert list(tree) == [
        "name",
        "path",
        "description",
        "keywords",
        "assetCount",
        "scriptCount",
        "children",
    ]
    assert (tree["name"], tree["path"]) == ("root", "_root")
    areas = [child["name"] for child in tree["children"]]
    assert areas == ["api", "data", "infra", "security", "ui"]


@pytest.mark.parametrize("path", ["ui/react", "ui/react/_index", "ui/react/"])
@pytest.mark.spec("8.2")
async def test_a_part_of_the_tree_is_named_by_its_folder_or_its_index(
    library: SkillLibrary, path: str
) -> None:
    async with connected(library) as client:
        reply = await ask(client, "list_skills", path=path)

    node = reply["tree"]
    assert (node["name"], node["path"]) == ("react", "ui/react/_index")
    leaves = [child["path"] for child in node["children"]]
    assert leaves == [
        "ui/react/auth",
        "ui/react/data-fetching",
        "ui/react/forms",
        "ui/react/testing",
    ]


@pytest.mark.spec("8.2")
async def test_a_single_skill_is_a_tree_without_children(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(client, "list_skills", path="ui/react/auth")

    node = reply["tree"]
    assert (node["assetCount"], node["scriptCount"], node["children"]) == (3, 2, [])
    assert node["keywords"] == ["react", "auth", "login", "session", "component"]


@pytest.mark.parametrize("path", ["nowhere", "ui/nowhere", "ui//react", "../ui"])
async def test_a_part_that_is_not_there_is_not_found(library: SkillLibrary, path: str) -> None:
    async with connected(library) as client:
        reply = await ask(client, "list_skills", path=path)

    assert reply["error"]["code"] == "SKILL_NOT_FOUND"


# get_asset


@pytest.mark.core
@pytest.mark.spec("8.3")
async def test_a_text_asset_comes_as_text(library: SkillLibrary) -> None:
    file = "assets/AuthProvider.tsx.template"

    async with connected(library) as client:
        reply = await ask(client, "get_asset", skill_path="ui/react/auth", file=file)

    raw = (SKILLS_CONTENT / "skills/ui/react/auth" / file).read_bytes()
    assert list(reply.items()) == [
        ("skill_path", "ui/react/auth"),
        ("file", file),
        ("content", raw.decode()),
        ("size_bytes", len(raw)),
        ("type", "template"),
        ("sha256", sha256_of(raw)),
        ("commit", None),
        ("path", f"skills/ui/react/auth/{file}"),
    ]


@pytest.mark.spec("8.3")
async def test_a_binary_asset_comes_as_base64_with_its_mime_type(library: SkillLibrary) -> None:
    file = "assets/auth-flow.svg"

    async with connected(library) as client:
        reply = await ask(client, "get_asset", skill_path="ui/react/auth", file=file)

    raw = (SKILLS_CONTENT / "skills/ui/react/auth" / file).read_bytes()
    assert list(reply.items()) == [
        ("skill_path", "ui/react/auth"),
        ("file", file),
        ("content_base64", base64.b64encode(raw).decode()),
        ("size_bytes", len(raw)),
        ("type", "image"),
        ("mime_type", "image/svg+xml"),
        ("sha256", sha256_of(raw)),
        ("commit", None),
        ("path", f"skills/ui/react/auth/{file}"),
    ]


@pytest.mark.spec("8.3")
async def test_an_inherited_asset_says_where_it_comes_from(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(
            client,
            "get_asset",
            skill_path="ui/react/auth",
            file="assets/design-tokens.json",
        )

    assert list(reply)[-3:] == ["sha256", "commit", "path"]
    assert reply["path"] == "skills/ui/_index/assets/design-tokens.json"
    assert reply["sha256"] == sha256_of((SKILLS_CONTENT / reply["path"]).read_bytes())
    assert reply["skill_path"] == "ui/react/auth"
    assert reply["resolved_from"] == "ui/_index"


async def test_a_script_can_be_read_like_an_asset(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(
            client,
            "get_asset",
            skill_path="ui/react/auth",
            file="scripts/scaffold-auth.sh",
        )

    assert reply["type"] == "script"
    assert reply["content"].startswith("#!")


@pytest.mark.parametrize(
    "skill_path, file, code",
    [
        ("ui/nowhere", "assets/auth-flow.svg", "SKILL_NOT_FOUND"),
        ("ui/react/auth", "../auth.md", "INVALID_PATH"),
        ("ui/react/auth", "assets/undeclared.txt", "FILE_NOT_FOUND"),
        ("ui/react/auth", "assets/../assets/auth-flow.svg", "INVALID_PATH"),
    ],
    ids=["ERR1", "ERR2", "ERR3", "ERR2-inside"],
)
@pytest.mark.spec("8.3")
async def test_each_error_of_get_asset_has_a_code_of_its_own(
    library: SkillLibrary, skill_path: str, file: str, code: str
) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_asset", skill_path=skill_path, file=file)

    assert reply["error"]["code"] == code


@pytest.mark.spec("7.5")
async def test_an_asset_that_is_declared_but_not_there_is_err4(tmp_path: Path) -> None:
    write_skill(tmp_path, "login.md", assets=[{"file": "assets/gone.txt"}])
    write(tmp_path / "login/assets/here.txt")

    async with connected(open_library(tmp_path)) as client:
        reply = await ask(client, "get_asset", skill_path="login", file="assets/gone.txt")

    assert reply["error"]["code"] == "FILE_MISSING"
    assert "'assets/gone.txt'" in reply["error"]["message"]


# run_script


@pytest.mark.core
@pytest.mark.spec("8.4")
async def test_a_script_that_succeeds_answers_with_exactly_the_documented_fields(
    tmp_path: Path,
) -> None:
    script = "echo out $SKILL_ARG_CLIENT_ID\necho err >&2\n"
    library = _library_with_script(tmp_path, script)

    async with connected(library) as client:
        reply = await ask(client, "run_script", **_CALL, args={"client_id": "np"})

    assert isinstance(reply.pop("duration_ms"), int)
    assert reply["sandbox"] in get_args(SandboxName)
    assert list(reply.items()) == [
        ("success", True),
        ("exit_code", 0),
        ("stdout", "out np\n"),
        ("stderr", "err\n"),
        ("script", "scripts/check.sh"),
        ("timed_out", False),
        ("sandbox", reply["sandbox"]),
        ("confined", reply["sandbox"] in CONFINING_TIERS),
        ("sha256", hashlib.sha256(script.encode()).hexdigest()),
        ("stdout_bytes", 7),
        ("stderr_bytes", 4),
        ("truncated", {"stdout": False, "stderr": False}),
        ("commit", None),
        ("path", "login/scripts/check.sh"),
    ]


@pytest.mark.spec("8.4")
async def test_a_script_that_fails_is_an_answer_and_no_error(tmp_path: Path) -> None:
    library = _library_with_script(tmp_path, "echo no clientId >&2; exit 3\n")

    async with connected(library) as client:
        reply = await ask(client, "run_script", **_CALL, args={})

    assert list(reply) == _SCRIPT_FIELDS
    assert (reply["success"], reply["exit_code"]) == (False, 3)
    assert reply["stderr"] == "no clientId\n"


@pytest.mark.spec("8.4")
async def test_a_script_that_takes_too_long_is_killed_and_its_output_kept(
    tmp_path: Path, lifeline: Lifeline
) -> None:
    library = _library_with_script(
        tmp_path,
        "echo partial\n" + lifeline.script(),
        settings={"scripts": {"timeout_seconds": 1, "sandbox": "off"}},
    )

    async with connected(library) as client:
        reply = await ask(client, "run_script", **_CALL, args={})

    assert list(reply) == _SCRIPT_FIELDS
    assert reply["timed_out"]
    assert (reply["success"], reply["exit_code"]) == (False, 137)
    assert reply["stdout"] == "partial\n"
    assert (reply["sandbox"], reply["confined"]) == ("none", False)
    assert reply["stderr"] == "[skills-mcp] Script killed: timeout exceeded."
    lifeline.wait_for_start()
    lifeline.wait_for_end()


@pytest.mark.parametrize(
    "file, args, code",
    [
        ("scripts/undeclared.sh", {}, "SCRIPT_NOT_DECLARED"),
        ("scripts/scaffold-auth.sh", {}, "SCRIPT_RUNS_IN_AGENT"),
        ("scripts/validate-auth-config.py", {}, "MISSING_ARGUMENTS"),
        ("../auth.md", {}, "INVALID_PATH"),
    ],
)
@pytest.mark.spec("8.4")
async def test_a_refused_script_says_which_rule_refuses_it(
    library: SkillLibrary, file: str, args: dict[str, str], code: str
) -> None:
    async with connected(library) as client:
        reply = await ask(client, "run_script", skill_path="ui/react/auth", file=file, args=args)

    assert reply["error"]["code"] == code


async def test_a_cancelled_call_kills_its_script_and_all_children(
    tmp_path: Path, era: str, lifeline: Lifeline
) -> None:
    library = _library_with_script(tmp_path, lifeline.script(), settings=_UNHELD)

    async with connected(library, era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "run_script", {**_CALL, "args": {}})
            await anyio.to_thread.run_sync(lifeline.wait_for_start)
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(lifeline.wait_for_end)
        reply = await ask(client, "get_skill", context="login")

    assert reply["skill_path"] == "login"


# report_usage


@pytest.mark.core
@pytest.mark.spec("8.5")
async def test_feedback_is_recorded(
    library: SkillLibrary, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "skills_mcp")

    async with connected(library) as client:
        reply = await ask(
            client,
            "report_usage",
            skill_path="ui/react/auth",
            useful=False,
            comment="out of date",
        )

    assert list(reply.items()) == [
        ("recorded", True),
        ("message", "Feedback recorded for ui/react/auth"),
    ]
    assert "Feedback for ui/react/auth: not useful" in caplog.messages


async def test_feedback_about_a_skill_that_was_removed_is_recorded(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(client, "report_usage", skill_path="gone", useful=True)

    assert reply["recorded"] is True


async def test_feedback_waits_for_content_that_knows_the_path(tmp_path: Path) -> None:
    source, spool = SlowSource(SKILLS_CONTENT), Spool(tmp_path / "spool")
    library = open_library(
        source, load=False, spool=spool, settings={"analytics": {"enabled": True}}
    )

    async with connected(library) as client:

        async def let_it_arrive() -> None:
            await anyio.to_thread.run_sync(source.wait_until_asked)
            source.arrived.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(let_it_arrive)
            path = "ui/react/auth"
            reply = await ask(client, "report_usage", skill_path=path, useful=True)

    assert reply["recorded"] is True
    [event] = [each for each in spooled(spool) if each["type"] == "skill_feedback"]
    assert event["data"]["skill_path"] == path


# refresh_skills


@pytest.mark.spec("8.6")
async def test_a_folder_is_read_again(tmp_path: Path) -> None:
    write_skill(tmp_path, "one.md", keywords=["one"])

    library = open_library(tmp_path, settings={"refresh": {"enabled": False}})

    async with connected(library) as client:
        await ask(client, "refresh_skills")  # nothing else reads the folder now
        write_skill(tmp_path, "two.md", keywords=["two"])
        reply = await ask(client, "refresh_skills")
        found = await ask(client, "get_skill", context="two")

    [source] = reply.pop("sources")
    assert (source["mode"], source["name"]) == ("local", str(tmp_path))
    assert list(reply.items()) == [
        ("success", True),
        ("mode", "local"),
        ("skills_reindexed", 2),
        ("message", "Reindexed from local directory (no git sync configured)."),
        ("added", ["two"]),
        ("changed", []),
        ("removed", []),
    ]
    assert found["skill_path"] == "two"


@pytest.mark.core
@pytest.mark.spec("8.6")
async def test_a_commit_is_fetched_and_served(tmp_path: Path, upstream: Upstream) -> None:
    upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    library = open_library(branch_of(upstream, tmp_path), load=False)

    async with connected(library) as client:
        await ask(client, "get_skill", context="one")
        commit = upstream.commit(
            {
                "skills/one.md": None,
                "skills/two.md": skill_text(keywords=["two"]),
                "skills/three.md": skill_text(keywords=["three"]),
            }
        )
        reply = await ask(client, "refresh_skills")
        found = await ask(client, "get_skill", context="two")

    last_sync = reply.pop("last_sync")
    [source] = reply.pop("sources")
    assert (source["commit"], source["last_sync"]) == (commit, last_sync)
    assert list(reply.items()) == [
        ("success", True),
        ("commit_hash", commit),
        ("files_changed", 3),
        ("skills_reindexed", 2),
        ("added", ["three", "two"]),
        ("changed", []),
        ("removed", ["one"]),
    ]
    assert last_sync.endswith("Z")
    assert len(last_sync) == len("2026-02-18T14:30:00.000Z")
    assert found["skill_path"] == "two"


async def test_the_first_act_of_a_process_compares_with_what_the_disk_has(
    tmp_path: Path, upstream: Upstream
) -> None:
    names = [f"s{number}" for number in range(9)]
    upstream.commit({f"skills/{n}.md": skill_text(keywords=[n]) for n in names})
    open_library(branch_of(upstream, tmp_path)).close()
    upstream.commit({"skills/s3.md": skill_text(keywords=["other"])})

    async with connected(open_library(branch_of(upstream, tmp_path), load=False)) as client:
        reply = await ask(client, "refresh_skills")

    assert (reply["added"], reply["changed"], reply["removed"]) == ([], ["s3"], [])
    assert reply["files_changed"] == 1


async def test_a_refresh_without_news_changes_nothing(tmp_path: Path, upstream: Upstream) -> None:
    commit = upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    library = open_library(branch_of(upstream, tmp_path), load=False)

    async with connected(library) as client:
        await ask(client, "get_skill", context="one")
        reply = await ask(client, "refresh_skills")

    assert (reply["success"], reply["commit_hash"]) == (True, commit)
    assert (reply["files_changed"], reply["skills_reindexed"]) == (0, 1)


async def test_an_edit_that_keeps_the_size_of_a_file_is_told(
    tmp_path: Path, upstream: Upstream
) -> None:
    asset = [{"file": "assets/base.txt"}]
    upstream.commit(
        {
            "skills/one.md": skill_text(keywords=["one"], assets=asset),
            "skills/one/assets/base.txt": "One",
            "skills/two.md": skill_text(keywords=["two"]),
        }
    )
    library = open_library(branch_of(upstream, tmp_path), load=False)

    async with connected(library) as client:
        await ask(client, "get_skill", context="one")
        await ask(client, "refresh_skills")
        upstream.commit({"skills/one/assets/base.txt": "Two", "README.md": "Hello"})
        reply = await ask(client, "refresh_skills")

    assert (reply["added"], reply["changed"], reply["removed"]) == ([], ["one"], [])


async def test_every_reply_with_content_says_its_commit_and_its_file(
    tmp_path: Path, upstream: Upstream
) -> None:
    files = [{"file": "run.sh", "execution": "server"}]
    commit = upstream.commit(
        {
            "skills/one.md": skill_text(keywords=["one"], scripts=files),
            "skills/one/run.sh": "echo one\n",
        }
    )
    source = branch_of(upstream, tmp_path)
    everything = {
        "toolsets": ["core", "packages"],
        "commands": {"enabled": True, "allowed": ["true"]},
        "scripts": {"enabled": True},
    }
    script = {"skill_path": "one", "file": "run.sh"}
    calls: dict[str, dict[str, Any]] = {
        "get_skill": {"context": "one"},
        "get_asset": script,
        "run_script": {**script, "args": {}},
        "load_skill": {"skill_name": "one"},
        "read_skill_file": {"skill_name": "one", "file_path": "run.sh"},
        "find_skill_files": {"skill_name": "one"},
        "load_skill_examples": {"skill_name": "one", "query": "x"},
        "run_skill_command": {"skill_name": "one", "command": "true"},
    }

    async with connected(open_library(source, settings=everything, load=False)) as client:
        answers = {tool: await ask(client, tool, **arguments) for tool, arguments in calls.items()}

    places = {
        tool: (answer["commit"], answer.get("source_path") or answer["path"])
        for tool, answer in answers.items()
    }
    of_file = {"get_asset", "run_script", "read_skill_file"}
    assert places == {
        tool: (commit, "skills/one/run.sh" if tool in of_file else "skills/one.md")
        for tool in calls
    }


@pytest.mark.spec("8.2")
async def test_a_list_says_how_new_each_source_is(tmp_path: Path, upstream: Upstream) -> None:
    commit = upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    library = open_library(branch_of(upstream, tmp_path), load=False)

    async with connected(library) as client:
        whole = await ask(client, "list_skills")
        part = await ask(client, "list_skills", path="one")

    [source] = whole["sources"]
    assert list(source)[:7] == [
        "mount",
        "name",
        "mode",
        "commit",
        "last_sync",
        "age_seconds",
        "stale",
    ]
    assert (source["mode"], source["commit"]) == ("git", commit)
    assert source["stale"] is False
    assert "error" not in source
    assert part["sources"][0]["commit"] == commit


@pytest.mark.core
@pytest.mark.spec("8.6")
async def test_a_failed_refresh_says_what_is_served_instead(
    tmp_path: Path, upstream: Upstream
) -> None:
    commit = upstream.commit({"skills/one.md": skill_text(keywords=["one"])})
    library = open_library(branch_of(upstream, tmp_path), load=False)

    async with connected(library) as client:
        await ask(client, "get_skill", context="one")
        upstream.bare.rename(tmp_path / "gone")
        reply = await ask(client, "refresh_skills")
        found = await ask(client, "get_skill", context="one")

    assert list(reply) == [
        "success",
        "commit_hash",
        "files_changed",
        "skills_reindexed",
        "last_sync",
        "added",
        "changed",
        "removed",
        "sources",
        "error",
    ]
    assert (reply["success"], reply["commit_hash"]) == (False, commit)
    assert (reply["files_changed"], reply["skills_reindexed"]) == (0, 1)
    assert reply["error"]["code"] == "REMOTE_NOT_FOUND"
    assert found["skill_path"] == "one"


async def test_a_failed_refresh_of_a_folder_is_an_error_too(tmp_path: Path) -> None:
    content = tmp_path / "content"
    write_skill(content, "one.md", keywords=["one"])

    async with connected(open_library(content)) as client:
        # Whoever asks joins a sync that is running, and the first one may be.
        await ask(client, "refresh_skills")
        content.rename(tmp_path / "gone")
        reply = await ask(client, "refresh_skills")

    assert list(reply) == [
        "success",
        "mode",
        "skills_reindexed",
        "added",
        "changed",
        "removed",
        "sources",
        "error",
    ]
    assert (reply["success"], reply["mode"]) == (False, "local")
    assert reply["error"]["code"] == "SYNC_FAILED"


# What is counted


@pytest.mark.core
@pytest.mark.spec("10.2")
async def test_every_tool_that_does_something_is_counted(spool: Spool) -> None:
    library = open_library(SKILLS_CONTENT, settings={"analytics": {"enabled": True}}, spool=spool)

    async with connected(library) as client:
        await ask(client, "get_skill", context="zebra")
        await ask(client, "get_skill", context="auth")
        await ask(client, "get_skill", context="auth", skill_path="api/auth")
        await ask(client, "list_skills")
        asset = "assets/auth-flow.svg"
        await ask(client, "get_asset", skill_path="ui/react/auth", file=asset)
        script = {
            "skill_path": "ui/react/auth",
            "file": "scripts/validate-auth-config.py",
        }
        values = {"client_id": "np-web", "redirect_uri": "https://a.example/cb"}
        await ask(client, "run_script", **script, args=values)
        await ask(client, "report_usage", skill_path="api/auth", useful=True)
        await ask(client, "refresh_skills")

    events = spooled(spool)
    assert [event["type"] for event in events] == [
        "no_match",
        "ambiguous",
        "skill_served",
        "asset_served",
        "script_executed",
        "skill_feedback",
        "refresh",
    ]
    assert events[2]["data"]["was_ambiguous"] is True
    assert events[4]["data"]["args_provided"] == ["client_id", "redirect_uri"]


async def test_calls_that_are_refused_are_not_counted(spool: Spool) -> None:
    library = open_library(SKILLS_CONTENT, settings={"analytics": {"enabled": True}}, spool=spool)

    async with connected(library) as client:
        await ask(client, "get_skill", context="x", skill_path="nowhere")
        await ask(client, "get_asset", skill_path="ui/react/auth", file="nothing")
        await ask(client, "report_usage", skill_path="x")

    assert spooled(spool) == []


_CALL = {"skill_path": "login", "file": "scripts/check.sh"}
_SCRIPT_FIELDS = [
    "success",
    "exit_code",
    "stdout",
    "stderr",
    "duration_ms",
    "script",
    "timed_out",
    "sandbox",
    "confined",
    "sha256",
    "stdout_bytes",
    "stderr_bytes",
    "truncated",
    "commit",
    "path",
]

# A sandbox would keep a script from the pipe by which we learn of it.
_UNHELD = {"scripts": {"sandbox": "off"}}

_Settings = dict[str, Any]


def _library_with_script(
    folder: Path, script: str, settings: _Settings | None = None
) -> SkillLibrary:
    content = folder / "content"
    declared = {
        "file": "scripts/check.sh",
        "execution": "server",
        "args": [{"name": "client_id", "required": False}],
    }
    write_skill(content, "login.md", keywords=["login"], scripts=[declared])
    write(content / "login/scripts/check.sh", script)
    return open_library(content, settings=settings)
