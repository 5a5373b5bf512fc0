import pytest

from skills_mcp.routing.ranked_matcher import drop_exclusions


@pytest.mark.parametrize(
    "description, kept",
    [
        ("Flows. Do not use for forms.", "Flows."),
        ("Flows. DO NOT USE FOR: forms (use acme-form), reports.", "Flows."),
        ("Flows.\nNot for forms - use acme-form.", "Flows."),
        ("Flows. Don't use when a form is meant. Also loops.", "Flows. Also loops."),
        ("Flows. Skip if it is a form.", "Flows."),
        ("Flows. For forms, see acme-form.", "Flows. For forms, see acme-form."),
        ("Flows that do not use forms.", "Flows that do not use forms."),
        ("Flows. Not formal.", "Flows. Not formal."),
        ("Do not use for forms.", "Do not use for forms."),
        ("", ""),
    ],
)
def test_sentences_that_begin_with_a_refusal_are_dropped(description: str, kept: str) -> None:
    assert drop_exclusions(description) == kept
