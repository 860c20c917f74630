"""Puts a site's file and service in place."""
