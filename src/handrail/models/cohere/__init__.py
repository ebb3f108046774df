"""Cohere's Chat API, version 2. Its models plan before they call, and cite the results that they answer from."""

from typing import ClassVar

from handrail.models.cohere.decode import CohereDecoder
from handrail.models.cohere.encode import PROVIDER, CohereOptions, encode_request
from handrail.models.reply_decoder import ReplyDecoder
from handrail.models.tool_names import COHERE_NAMES


class CohereCodec(CohereOptions, frozen=True, kw_only=True):
    """Requests and replies of Cohere's Chat API, version 2."""

    provider = PROVIDER
    name_rule = COHERE_NAMES
    encode = encode_request
    reply_decoder: ClassVar[type[ReplyDecoder]] = CohereDecoder
