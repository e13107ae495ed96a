"""What a person sees, on a terminal or in a log."""
