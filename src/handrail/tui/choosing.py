"""What a conversation goes on with: a model, and sets of tools. The dialogs that ask for them."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.desk.values import About, EnsembleChoice
from handrail.tui.dialogs import Pick, PickSome
from handrail.tui.words import count, line


def pick_model(about: About, current: str) -> Pick:
    rows = [(each.name, f"{each.name}  {each.model}" if each.model else each.name) for each in about.models]
    return Pick("Go on with which model?", rows, chosen=current)


def pick_ensembles(about: About, current: Sequence[str] | None) -> PickSome:
    """None is all of them."""
    rows = [(each.name, _row(each)) for each in about.ensembles]
    chosen = [each.name for each in about.ensembles] if current is None else current
    return PickSome("Which sets of tools are offered?", rows, chosen)


def _row(choice: EnsembleChoice) -> str:
    problem = f", {line(choice.problem, 40)}" if choice.problem else ""
    return f"{choice.name or 'own tools'}, {count(choice.tools, 'tool')}{problem}"
