from langchain.agents import create_agent

agent = create_agent("openai:gpt-4.1")

asked = {"messages": [{"role": "user", "content": "Hello!"}]}
for chunk, _ in agent.stream(asked, stream_mode="messages"):
    print(chunk.text, end="", flush=True)
print()
