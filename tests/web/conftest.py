"""The browser of the page's tests, for the application of docs/examples/web_app."""

from tests.desk.page.conftest import browser, engine

__all__ = ["browser", "engine"]
