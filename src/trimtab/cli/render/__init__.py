"""Render plain values on a terminal. Nothing here decides anything."""
