"""Tool calls as text, for models that have no fields for them.

formats   how a format is written: data
shapes    how the formats are recognised in what a model writes: data
marks     their marks, ready to look for
lenient   almost-JSON to JSON
elements  arguments as elements: data
found     a call, and what its readers share
code      calls as Python writes them
parse     the inside of a call to its name and arguments
scan      where the inside of a call ends
endings   what a text that ends after a mark was
detect    a stream of text to text and calls
harmony   the same for the one format that is a stream of messages
render    tools, past calls and results as text
conversation  a whole conversation in those
codec     all of it around another codec
template  the format that a chat template writes: data
ask       a server asked for its template
suspect   whether a finished text looks like a call that nobody read
"""
