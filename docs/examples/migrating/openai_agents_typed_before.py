from agents import Agent, Runner, set_default_openai_api
from pydantic import BaseModel

set_default_openai_api("chat_completions")


class City(BaseModel):
    name: str
    country: str


agent = Agent(name="guide", model="gpt-4.1", output_type=City)
print(Runner.run_sync(agent, "Where do the trams go uphill?").final_output)
