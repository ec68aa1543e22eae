"""What may be done and why: risks, rules of contracts, evidence, and the decision that follows. Pure functions."""
