"""Google's Interactions API: a conversation is a list of steps, and nothing of it is stored at the service."""

from typing import ClassVar

from handrail.models.interactions.decode import InteractionsDecoder
from handrail.models.interactions.encode import PROVIDER, InteractionsOptions, encode_request
from handrail.models.reply_decoder import ReplyDecoder
from handrail.models.tool_names import GEMINI_NAMES


class InteractionsCodec(InteractionsOptions, frozen=True, kw_only=True):
    """Requests and replies of Gemini's Interactions API."""

    provider = PROVIDER
    name_rule = GEMINI_NAMES
    encode = encode_request
    reply_decoder: ClassVar[type[ReplyDecoder]] = InteractionsDecoder
