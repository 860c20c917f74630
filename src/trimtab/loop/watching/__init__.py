"""Watch a site: decide what is due, run it, store it, detect incidents."""
