"""Forgetting: removes persons, contacts and companies from everything that firmlake wrote, and proves it."""
