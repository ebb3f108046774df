"""The data files of handrail's embedded model. No code: handrail finds the files without importing this."""
