"""Where the values of a run come from, and which of them may direct what its calls do."""
