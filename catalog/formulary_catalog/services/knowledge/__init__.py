"""What is known beside the workflows to run: sections, past incidents, runbooks."""
