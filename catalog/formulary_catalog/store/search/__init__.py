"""The statement of a search: filters, candidates, distances, words and the page."""
