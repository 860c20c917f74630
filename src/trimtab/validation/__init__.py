"""What documents say, as tables of data, beside what the twin says."""
