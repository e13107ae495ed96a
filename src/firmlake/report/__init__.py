"""What people read: the report page, the change feed, status, metrics and run summaries."""
