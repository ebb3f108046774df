"""`stt.transcribe`: what is said in a recording."""
