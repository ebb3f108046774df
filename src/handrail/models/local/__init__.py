"""The embedded model: a small llama.cpp model in a child process of ours, offline.

model           the `Model`: what is asked of the engine, and its answer as events
engine_plan     which tools are shown, and what holds the reply to its form
forced_grammar  a grammar under which exactly one fitting call can be written, and such a call in OpenAI's chunks
tool_router     which of many tools to show
engine_process  one child process seen from the program, and who keeps one at hand
child           the child process itself
wire            what crosses between the two
weights         the files: where they are, how they get there, and how the adapter is merged into them
"""
