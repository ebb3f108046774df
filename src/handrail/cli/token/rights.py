"""What a token allows, in lines for people."""

from __future__ import annotations

from handrail.cli import text
from handrail.node.tokens.scope import Scope


def rights_lines(scope: Scope) -> list[str]:
    lines = [f"may call {', '.join(map(text.printable, scope.capabilities))}"]
    for name, values in scope.params_constraints.items():
        lines.append(f"with {text.printable(name)} = {' or '.join(text.inline(value) for value in values)}")
    if scope.rate_limit_per_minute is not None:
        lines.append(f"{text.count_text(scope.rate_limit_per_minute, 'call')} in a minute, at most")
    if scope.max_calls_total is not None:
        lines.append(f"{text.count_text(scope.max_calls_total, 'call')} in all, at most")
    return lines
