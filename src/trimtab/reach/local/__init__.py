"""The driver of a file system mounted on this host: devices, allocator, settings, trims, drives.

The Lustre driver uses the same code on the files that it collects from a server.
"""
