"""Check a service: request a few companies and compare its behaviour with every assumption about it."""
