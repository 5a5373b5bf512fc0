from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.usage.excerpts import (
    describe_commit,
    describe_share,
    describe_untold,
    fold_weeks,
    pick_feedback,
    pick_gaps,
    pick_scripts,
)
from skills_mcp.usage.summary import Answers, PeriodAnswers
from tests.usage.happenings import NEW, judged, missed, ran, reckon


def test_only_the_newest_commits_of_a_skill_and_of_a_script_are_shown() -> None:
    commits = [f"{n}" * 40 for n in range(1, 8)]
    report = reckon(
        [
            *(judged("a", useful=False, day=n, commit=commits[n - 1]) for n in (1, 2)),
            *(
                judged("a", useful=True, day=n, commit=commits[n - 1])
                for n in (3, 4, 5)
            ),
            judged("b", useful=True),
            *(ran("a.sh", n, commit=commits[n - 1]) for n in range(1, 8)),
            ran("b.sh"),
        ]
    )

    feedback, scripts = pick_feedback(report), pick_scripts(report)

    assert [each.commit for each in feedback if each.skill == "a"] == commits[1:5]
    assert [each.skill for each in feedback][-1] == "b"
    assert [each.commit for each in scripts if each.file == "a.sh"] == commits[3:]


def test_tasks_that_nobody_can_read_are_counted_in_one_sentence() -> None:
    hashes = [missed(f"hmac-sha256:{n}") for n in (1, 2, 2)]
    report = reckon([missed("bake a cake"), *hashes, missed("")])

    assert [gap.task for gap in pick_gaps(report)] == ["bake a cake"]
    assert describe_untold(report) == (
        "Tasks without a skill whose words are not in the record: 4. "
        "Different ones: 2, the most frequent 2 times."
    )
    assert describe_untold(reckon([missed("")])).endswith("in the record: 1.")
    assert describe_untold(reckon([missed("bake a cake")])) == ""


@given(st.lists(st.integers(0, 50), max_size=40))
def test_weeks_have_everything_that_their_days_had(served: list[int]) -> None:
    first = date(2026, 11, 1)
    days = [
        PeriodAnswers(first + timedelta(days=n), Answers(each, 1, 2), 3)
        for n, each in enumerate(served)
    ]

    weeks = fold_weeks(days)

    assert all(monday.weekday() == 0 for monday in weeks)
    assert sum(each.served for each in weeks.values()) == sum(served)
    assert sum(each.tasks for each in weeks.values()) == sum(served) + 3 * len(served)


def test_nothing_has_no_share_and_no_commit_is_a_dash() -> None:
    assert describe_share(0, 0) == describe_commit("") == "\N{EN DASH}"
    assert describe_commit(NEW) == "bbbbbbbb"
