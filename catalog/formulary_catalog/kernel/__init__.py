"""What all services share: how incidents, workflows and words are found, and the trail of it."""
