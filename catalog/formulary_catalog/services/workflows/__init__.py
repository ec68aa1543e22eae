"""Services that read the catalog: pages, names, relations, sections, skills."""
