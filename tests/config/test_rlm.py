"""`[rlm]`: what it says, and how its mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.config.load import load_config
from handrail.config.rlm import RlmSettings
from handrail.config.values import Config
from handrail.core.errors import ConfigError
from handrail.sandbox.port import ReplLimits


def read(folder: Path, text: str) -> Config:
    path = folder / "handrail.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def test_everything_that_a_file_can_say(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [models.small]
        provider = "local"

        [rlm]
        model = "anthropic:claude-sonnet-4-5"
        sub_models = ["small", "openai:gpt-5-mini"]
        environment = "os"
        max_depth = 2
        max_iterations = 12
        max_budget = 1
        max_timeout = 90.5
        max_tokens = 100000
        max_errors = 3
        concurrency = 4
        memory_mb = 256
        cell_seconds = 20
        """,
    )

    assert config.rlm == RlmSettings(
        model="anthropic:claude-sonnet-4-5",
        sub_models=("small", "openai:gpt-5-mini"),
        environment="os",
        max_depth=2,
        max_iterations=12,
        max_budget=1.0,
        max_timeout=90.5,
        max_tokens=100_000,
        max_errors=3,
        concurrency=4,
        limits=ReplLimits(memory_bytes=256 * 2**20, cell_seconds=20.0),
    )


def test_a_file_without_it_has_the_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, "").rlm == RlmSettings()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("modle = 'local'", "modle"),
        ("model = 'none'", "there is no [models.none]"),
        ("sub_models = ['local', 'none']", "there is no [models.none]"),
        ("sub_models = 'local'", "sub_models"),
        ("environment = 'docker'", "docker"),
        ("max_depth = 0", "max_depth"),
        ("max_iterations = true", "max_iterations"),
        ("max_budget = 0", "must be a number above 0"),
        ("max_budget = nan", "must be a number above 0"),
        ("max_timeout = -1", "max_timeout"),
        ("memory_mb = 1", "memory_mb"),
        ("cell_seconds = 'long'", "cell_seconds"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ConfigError) as failed:
        read(tmp_path, f"[rlm]\n{line}\n")

    assert said in str(failed.value)
    assert "handrail.toml" in str(failed.value)
    assert "rlm" in str(failed.value)
