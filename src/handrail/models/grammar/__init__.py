"""Holding a model to a schema while it writes.

rules     a grammar as a value, and its text in GBNF
schema    JSON Schema to a grammar
keywords  which of its keywords a grammar enforces
merge     two schemas that both apply, as one
pattern   regular expressions to a grammar, as far as they are simple
anything  rules for JSON of any kind
ends      a grammar without what never ends
calls     the tools of a request to a grammar, or to one schema
fields    what to put into the request of which server
"""
