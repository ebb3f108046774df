"""Long texts made short, by the model that the program is given: in pieces, then the pieces' notes together.

It is a fold of a fixed shape and no loop of a model: nothing that the model says
decides how often it is asked. Texts are data in every request.
"""

from __future__ import annotations

from handrail.library.summarization.fold import SummarizationSettings
from handrail.library.summarization.tools import summarization_ensemble

__all__ = ["SummarizationSettings", "summarization_ensemble"]
