"""Reports for people and monitors: the report page, the change feed, status, metrics and run summaries."""
