"""The APIs that programs already speak: any client of OpenAI's or Anthropic's gets answers made with the node's tools.

A request becomes one run: the tools of the node are called here, those that the
client declares are handed back to it. No model and no tool is known here; the
gateway is given both.
"""
