"""Plain values as people read them in a terminal. Nothing here decides anything."""
