"""WorkflowInvocation and InvocationApproval objects: runs, submitted, started and followed."""
