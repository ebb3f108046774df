"""`handrail token`: tokens that this node issues, and what became of them."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "token",
    {
        "issue": ("token.commands:issue_token", "Issue a token, or pass on a part of one."),
        "show": ("token.commands:show", "Show what a token is for, and whether it is good here."),
        "list": ("token.commands:list_tokens", "List the tokens that this node issued."),
        "revoke": ("token.commands:revoke", "Let a token be good no more."),
    },
    "handrail token issue --can 'rag.*@1.*' --param corpus=docs > reader.token",
    "handrail token issue --from reader.token --ttl 10m --calls 5 > short.token",
    "handrail token show reader.token",
    "handrail token revoke 01HF7YAT",
)
def command() -> None:
    """Tokens: what others may call here, and how often.

    Who has one may call what it says, as often as it says, until it ends. This node issues them with its own key, and
    remembers them in .handrail/tokens.db beside the journal; the tokens themselves are kept nowhere. A part of a token
    can be passed on, never more of it.
    """
