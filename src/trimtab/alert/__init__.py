"""Which alerts the record of a site asks for, given those already sent. Pure."""
