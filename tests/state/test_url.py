"""The address of a shared state: what is one, what is said of others, and that its password is shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from handrail.config.load import load_config
from handrail.config.powers import powers_of
from handrail.core.errors import ConfigError, UsageError
from handrail.core.redact import redact_text
from handrail.state import StateUrl

PASSWORD = "s3cr%40et-enough"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://ada:{PASSWORD}@db.example:5432/handrail",
        f"postgres://ada:{PASSWORD}@db.example/handrail?sslmode=verify-full",
        f"postgresql://ada@a:5432,b:5433/handrail?password={PASSWORD}",
        f"postgresql:///handrail?host=/var/run/postgresql&user=ada&password={PASSWORD}",
        f"postgresql://ada:{PASSWORD}@[::1]:5432/handrail",
    ],
)
def test_no_text_of_an_address_has_its_password(text: str) -> None:
    url = StateUrl(text)

    assert url.dsn == text
    assert PASSWORD not in f"{url} {url!r}"
    assert "handrail" in str(url)
    assert "s3cr@et-enough" not in redact_text("it failed with s3cr@et-enough")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sqlite:///x.db", "only PostgreSQL"),
        ("handrail", "no scheme"),
        ("", "no scheme"),
        ("postgresql://ada@db.example", "names no database"),
        ("postgresql://ada@db.example/one/two", "no '/'"),
        ("postgresql://ada@db.example:port/handrail", "cannot be read"),
        ("postgresql://[::1/handrail", "cannot be read"),
    ],
)
def test_what_is_no_address_is_told_with_how_one_is_written(text: str, told: str) -> None:
    with pytest.raises(UsageError, match="postgresql://USER@HOST:5432/DATABASE") as raised:
        StateUrl(text)

    assert told in str(raised.value)


@given(st.text(st.sampled_from("abc@/:#?%[]X"), min_size=1, max_size=12))
def test_a_password_is_shown_by_no_error_and_by_no_text(inner: str) -> None:
    password = f"SECRET{inner}SECRET"
    try:
        told = f"{StateUrl(f'postgresql://ada:{password}@db.example/handrail')!r}"
    except UsageError as error:
        told = str(error)

    assert "SECRET" not in told


def test_a_file_names_it_and_the_variable_of_the_user_counts_more(tmp_path: Path) -> None:
    path = tmp_path / "handrail.toml"
    path.write_text('[state]\nurl = "postgresql://db.example/handrail"\n')

    named = load_config(path, {})
    assert str(named.state.url) == "postgresql://db.example/handrail"
    assert any("postgresql://db.example/handrail" in line for line in powers_of(named, {}).lines)

    environ = {"HANDRAIL_STATE": "postgresql:///mine"}
    mine = load_config(path, environ)
    assert str(mine.state.url) == "postgresql:///mine"
    assert powers_of(mine, environ).lines == ()
    assert str(load_config(None, environ).state.url) == "postgresql:///mine"
    assert load_config(None, {}).state.url is None


def test_a_file_names_the_variable_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "handrail.toml"
    path.write_text('[state]\nurl = "env:STATE_OF_MINE"\n')

    assert load_config(path, {"STATE_OF_MINE": f"postgresql://ada:{PASSWORD}@db/x"}).state.url == StateUrl(
        f"postgresql://ada:{PASSWORD}@db/x"
    )
    with pytest.raises(ConfigError, match="STATE_OF_MINE"):
        load_config(path, {})


@pytest.mark.parametrize("written", [f"postgresql://ada:{PASSWORD}@db/x", "mysql://db/x"])
def test_a_wrong_address_in_a_file_is_told_with_its_place(tmp_path: Path, written: str) -> None:
    path = tmp_path / "handrail.toml"
    path.write_text(f'[state]\nurl = "{written}"\n')

    with pytest.raises(ConfigError, match=r"handrail\.toml:2: state\.url") as raised:
        load_config(path, {})
    assert PASSWORD not in str(raised.value)
