"""May this caller use this tool? The caller's right comes with the call, never from the node."""

from __future__ import annotations

from handrail.core.context import Context
from handrail.core.errors import Forbidden


class ScopeAuthoriser:
    """Rights as values: the scopes of the principal, narrowed by those of the call."""

    async def authorise(self, context: Context, names: tuple[str, ...]) -> None:
        if not context.allows(*names):
            raise Forbidden(f"{names[0]!r} is outside what {context.principal.id!r} may call; do not try it again")
