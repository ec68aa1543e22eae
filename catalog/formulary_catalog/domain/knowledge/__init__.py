"""Documents of the knowledge collections: sections of workflows, ended incidents and runbooks."""
