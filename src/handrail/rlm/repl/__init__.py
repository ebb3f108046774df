"""The REPL as a tool: what a model writes, how it runs, what it asks of the host, how its variables are made again."""
