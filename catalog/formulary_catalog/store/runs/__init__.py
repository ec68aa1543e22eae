"""Runs as rows, and what stops them: submission, approvals, lifecycle, contracts and halts."""
