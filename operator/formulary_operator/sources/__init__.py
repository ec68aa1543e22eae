"""IncidentSource objects: reconciled into the sources whose alerts are taken."""
