"""`handrail confirm`: a person's word on calls that wait for it."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "confirm",
    {
        "list": ("confirm.requests:list_requests", "List the calls that wait, oldest first."),
        "allow": ("confirm.requests:allow", "Let a call run once, with exactly these arguments."),
        "deny": ("confirm.requests:deny", "Refuse a call."),
        "settle": ("confirm.requests:settle_call", "Say what became of a call that is in doubt."),
        "rules": ("confirm.standing_rules:list_rules", "List your standing rules."),
        "forget": ("confirm.standing_rules:forget", "Take back a standing rule."),
    },
    "handrail confirm list",
    "handrail confirm allow confirm_0193",
)
def command() -> None:
    """Answer the calls that wait for a person's word.

    The program that asked may be at work in another process, or have ended: the answer is
    written to its journal. A program that waits for it continues at once; any other uses it when
    the call is asked for again. The first answer counts.
    """
