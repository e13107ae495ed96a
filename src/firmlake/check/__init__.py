"""The check of a real service: ask for a few companies, and compare its behaviour with every assumption about it."""
