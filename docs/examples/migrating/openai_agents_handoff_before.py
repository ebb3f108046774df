from agents import Agent, Runner, set_default_openai_api

set_default_openai_api("chat_completions")

billing = Agent(
    name="billing",
    handoff_description="Everything about money.",
    instructions="You handle money.",
    model="gpt-4.1",
)
desk = Agent(
    name="desk",
    instructions="You are the front desk.",
    model="gpt-4.1",
    handoffs=[billing],
)

result = Runner.run_sync(desk, "I am Ada. I want my money back.")
print(result.last_agent.name)
