"""A person at the terminal of this process, who is asked about calls there."""
