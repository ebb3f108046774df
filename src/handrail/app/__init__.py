"""The one place where a configuration becomes a model, tools, an executor, a journal and a runner.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.app.app import (
        Adjust as Adjust,
        AllowAll as AllowAll,
        App as App,
        AppAdditions as AppAdditions,
        Ask as Ask,
        open_app as open_app,
    )
    from handrail.app.models import (
        SCRIPTED as SCRIPTED,
        model_names as model_names,
        open_model as open_model,
        settings_of as settings_of,
    )
    from handrail.app.person import Person as Person

export_lazily(
    __name__,
    {
        "handrail.app.app": "Adjust AllowAll App AppAdditions Ask open_app",
        "handrail.app.models": "SCRIPTED model_names open_model settings_of",
        "handrail.app.person": "Person",
    },
)
