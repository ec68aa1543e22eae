"""Why a workflow is in an answer and why not, for a new search or one that the trail recorded."""
