"""Match: names and VAT numbers become company numbers, by a register file of the user's and without any request."""
