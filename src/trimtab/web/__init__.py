"""The dashboard and its HTTP API: read, render, and record the few changes that people may make.

It stands beside `cli`: it parses a request, calls one function of `loop`, and renders the value
with the components of the reports. Nothing imports it; the command line names it in a table.
"""
