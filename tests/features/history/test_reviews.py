"""The pull request of a commit, read from the messages that forges write."""

import pytest

from skills_mcp.features.history.source_history import CommitRecord, Review, derive_reviews


def record(commit: str, *parents: str, subject: str = "Change", body: str = "") -> CommitRecord:
    return CommitRecord(commit, parents, f"Author of {commit}", subject, body)


@pytest.mark.parametrize(
    "subject, body, number",
    [
        ("Merge pull request #12 from acme/auth", "Ask twice", "#12"),
        ("Ask twice (#12)", "", "#12"),
        ("Merge branch 'auth' into 'main'", "Ask twice\n\nSee merge request acme/skills!12", "!12"),
        ("Merge pull request 'Ask twice' (#12) from auth into main", "", "#12"),
        ("Ask twice", "Reviewed-on: https://git.acme.com/acme/skills/pulls/12", "#12"),
        ("Ask twice", "Reviewed-on: https://review.acme.com/c/skills/+/12\nChange-Id: I1", "#12"),
        ("Merged in auth (pull request #12)", "", "#12"),
        ("Pull request #12: Ask twice", "", "#12"),
        ("Merged PR 12: Ask twice", "", "#12"),
        ("Ask twice (#12) and once more", "", ""),
        ("Fix #12", "Closes #12", ""),
    ],
)
def test_each_forge_names_the_number_in_its_own_words(subject: str, body: str, number: str) -> None:
    reviews = derive_reviews([record("a", subject=subject, body=body)])

    assert reviews == ({"a": Review(number)} if number else {})


def test_commits_of_a_branch_have_the_pull_request_that_merged_them() -> None:
    history = [
        record("new", "merge"),
        record("merge", "old", "second", subject="Merge pull request #7 from acme/auth"),
        record("second", "first", subject="Inner (#6)"),
        record("first", "old"),
        record("old", "lost"),
    ]

    reviews = derive_reviews(history)

    merged = Review("#7", "merge", "Author of merge")
    assert reviews == {"merge": merged, "first": merged, "second": merged}


def test_a_merge_without_a_number_leaves_the_own_one() -> None:
    history = [
        record("merge", "old", "side", subject="Merge branch 'auth'"),
        record("side", "old", subject="Ask twice (#6)"),
        record("old"),
    ]

    assert derive_reviews(history) == {"side": Review("#6")}
