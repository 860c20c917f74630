"""One file per revision, frozen once released: a change of the schema is a new file."""
