"""The allowance of a key: it limits requests across all processes that use the key."""
