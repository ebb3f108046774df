"""`handrail rlm`: questions over contexts that no window holds."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "rlm",
    {
        "ask": ("rlm.ask", "Ask a question over files of any size."),
        "resume": ("rlm.ask:resume", "Continue a question that was interrupted."),
        "report": ("rlm.report", "Write a run as a web page."),
    },
    "handrail rlm ask --context book.txt 'Who wrote the letter?'",
    "handrail rlm ask --context logs/ -m openai:gpt-5 --sub openai:gpt-5-mini 'Which service failed first?'",
    "handrail rlm report run_0193 -o run.html",
)
def command() -> None:
    """Ask questions about contexts larger than any context window.

    A model writes Python that reads the context, asks other models and calls tools. The code runs in a sandbox, every
    turn is in the journal, and an interrupted run can be resumed.
    """
