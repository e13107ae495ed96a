"""`firmlake explore`: a local web application over the newest generation, read-only, on this machine alone."""
