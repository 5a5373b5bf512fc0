"""Every section of two specifications has a test that names it.

Those of the functional specification have numbers (`spec`), those of the toolkit for
LangChain have names (`toolkit_spec`).
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from tests.support import PROJECT

SECTIONS = {
    "1": "System Overview",
    "2.1": "Component diagram",
    "2.2": "Module responsibilities",
    "3.1": "Startup sequence",
    "3.2": "Runtime behavior",
    "3.3": "Shutdown",
    "4.1": "File discovery",
    "4.2": "Frontmatter parsing",
    "4.3": "Skill path derivation",
    "4.4": "Parent resolution",
    "4.5": "Resource directory resolution",
    "4.6": "Index rebuild",
    "5.1": "Tokenization",
    "5.2": "Scoring",
    "5.3": "Ambiguity detection",
    "6.1": "Inheritance chain",
    "6.2": "Content aggregation format",
    "7.1": "Asset metadata resolution",
    "7.2": "Binary vs text detection",
    "7.3": "Inherited assets",
    "7.4": "Asset content reading",
    "7.5": "Asset chain lookup",
    "8": "MCP Tools",
    "8.1": "get_skill",
    "8.2": "list_skills",
    "8.3": "get_asset",
    "8.4": "run_script",
    "8.5": "report_usage",
    "8.6": "refresh_skills",
    "9.1": "Initialization",
    "9.2": "Authentication",
    "9.3": "Periodic refresh",
    "9.4": "Force refresh",
    "9.5": "Concurrency control",
    "10.1": "Event tracking",
    "10.2": "Event types",
    "10.3": "Publishing",
    "10.4": "Local fallback",
    "11.1": "Environment variables",
    "11.2": "config.yaml schema",
    "11.3": "Config loading precedence",
    "12.1": "Path traversal prevention",
    "12.2": "Script execution sandboxing",
    "12.3": "Asset size limits",
    "12.4": "Trust model",
    "13": "Error Handling",
}

ROOMS = ("tests", "frameworks")

ERROR_TABLE = {
    "Network down at startup": "the_network_is_down_at_startup",
    "Network down at refresh": "the_network_is_down_at_refresh",
    "Invalid frontmatter": "invalid_frontmatter",
    "No skills match query": "no_skill_matches",
    "Asset declared but file missing": "declared_but_missing",
    "Asset exceeds size limit": "exceeds_the_size_limit",
    'Script `execution: "claude"` via `run_script`': "execution_claude",
    "Script timeout": "script_that_times_out",
    "Script missing required args": "required_arguments",
    "Path traversal attempt": "path_traversal",
    "Scripts globally disabled": "globally_disabled",
    "Empty skills directory": "empty_skills_directory",
    "Concurrent refresh attempts": "concurrent_refresh",
}
"""The rows of section 13, and what the name of the test of each one holds."""


TOOLKIT_SECTIONS = {
    "modules": "模块结构",
    "SkillRecord": "数据模型 SkillRecord",
    "SkillExample": "数据模型 SkillExample",
    "conventions": "SKILL.md / 示例文件约定",
    "discovery": "发现与刷新流程",
    "basics": "基础能力",
    "loading": "技能内容加载",
    "files": "文件检索与读取",
    "examples": "示例检索",
    "entries": "入口命令执行（可选）",  # noqa: RUF001 - as it is written
    "tools": "LangChain 工具装配",
    "parameters": "配置参数",
    "usage": "最小使用示例",
    "limits": "设计取舍与边界",
}
"""The headings of the document about the toolkit, by the names that tests use."""


def test_every_section_is_named_by_a_test_and_no_other() -> None:
    assert _marks().keys() == SECTIONS.keys()


def test_every_section_about_the_toolkit_is_named_by_a_test_and_no_other() -> None:
    assert _marks("toolkit_spec").keys() == TOOLKIT_SECTIONS.keys()


def test_every_row_of_the_error_table_has_one_test() -> None:
    named = _marks()["13"]

    tests = {row: [name for name in named if words in name] for row, words in ERROR_TABLE.items()}

    assert {row: found for row, found in tests.items() if len(found) != 1} == {}


@functools.cache
def _marks(mark: str = "spec") -> dict[str, list[str]]:
    """Return the marked tests of each section."""
    marks: dict[str, list[str]] = {}
    files = (f for room in ROOMS for f in sorted((PROJECT / room).rglob("test_*.py")))
    for file in files:
        for test, section in _marks_of(file, mark):
            marks.setdefault(section, []).append(test)
    return marks


def _marks_of(file: Path, mark: str) -> Iterator[tuple[str, str]]:
    text = file.read_text(encoding="utf-8")
    if f"mark.{mark}(" not in text:  # parsing takes long
        return
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(
                    func=ast.Attribute(attr=attribute),
                    args=[ast.Constant(str(section))],
                ) if attribute == mark:
                    yield node.name, section
                case _:
                    pass
