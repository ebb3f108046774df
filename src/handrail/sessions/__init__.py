"""Sessions: `create_llm`, `LLM`, `Session`, and conversations on disk.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.sessions.conversion import (
        convert_to_anthropic_tools as convert_to_anthropic_tools,
        convert_to_bedrock_tools as convert_to_bedrock_tools,
        convert_to_gemini_tools as convert_to_gemini_tools,
        convert_to_ollama_tools as convert_to_ollama_tools,
        convert_to_openai_responses_tools as convert_to_openai_responses_tools,
        convert_to_openai_tools as convert_to_openai_tools,
        convert_tools as convert_tools,
    )
    from handrail.sessions.create import create_llm as create_llm
    from handrail.sessions.llm import LLM as LLM
    from handrail.sessions.replies import (
        AsyncSessionStream as AsyncSessionStream,
        SessionReply as SessionReply,
        SessionStream as SessionStream,
    )
    from handrail.sessions.session import Session as Session
    from handrail.sessions.store.conversations import ConversationStore as ConversationStore
    from handrail.sessions.store.embedding import WordLlamaEmbedder as WordLlamaEmbedder
    from handrail.sessions.store.spill import DirectorySpill as DirectorySpill
    from handrail.sessions.tool_requests import ToolCallRequest as ToolCallRequest, execute_tools as execute_tools

export_lazily(
    __name__,
    {
        "handrail.sessions.conversion": (
            "convert_to_anthropic_tools convert_to_bedrock_tools convert_to_gemini_tools convert_to_ollama_tools "
            "convert_to_openai_responses_tools convert_to_openai_tools convert_tools"
        ),
        "handrail.sessions.create": "create_llm",
        "handrail.sessions.llm": "LLM",
        "handrail.sessions.replies": "AsyncSessionStream SessionReply SessionStream",
        "handrail.sessions.session": "Session",
        "handrail.sessions.store.conversations": "ConversationStore",
        "handrail.sessions.store.embedding": "WordLlamaEmbedder",
        "handrail.sessions.store.spill": "DirectorySpill",
        "handrail.sessions.tool_requests": "ToolCallRequest execute_tools",
    },
)
