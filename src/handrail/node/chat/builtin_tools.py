"""The tools that a node offers its models, ready to be named: definitions, each bound to a capability."""

from __future__ import annotations

import difflib
from typing import Any

from handrail.core.errors import UsageError
from handrail.node.chat.schema import object_schema
from handrail.tools.definition import Binding, ToolDefinition


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


_CATEGORY = {"type": "string", "enum": ["offer", "request", "info", "emergency"]}
_TAGS = {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 20, "uniqueItems": True}
_LANGUAGE = {"type": "string", "pattern": "^[A-Za-z]{2,3}$"}

_ALL = (
    ToolDefinition(
        "search_corpus",
        "Search the documents of a corpus for the passages that fit best, each with its document and page. "
        "Use it for every question of fact that the corpus may answer, and base your answer on the passages.",
        object_schema(
            {
                "query": _text("What to look for, in words of the documents.", minLength=1),
                "corpus": _text(
                    "The name of the corpus; list_corpora lists the names.", pattern="^[a-z0-9][a-z0-9_.-]{0,99}$"
                ),
                "k": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 20,
                    "default": 5,
                    "description": "The number of passages.",
                },
                "filter": object_schema(
                    {
                        "language": {**_LANGUAGE, "description": "Only documents in this language, as `de`."},
                        "min_year": {"type": "integer", "description": "Only documents of this year or later."},
                    }
                ),
            },
            "query",
            "corpus",
        ),
        binding=Binding("rag.query", params=("corpus",)),
        untrusted=True,
    ),
    ToolDefinition(
        "list_corpora",
        "List the corpora of documents that can be searched, with their sizes.",
        object_schema({}),
        binding=Binding("rag.list_corpora"),
    ),
    ToolDefinition(
        "translate",
        "Translate a text to another language.",
        object_schema(
            {
                "text": _text("The text.", minLength=1),
                "to": {**_LANGUAGE, "description": "The language to translate to, as `en` or `de`."},
                "from": _text("The language of the text, as `de`; leave it out if you do not know it."),
                "domain": _text("What the text is about, as `medicine`."),
            },
            "text",
            "to",
        ),
        binding=Binding("trans.text"),
        untrusted=True,
    ),
    ToolDefinition(
        "find_neighbour",
        "List the nodes of this community and what each of them can do.",
        object_schema({"capability": _text("Only nodes that offer this capability, such as `rag.query`.")}),
        binding=Binding("peers.list"),
        untrusted=True,
    ),
    ToolDefinition(
        "list_marketplace",
        "The posts on the community's marketplace: what people offer, request and announce.",
        object_schema(
            {
                "category": {**_CATEGORY, "description": "Only posts of this kind."},
                "tags": {**_TAGS, "description": "Only posts that have all of these."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
            }
        ),
        binding=Binding("market.list"),
        untrusted=True,
    ),
    ToolDefinition(
        "describe_image",
        "Describe a picture: give a caption, its text, its objects or tags.",
        object_schema(
            {
                "image_cid": _text("The cid of the blob with the picture: `blake3:…`."),
                "task": {
                    "type": "string",
                    "enum": ["caption", "detailed_caption", "ocr", "objects", "tags"],
                    "default": "caption",
                },
                "language": {**_LANGUAGE, "description": "The language of the answer, or of the text to read."},
            },
            "image_cid",
        ),
        binding=Binding("img.describe"),
        timeout=120.0,
        untrusted=True,
    ),
    ToolDefinition(
        "transcribe_audio",
        "Transcribe a recording to text.",
        object_schema(
            {
                "audio_cid": _text("The cid of the blob with the recording: `blake3:…`."),
                "language": {**_LANGUAGE, "description": "The language that is spoken."},
            },
            "audio_cid",
        ),
        binding=Binding("stt.transcribe"),
        timeout=300.0,
        untrusted=True,
    ),
    ToolDefinition(
        "post_to_marketplace",
        "Publish a post on the community's marketplace, in the user's name. The user approves it first.",
        object_schema(
            {
                "category": _CATEGORY,
                "title": _text("A short title.", minLength=1, maxLength=200),
                "body": _text("The full text of the post.", maxLength=10_000),
                "tags": _TAGS,
                "ttl_seconds": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Seconds after which the post expires.",
                },
            },
            "category",
            "title",
            "body",
        ),
        binding=Binding("market.post"),
        side_effects=True,
    ),
    ToolDefinition(
        "send_message",
        "Send a message to one person of the community, in the user's name. The user approves it first.",
        object_schema(
            {
                "recipient": _text("The id of their node; find_neighbour lists the ids.", minLength=1),
                "body": _text("The message.", minLength=1),
            },
            "recipient",
            "body",
        ),
        binding=Binding("chat.send"),
        side_effects=True,
    ),
)
BUILTIN: dict[str, ToolDefinition] = {tool.name: tool for tool in _ALL}
READ_ONLY: tuple[str, ...] = tuple(tool.name for tool in _ALL if not tool.side_effects)
"""The seven that only look."""


def builtin_tools(*names: str) -> list[ToolDefinition]:
    """The built-in tools of these names; without names, those that only look.

    Raises:
        UsageError: There is none of that name.
    """
    return [_named(name) for name in names or READ_ONLY]


def _named(name: str) -> ToolDefinition:
    if name not in BUILTIN:
        near = difflib.get_close_matches(name, BUILTIN, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(BUILTIN)}"
        raise UsageError(f"there is no built-in tool {name!r}; {hint}")
    return BUILTIN[name]
