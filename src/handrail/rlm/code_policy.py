"""How calls are treated that the code of a model makes, and those of the models that it asks."""

from __future__ import annotations

from dataclasses import replace

from handrail.execute.policy import Policy


def policy_of_code(given: Policy) -> Policy:
    """The policy without origins. Code computes what it calls with, so that no value of it stands in the words of a
    person: origins are not followed through code yet, and a person would be asked about every effect."""
    return replace(given, after_untrusted="allow") if given.after_untrusted == "origins" else given
