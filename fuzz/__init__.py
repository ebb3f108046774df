"""Every decoder and reader, fed what nobody would send: `python -m fuzz`.

mutate      good inputs made bad: hypothesis strategies over bytes, text and JSON
law         what a target promises, and how a broken promise shows
wires       replies of services: frames, events, the six native decoders
texts       replies as text: the prompted formats, JSON, frames between processes
records     what proves something: notes, receipts, trees, bundles, the journal
files       what people write and programs keep: tools, configuration, conversations
nodes       what describes a node: its servers, files of other programs, approvals, catalogues
servers     what MCP servers send, one message at a time
spoken      MCP servers that talk nonsense in the middle of a call
clients     what MCP clients send to our server
io_tools    what models give the tools of `io`
probability what models give the tools of `probability`
doors       what comes to a node: tokens, signatures, envelopes, messages on sockets
frames      what travels between nodes: events, messages over NATS, frames of `llm.chat`
asked       bodies of `llm.chat`, and of OpenAI's and Anthropic's clients
media       documents, questions about them, recordings, pictures
sockets     what code asks models over a socket, and trajectories
repls       what hostile interpreters and root models make of a run
run         a target for so many examples, or for so long

It finds only what breaks a law; what the right answer is, the tests say.
"""
