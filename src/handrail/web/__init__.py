"""Sessions for web applications: kept by id, streamed to browsers as server-sent events, confirmed from other requests.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.web.errors import (
        InvalidSessionId as InvalidSessionId,
        QuestionClosed as QuestionClosed,
        SessionBusy as SessionBusy,
        SessionNotFound as SessionNotFound,
        TooManySessions as TooManySessions,
        WebSessionError as WebSessionError,
    )
    from handrail.web.events import WebEvent as WebEvent
    from handrail.web.kept_session import WebSession as WebSession, WebSessionEvents as WebSessionEvents
    from handrail.web.kept_sessions import WebSessions as WebSessions
    from handrail.web.responses import error_response as error_response, sse as sse

export_lazily(
    __name__,
    {
        "handrail.web.errors": (
            "InvalidSessionId QuestionClosed SessionBusy SessionNotFound TooManySessions WebSessionError"
        ),
        "handrail.web.events": "WebEvent",
        "handrail.web.kept_session": "WebSession WebSessionEvents",
        "handrail.web.kept_sessions": "WebSessions",
        "handrail.web.responses": "error_response sse",
    },
)
