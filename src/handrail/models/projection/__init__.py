"""A tool's schema as each service takes it, and a report of what it could not be told.

The full schema is always enforced here, after the call has come back. A projection
only helps the model to write the call, so what is lost costs a second try, never a
wrong argument.
"""

from handrail.models.projection.lint import violations
from handrail.models.projection.nulls import without_nulls
from handrail.models.projection.project import Projected, project
from handrail.models.projection.rules import (
    ANTHROPIC,
    BEDROCK,
    FULL,
    GEMINI,
    OLLAMA,
    OPENAI,
    OPENAI_STRICT,
    SchemaRules,
)

__all__ = [
    "ANTHROPIC",
    "BEDROCK",
    "FULL",
    "GEMINI",
    "OLLAMA",
    "OPENAI",
    "OPENAI_STRICT",
    "Projected",
    "SchemaRules",
    "project",
    "violations",
    "without_nulls",
]
