"""The schema of a reply as one service takes it, and whether it can hold a reply to it.

A reply is checked here against the whole schema in any case. So limits that a service has no keyword for are told to
the model in words; but what has another shape than the schema says is not asked for.
"""

from __future__ import annotations

from typing import Any

from handrail.models.identity_cache import cached_by_identity
from handrail.models.profiles import Profile
from handrail.models.projection.project import Projected, project
from handrail.models.projection.rules import GEMINI_REPLY, LIMITS, OPENAI_REPLY
from handrail.models.supported_features import ServiceSchema, schema_for_service

_NO_SHAPE = LIMITS | {"oneOf", "discriminator", "examples", "deprecated", "readOnly", "writeOnly"}
"""Keywords without which a value has the same shape. Of `oneOf`, any branch is taken."""


@cached_by_identity
def openai_reply_schema(schema: dict[str, Any], profile: Profile, nulls: bool) -> ServiceSchema:
    """The strict form where it has the same shape. With `nulls`, what may be left out may come as null."""
    if nulls and profile.strict == "subset":
        told = project(schema, OPENAI_REPLY)
        if has_whole_shape(told):
            return ServiceSchema(told.schema, True)
    return schema_for_service(schema, profile)


@cached_by_identity
def gemini_reply_schema(schema: dict[str, Any]) -> ServiceSchema:
    told = project(schema, GEMINI_REPLY)
    return ServiceSchema(told.schema, True, told.lost)


def has_whole_shape(told: Projected) -> bool:
    """Whether nothing is lost but remarks, and limits of single values, which are told in words."""
    return not told.narrowed and all(each.rpartition(": ")[2] in _NO_SHAPE for each in told.lost)
