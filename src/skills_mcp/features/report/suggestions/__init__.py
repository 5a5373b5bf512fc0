"""Suggested changes to skills from agents' picks, and their effect on all tasks.

`PickTally` learns the right skills from events, `derive_missing_words` names the words
these skills lack, `try_additions` accepts the helpful ones on a copy of the content,
and
`SuggestionReview`
has the result, its evidence and a patch.
"""
