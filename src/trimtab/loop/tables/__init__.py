"""Tables of anybody's as columns of text: parted, and read as times and numbers."""
