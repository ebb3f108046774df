"""`handrail tools`: the tools that models are offered."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "tools",
    {
        "list": ("tools.offered:list_tools", "List the tools, and whether they have side effects."),
        "show": ("tools.offered:show", "Show one tool: what a model is told, how its calls are handled."),
        "search": ("tools.offered:search", "Show which tools a turn would offer for a prompt."),
        "call": ("tools.call", "Call one tool by hand."),
        "check": ("tools.check", "Check files or the whole configuration, without calling anything."),
    },
    "handrail tools list",
    "handrail tools show add --tools tools.py",
    'handrail tools call add \'{"a": 1, "b": 2}\' --tools tools.py',
    "handrail tools check ensembles/*.toml",
)
def command() -> None:
    """Inspect tools, check them, and call them yourself.

    Without --tools, these are the tools that handrail.toml configures.
    """
