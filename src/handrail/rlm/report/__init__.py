"""One run as a page to look at and to show: `render(from_trajectory(read(path)))`, or of the journal's record."""

from __future__ import annotations

from handrail.rlm.report.html import render
from handrail.rlm.report.logged import from_completion, from_trajectory
from handrail.rlm.report.recorded import from_journal
from handrail.rlm.report.tree import Proof, Run

__all__ = ["Proof", "Run", "from_completion", "from_journal", "from_trajectory", "render"]
