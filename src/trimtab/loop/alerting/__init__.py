"""Alerts of a watch: decided after each slot, kept in the ledger, sent by threads of their own."""
