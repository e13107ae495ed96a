"""Remove persons, contacts and companies from everything that firmlake wrote, and prove it."""
