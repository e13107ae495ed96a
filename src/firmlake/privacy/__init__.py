"""Personal data: find forgotten subjects and mask names in answers, lists and tables."""
