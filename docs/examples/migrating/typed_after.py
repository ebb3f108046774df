from pydantic import BaseModel

from handrail import Session


class City(BaseModel):
    name: str
    country: str


with Session("openai:gpt-4.1") as session:
    print(session.ask("Where do the trams go uphill?", returns=City).value)
