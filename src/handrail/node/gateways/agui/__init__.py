"""AG-UI: runs of a node as the events that frontends show."""
