"""`handrail what-if`: recorded runs against another model, prompt or policy."""
