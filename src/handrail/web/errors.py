"""Why a request to a session cannot be served, each with the HTTP status that says so."""

from __future__ import annotations

from typing import ClassVar

from handrail.core.errors import HandrailError


class WebSessionError(HandrailError):
    """A request that cannot be served. Its message may be shown to the user."""

    status: ClassVar[int] = 400
    """The HTTP status."""
    code: ClassVar[str] = "bad_request"


class InvalidSessionId(WebSessionError):
    """The id of a session has characters that it may not have, or is too long."""

    code = "invalid_session_id"


class SessionNotFound(WebSessionError):
    """There is no such session, or it belongs to somebody else; the error does not say which."""

    status = 404
    code = "session_not_found"

    def __init__(self) -> None:
        super().__init__("There is no such session.")


class SessionBusy(WebSessionError):
    """The session is answering another prompt, here or in another process."""

    status = 409
    code = "session_busy"

    def __init__(self) -> None:
        super().__init__("An answer is still in progress in this session. Wait until it ends, or stop it.")


class QuestionClosed(WebSessionError):
    """The question does not wait for an answer: it was answered, withdrawn, or never asked in this session."""

    status = 409
    code = "question_closed"

    def __init__(self) -> None:
        super().__init__("This question is not open any more.")


class TooManySessions(WebSessionError):
    """The maximum number of open sessions is in use."""

    status = 503
    code = "too_many_sessions"

    def __init__(self) -> None:
        super().__init__("Too many sessions are in use. Try again in a moment.")
