"""`handrail tools`: look at tools, check them, call them."""
