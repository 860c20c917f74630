"""What the two sides of a comparison are: named, fetched from the store, and put in pairs."""
