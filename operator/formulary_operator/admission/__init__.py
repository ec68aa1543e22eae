"""The admission webhook, its validator and its certificates."""
