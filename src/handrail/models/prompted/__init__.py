"""Tool calls as text, for models that have no fields for them.

formats            how a format is written: data
call_shapes        how the formats are recognised in what a model writes: data
format_marks       their marks, ready to look for, and what a text that ends after one was
lenient_json       almost-JSON to JSON
argument_elements  arguments as elements: data
found_call         a call, what its readers share, and calls as Python writes them
call_parser        the inside of a call to its name and arguments
body_scanners      where the inside of a call ends
call_detector      a stream of text to text and calls
harmony_detector   the same for the one format that is a stream of messages
prompt_text        tools, past calls and results as text
text_conversation  a whole conversation in those
codec              all of it around another codec
template_lookup    the format that a server's chat template writes
missed_calls       whether a finished text looks like a call that nobody read
"""
