"""OpenAI's Responses, as Open Responses specifies them, from the side of the server."""
