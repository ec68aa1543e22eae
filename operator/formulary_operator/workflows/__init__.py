"""RemediationWorkflow objects: reconciled into the catalog."""
