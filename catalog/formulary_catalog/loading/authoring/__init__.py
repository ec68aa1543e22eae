"""What authors of workflows are helped with: drafts from what they have, and expectations of searches."""
