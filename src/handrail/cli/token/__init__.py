"""`handrail token`: tokens that this node issues, and what became of them."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "token",
    {
        "issue": ("token.commands:issue_token", "Issue a token, or pass on a part of one."),
        "show": ("token.commands:show", "Show what a token allows, and whether it is valid here."),
        "list": ("token.commands:list_tokens", "List the tokens that this node issued."),
        "revoke": ("token.commands:revoke", "Revoke a token."),
    },
    "handrail token issue --can 'rag.*@1.*' --param corpus=docs > reader.token",
    "handrail token issue --from reader.token --ttl 10m --calls 5 > short.token",
    "handrail token show reader.token",
    "handrail token revoke 01HF7YAT",
)
def command() -> None:
    """Issue, inspect and revoke tokens.

    A token lets its holder call the listed capabilities, up to its limits, until it expires. This node issues tokens
    with its own key, and records them in .handrail/tokens.db beside the journal, but never stores the tokens
    themselves. A holder can pass on a part of a token, never more than it allows.
    """
