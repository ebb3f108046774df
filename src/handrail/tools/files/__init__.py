"""Tools and ensembles that are written down in TOML files."""
