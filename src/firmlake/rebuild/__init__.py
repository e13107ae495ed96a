"""What is made again or removed: replay, verify, prune and archive."""
