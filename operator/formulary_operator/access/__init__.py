"""Who calls and what a caller may do: TokenReview and SubjectAccessReview."""
