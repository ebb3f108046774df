"""Dice, samples, distributions and statistics as tools: what models only seem to compute.

They use no network and no files. Distributions and tests need scipy, the extra `probability`.
Chance comes from the system unless a call gives a seed; then the same call gives the same values again.
"""

from __future__ import annotations

from handrail.library.probability.tools import probability_ensemble

__all__ = ["probability_ensemble"]
