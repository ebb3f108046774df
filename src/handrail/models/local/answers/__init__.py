"""What the embedded model may say once tools are in the conversation: nothing that no tool returned and nobody said.

bound       the rule: which sentence of the model is kept, and what is said in its place
claims      numbers, names and dates in a text, and whether the evidence has them
plausible   whether a sentence about one result says what that result says
render      results as text, without a model
phrases     the words of all that, in English and German
"""
