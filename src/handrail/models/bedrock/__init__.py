"""Amazon Bedrock's Converse: one wire for the models of many makers. `transport.py` reaches it through botocore."""

from typing import ClassVar

from handrail.models.bedrock.decode import BedrockDecoder
from handrail.models.bedrock.encode import BedrockOptions, encode_request
from handrail.models.bedrock.tools import PROVIDER
from handrail.models.reply_decoder import ReplyDecoder
from handrail.models.tool_names import BEDROCK_NAMES


class BedrockCodec(BedrockOptions, frozen=True, kw_only=True):
    """Requests and replies of Amazon Bedrock's Converse API."""

    provider = PROVIDER
    name_rule = BEDROCK_NAMES
    encode = encode_request
    reply_decoder: ClassVar[type[ReplyDecoder]] = BedrockDecoder
