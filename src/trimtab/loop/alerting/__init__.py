"""Alerts of a watch: decided after each slot, spooled on disk, sent by threads of their own."""
