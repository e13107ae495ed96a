"""The system of record: every answer is stored byte for byte before anything else reads it."""
