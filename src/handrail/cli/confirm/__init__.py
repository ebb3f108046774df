"""`handrail confirm`: a person's decision on calls that wait for it."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "confirm",
    {
        "list": ("confirm.requests:list_requests", "List the calls that wait, oldest first."),
        "allow": ("confirm.requests:allow", "Allow a call once, with exactly these arguments."),
        "deny": ("confirm.requests:deny", "Deny a call."),
        "settle": ("confirm.requests:settle_call", "Say whether a call that is in doubt took effect."),
        "rules": ("confirm.standing_rules:list_rules", "List your standing rules."),
        "forget": ("confirm.standing_rules:forget", "Remove a standing rule."),
    },
    "handrail confirm list",
    "handrail confirm allow confirm_0193",
)
def command() -> None:
    """Approve or deny the calls that wait for a person.

    Your answer is written to the journal of the program that asked. If the program is waiting, it continues at once. If
    it has ended, the answer is used when the call is made again. The first answer counts.
    """
