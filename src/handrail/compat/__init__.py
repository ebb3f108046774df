"""The names of five documents, one module each, so that their programs run with a changed import line.

`handrail.compat.hearthnet`, `.abstractllm`, `.nrv`, `.rlm` and `.converser` offer what their document shows, in its
spelling. They are thin: every call of a tool goes through the executor, every loop is the runner's. A new program
uses `handrail` itself.
"""
