"""The hook of effect: the check of evidence, in each run of `validate`."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from skills_mcp.features.effect import EVAL_RESULTS
from skills_mcp.skills.model import Problem
from skills_mcp.skills.skill_audit import SkillAudit

if TYPE_CHECKING:
    from skills_mcp.features.authoring.validation import AuthoredSkill, SkillTree


class _Evidence(SkillAudit):
    root_files = (EVAL_RESULTS,)

    def check(self, tree: "SkillTree", skills: "Collection[AuthoredSkill]") -> Iterator[Problem]:
        """Check whether agents have run with the skills that have cases or evidence."""
        from skills_mcp.features.authoring.cases import find_evals_folder, list_eval_files
        from skills_mcp.features.authoring.rules import RuleFinding
        from skills_mcp.features.effect.evidence import find_evidence

        found = find_evidence(tree.snapshot)
        for skill in skills:
            if skill.served is None:
                continue
            evidence = found.get(skill.served.path)
            hint = f"run the agents: skills-mcp effect {skill.served.path} --agent claude"
            if evidence and evidence.is_old:
                reason = f"has evidence of its effect only for an older text ({evidence})"
                yield RuleFinding("old-evidence", reason, hint).at(skill.file)
            elif evidence is None and list_eval_files(find_evals_folder(skill.served)):
                reason = "has cases, and no evidence of its effect"
                yield RuleFinding("no-evidence", reason, hint).at(skill.file)


audit = _Evidence()
