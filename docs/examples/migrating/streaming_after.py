from handrail import Session

with Session("openai:gpt-4.1") as session:
    for piece in session.stream("Hello!").text_stream:
        print(piece, end="", flush=True)
print()
