"""The figures of the five documents beside what the twin says of them."""
