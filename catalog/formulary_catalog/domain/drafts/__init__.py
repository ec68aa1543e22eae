"""Drafts of workflows from what people have: runbooks, skills, SSM documents, Rundeck jobs. Deterministic, no model."""
