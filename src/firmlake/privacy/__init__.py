"""Personal data: which is forgotten, and how names are replaced in answers, lists and tables."""
