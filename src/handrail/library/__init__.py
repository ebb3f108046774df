"""The standard ensembles: io, probability and summarization.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.library.io import io_ensemble as io_ensemble
    from handrail.library.io.settings import IoLimits as IoLimits, IoSettings as IoSettings
    from handrail.library.probability.tools import probability_ensemble as probability_ensemble
    from handrail.library.summarization.fold import SummarizationSettings as SummarizationSettings
    from handrail.library.summarization.tools import summarization_ensemble as summarization_ensemble

export_lazily(
    __name__,
    {
        "handrail.library.io": "io_ensemble",
        "handrail.library.io.settings": "IoLimits IoSettings",
        "handrail.library.probability.tools": "probability_ensemble",
        "handrail.library.summarization.fold": "SummarizationSettings",
        "handrail.library.summarization.tools": "summarization_ensemble",
    },
)
