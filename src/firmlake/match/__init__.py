"""Match company names and VAT numbers to company numbers offline, with the user's register files."""
