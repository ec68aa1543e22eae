"""Processes that serve: what `up`, `serve`, `stdio` and the read commands run on."""
