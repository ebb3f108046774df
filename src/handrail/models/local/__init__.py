"""The embedded model: a small llama.cpp model in a child process of ours, offline.

model       the `Model`: what is asked of the engine, and its answer as events
plan        which tools are shown, and what holds the reply to its form
grammar     a grammar under which exactly one fitting call can be written
forced      such a call, as it is written, in OpenAI's chunks
router      which of many tools to show
supervisor  keeps a process at hand, and has requests answered by it
process     one child process seen from the program: started, fed, listened to, ended
child       the child process itself
wire        what crosses between the two
weights     the files: where they are, and how they get there
"""
