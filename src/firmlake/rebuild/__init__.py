"""Rebuild and remove: replay, verify, prune and archive."""
