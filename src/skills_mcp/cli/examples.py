"""Commands in the order of the help, with copyable examples."""

from collections.abc import Mapping

SECTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Agents": {
        "install": (
            "skills-mcp install --repo https://github.com/acme/skills.git",
            "skills-mcp install --client claude-code --skills-dir ./skills --print",
            "skills-mcp install --client cursor --http https://skills.acme.com/mcp",
            "skills-mcp install --remove",
        ),
        "doctor": (
            "skills-mcp doctor",
            "skills-mcp doctor --repo https://github.com/acme/skills.git --json",
        ),
        "self-check": (
            "skills-mcp self-check",
            "skills-mcp self-check --max-age 24 --program-version 0.1.0 --json",
        ),
        "serve": (
            "skills-mcp serve --repo https://github.com/acme/skills.git",
            "skills-mcp serve --skills-dir ./skills --log-level debug",
            "skills-mcp serve --transport http --port 8080",
        ),
        "catalog": (
            "skills-mcp catalog --skills-dir ./skills > skills.xml",
            "skills-mcp catalog --format available_skills --max-entries 50",
        ),
        "hook": ("""echo '{"prompt": "add a login page"}' | skills-mcp hook claude-code""",),
    },
    "Content": {
        "tree": (
            "skills-mcp tree --skills-dir ./skills",
            "skills-mcp tree --depth 2",
            "skills-mcp tree --search 'customs form'",
            "skills-mcp tree --problems --json",
        ),
        "open": ("skills-mcp open --skills-dir ./skills",),
        "sync": (
            "skills-mcp sync --repo https://github.com/acme/skills.git",
            "skills-mcp sync --json",
        ),
        "export": (
            "skills-mcp export --skills-dir ./skills --to .claude/skills",
            "skills-mcp export --skills-dir ./skills --to ./out --select 'ui/**'",
            "skills-mcp export --to .claude/skills --check",
            "skills-mcp export --to .claude/skills --frozen",
        ),
        "verify": (
            "skills-mcp verify .claude/skills",
            "skills-mcp verify .claude/skills --json",
        ),
        "status": ("skills-mcp status", "skills-mcp status --json"),
        "rollback": (
            "skills-mcp rollback",
            "skills-mcp rollback --to 1a2b3c4",
            "skills-mcp rollback --resume",
        ),
        "report": (
            "skills-mcp report --since 12w",
            "skills-mcp report --html report.html",
            "skills-mcp report --suggest --skills-dir . > suggestions.patch",
        ),
    },
    "Authoring": {
        "new": (
            "skills-mcp new ui/react/forms --skills-dir ./skills",
            "skills-mcp new office/pdf --package --skills-dir ./skills",
            "skills-mcp new ui/_index --keywords ui,css --skills-dir ./skills",
        ),
        "show": (
            "skills-mcp show ui/react/auth --skills-dir ./skills",
            "skills-mcp show ui/react/auth --files",
            "skills-mcp show ui/react/auth --raw --skills-dir ./skills",
        ),
        "ask": (
            'skills-mcp ask "add a login page" --skills-dir ./skills',
            'skills-mcp ask "add a login page" --within ui --json',
        ),
        "search": ('skills-mcp search "customs form" --skills-dir ./skills',),
        "explain": (
            'skills-mcp explain "add a login page" --skills-dir ./skills',
            'skills-mcp explain "add a login page" --skill ui/react/auth',
        ),
        "validate": (
            "skills-mcp validate ./skills",
            "skills-mcp validate ./skills --strict --json",
            "skills-mcp validate ./skills --fix",
            "skills-mcp validate ./skills --ignore 'link-*,metadata-value'",
            "skills-mcp validate . --baseline skills-baseline.json --write-baseline",
            "skills-mcp validate . --baseline skills-baseline.json --format sarif",
        ),
        "test": (
            "skills-mcp test --skills-dir ./skills",
            "skills-mcp test prompts.yaml --baseline HEAD~1 --skills-dir ./skills",
            "skills-mcp test --baseline origin/main --format markdown --skills-dir .",
        ),
        "add": (
            "skills-mcp add pdf-forms.zip --to ./skills",
            "skills-mcp add --restore pdf-forms --to ./skills",
        ),
    },
    "Shell": {
        "completion": (
            "skills-mcp completion --install",
            "skills-mcp completion zsh > ~/.zfunc/_skills-mcp",
        ),
    },
}
"""Titles, commands below each, and examples of each command."""

FIRST_EXAMPLES = (
    "skills-mcp install --repo https://github.com/acme/skills.git",
    "skills-mcp tree --skills-dir ./skills",
    'skills-mcp ask "add a login page" --skills-dir ./skills',
    "skills-mcp validate ./skills --strict",
    "skills-mcp doctor",
)
"""For the help of the program itself."""


def find_examples(command: str) -> tuple[str, ...]:
    candidates = (commands.get(command) for commands in SECTIONS.values())
    return next(filter(None, candidates), ())
