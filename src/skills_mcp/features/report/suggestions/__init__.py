"""What agents picked suggests to change in skills, and what that does to all tasks.

The walk: `PickTally` learns from events which skills are right, `derive_missing_words`
names the words that these skills lack, `improve` keeps those that help on a copy of
the content, and the `Review` has what is kept, why, and as a patch.
"""
