from langchain.agents import create_agent
from pydantic import BaseModel


class City(BaseModel):
    name: str
    country: str


agent = create_agent("openai:gpt-4.1", response_format=City)
asked = {"messages": [{"role": "user", "content": "Where do the trams go uphill?"}]}
print(agent.invoke(asked)["structured_response"])
