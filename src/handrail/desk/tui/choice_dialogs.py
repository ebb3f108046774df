"""What a conversation goes on with: a model, and sets of tools. The dialogs that ask for them."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.desk.tui.dialogs import PickDialog, PickSomeDialog
from handrail.desk.tui.formatting import count_text, line
from handrail.desk.values import DeskInfo, EnsembleChoice


def pick_model(about: DeskInfo, current: str) -> PickDialog:
    rows = [(each.name, f"{each.name}  {each.model}" if each.model else each.name) for each in about.models]
    return PickDialog("Go on with which model?", rows, chosen=current)


def pick_ensembles(about: DeskInfo, current: Sequence[str] | None) -> PickSomeDialog:
    """None is all of them."""
    rows = [(each.name, _row(each)) for each in about.ensembles]
    chosen = [each.name for each in about.ensembles] if current is None else current
    return PickSomeDialog("Which sets of tools are offered?", rows, chosen)


def _row(choice: EnsembleChoice) -> str:
    problem = f", {line(choice.problem, 40)}" if choice.problem else ""
    return f"{choice.name or 'own tools'}, {count_text(choice.tools, 'tool')}{problem}"
