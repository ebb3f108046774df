"""`img.describe`: what can be seen in a picture."""
