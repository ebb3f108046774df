"""Doubles for tests of programs that use handrail: public, and held to the same contracts as the real parts.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.testing.cassettes import (
        Cassette as Cassette,
        CassetteMismatch as CassetteMismatch,
        CassetteMode as CassetteMode,
        cassette as cassette,
    )
    from handrail.testing.clock import FixedClock as FixedClock
    from handrail.testing.embedding import WordEmbedder as WordEmbedder
    from handrail.testing.ids import CountedIds as CountedIds
    from handrail.testing.invocations import invocation as invocation
    from handrail.testing.journal import MemoryJournal as MemoryJournal
    from handrail.testing.loop import LoopClock as LoopClock, SeededLoop as SeededLoop
    from handrail.testing.model import (
        ScriptedAnswer as ScriptedAnswer,
        ScriptedModel as ScriptedModel,
        answer as answer,
        call as call,
        text as text,
    )
    from handrail.testing.script import (
        ReplyLine as ReplyLine,
        Script as Script,
        ScriptedCall as ScriptedCall,
        ScriptFile as ScriptFile,
    )
    from handrail.testing.tools import RecordedTools as RecordedTools

export_lazily(
    __name__,
    {
        "handrail.testing.cassettes": "Cassette CassetteMismatch CassetteMode cassette",
        "handrail.testing.clock": "FixedClock",
        "handrail.testing.embedding": "WordEmbedder",
        "handrail.testing.ids": "CountedIds",
        "handrail.testing.invocations": "invocation",
        "handrail.testing.journal": "MemoryJournal",
        "handrail.testing.loop": "LoopClock SeededLoop",
        "handrail.testing.model": "ScriptedAnswer ScriptedModel answer call text",
        "handrail.testing.script": "ReplyLine Script ScriptFile ScriptedCall",
        "handrail.testing.tools": "RecordedTools",
    },
)
