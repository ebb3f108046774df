"""What a tool is: function, schema or TOML → Tool → Ensemble → ToolRegistry → RegisteredTools."""
