"""One HTML page of what the warehouse holds, for those who ask no SQL."""
