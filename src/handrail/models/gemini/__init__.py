"""Google's generateContent. Signatures of thoughts go back with exactly the parts that they came with."""

from typing import ClassVar

from handrail.models.gemini.decode import GeminiDecoder
from handrail.models.gemini.encode import GeminiOptions, encode_request
from handrail.models.gemini.tools import PROVIDER
from handrail.models.reply_decoder import ReplyDecoder
from handrail.models.tool_names import GEMINI_NAMES


class GeminiCodec(GeminiOptions, frozen=True, kw_only=True):
    """Requests and replies of Gemini's generateContent API."""

    provider = PROVIDER
    name_rule = GEMINI_NAMES
    encode = encode_request
    reply_decoder: ClassVar[type[ReplyDecoder]] = GeminiDecoder
