from pydantic import BaseModel
from pydantic_ai import Agent


class City(BaseModel):
    name: str
    country: str


agent = Agent("openai-chat:gpt-4.1", output_type=City)
print(agent.run_sync("Where do the trams go uphill?").output)
