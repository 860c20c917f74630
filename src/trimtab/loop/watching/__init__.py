"""The parts of the watch: what is due, who watches, what is said and kept."""
