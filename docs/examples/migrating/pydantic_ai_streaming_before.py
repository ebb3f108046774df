from pydantic_ai import Agent

agent = Agent("openai-chat:gpt-4.1")

with agent.run_stream_sync("Hello!") as result:
    for piece in result.stream_text(delta=True):
        print(piece, end="", flush=True)
print()
