"""Reads what a program printed and somebody pasted as a query."""
