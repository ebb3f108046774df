"""Holding a model to a schema while it writes.

grammar_rules   a grammar as a value, its text in GBNF, the rules for any JSON, and what never ends taken out
schema_grammar  JSON Schema to a grammar
schema_merge    two schemas that both apply, as one, and which keywords a grammar enforces
regex_grammar   regular expressions to a grammar, as far as they are simple
call_grammar    the tools of a request to a grammar, or to one schema
server_fields   what to put into the request of which server
"""
