"""The one place where a configuration becomes a model, tools, an executor, a journal and a runner."""

from __future__ import annotations

from handrail.app.app import Adjust, AllowAll, App, AppAdditions, Ask, open_app
from handrail.app.models import SCRIPTED, model_names, open_model, settings_of
from handrail.app.person import Person

__all__ = [
    "SCRIPTED",
    "Adjust",
    "AllowAll",
    "App",
    "AppAdditions",
    "Ask",
    "Person",
    "model_names",
    "open_app",
    "open_model",
    "settings_of",
]
