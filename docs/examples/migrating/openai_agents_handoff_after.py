from handrail import Agent, Session, create_llm

with create_llm("openai:gpt-4.1") as llm:
    billing = Agent(
        llm,
        name="billing",
        description="Everything about money.",
        system_prompt="You handle money.",
    )
    desk = Agent(
        llm,
        name="desk",
        system_prompt="You are the front desk.",
        handoffs=[billing],
    )

    with Session(desk) as session:
        session.ask("I am Ada. I want my money back.")
        print(session.agent)
