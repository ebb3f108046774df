"""`handrail.toml`: which models, tools, rules and limits a program or a person works with."""
