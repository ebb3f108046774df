"""Tests of tools and ensembles from TOML files."""
