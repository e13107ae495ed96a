"""The bridge to a real service: asks for a few companies and compares what it sees with every assumption we made."""
