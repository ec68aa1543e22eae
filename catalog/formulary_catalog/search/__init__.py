"""Answering: the incident's context, the search, the details, and the trail they leave."""
