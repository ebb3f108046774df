"""One run as a page to look at and to show: `render(from_trajectory(read(path)))`, or of the journal's record."""

from __future__ import annotations

from handrail.rlm.report.html import render
from handrail.rlm.report.journal_source import from_journal
from handrail.rlm.report.trajectory_source import from_completion, from_trajectory
from handrail.rlm.report.tree import ReportProof, ReportRun

__all__ = ["ReportProof", "ReportRun", "from_completion", "from_journal", "from_trajectory", "render"]
