"""The allowance of a key, which limits requests across all processes that use the key."""
