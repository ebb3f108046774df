"""Who calls, and what they were allowed: identities, signatures of calls, tokens, and the admission that reads them."""
