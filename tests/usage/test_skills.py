from datetime import date

from skills_mcp.usage import Offer
from skills_mcp.usage.skills import OfferedSkill
from tests.usage.happenings import NEW, OLD, event, judged, reckon, served, torn

AUTH, FORMS, NEVER = (
    OfferedSkill(path, f"About {path}", ("word",))
    for path in ("ui/auth", "ui/forms", "ui/never")
)
ABOVE = OfferedSkill("ui/_index", "Everything", (), is_above_others=True)
OFFER = Offer((NEVER, AUTH, ABOVE, FORMS), lambda _: ())


def test_a_skill_is_counted_with_how_it_was_reached() -> None:
    report = reckon(
        [
            served("ui/auth", 3),
            served("ui/auth", 7, was_ambiguous=True),
            served("ui/auth", 5, unchanged=True),
            event("asset_served", 8, skill_path="ui/auth", file="a.txt"),
            served("ui/forms"),
        ],
        OFFER,
    )

    first, second = report.skills
    assert (first.skill, first.served, first.picked, first.unchanged) == (
        *("ui/auth", 3),
        *(1, 1),
    )
    assert (first.files, first.last_seen) == (1, date(2026, 11, 8))
    assert (second.skill, second.served) == ("ui/forms", 1)


def test_a_skill_that_is_gone_says_so() -> None:
    events = [served("ui/old"), served("ui/auth"), served("ui/_index")]

    with_skills, without = reckon(events, OFFER), reckon(events)

    assert {use.skill: use.is_offered for use in with_skills.skills} == {
        "ui/old": False,
        "ui/auth": True,
        "ui/_index": True,
    }
    assert {use.is_offered for use in without.skills} == {None}


def test_skills_that_nobody_got_are_named_with_their_keywords() -> None:
    report = reckon(
        [
            served("ui/auth"),
            torn("x", "ui/auth", "ui/never"),
            event("asset_served", skill_path="ui/forms", file="a.txt"),
        ],
        OFFER,
    )

    assert report.unserved is not None
    forms, never = report.unserved
    assert (forms.skill, forms.candidate) == ("ui/forms", 0)
    assert (never.skill, never.candidate) == ("ui/never", 1)
    assert (never.description, never.keywords) == ("About ui/never", ("word",))


def test_without_skills_nobody_knows_what_was_never_served() -> None:
    assert reckon([served("ui/auth")]).unserved is None


def test_feedback_is_told_commit_by_commit() -> None:
    report = reckon(
        [
            judged("ui/forms", useful=True, day=9, commit=NEW),
            judged("ui/forms", useful=False, day=2, comment="Too old."),
            judged("ui/forms", useful=True, day=3),
            served("ui/forms", 4),
            served("ui/auth", 4),
            judged("ui/auth", useful=True, day=1),
        ]
    )

    old, new, auth = report.feedback
    assert (old.skill, old.commit, old.served) == ("ui/forms", OLD, 1)
    assert (old.useful, old.not_useful, old.comments) == (1, 1, ("Too old.",))
    assert (old.first_seen, old.last_seen) == (date(2026, 11, 2), date(2026, 11, 4))
    assert (new.commit, new.useful, new.not_useful) == (NEW, 1, 0)
    assert (auth.skill, auth.served, auth.useful) == ("ui/auth", 1, 1)


def test_complaints_come_first_each_once_and_not_all_of_them() -> None:
    events = [
        judged("a", useful=True, day=20, comment="Good."),
        *(judged("a", useful=False, day=n, comment=f"No {n}.") for n in range(1, 9)),
        judged("a", useful=False, day=10, comment="No 1."),
    ]

    [forward], [back] = reckon(events).feedback, reckon(reversed(events)).feedback

    assert forward.comments == ("No 1.", "No 8.", "No 7.", "No 6.", "No 5.")
    assert forward == back


def test_events_without_a_commit_stand_together() -> None:
    report = reckon([judged("a", useful=True, commit=None)])

    assert [each.commit for each in report.feedback] == [""]
    assert report.releases == ()
