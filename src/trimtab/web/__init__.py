"""The dashboard and its HTTP API: read, render, and record the few changes that users may make.

Like `trimtab.cli`, it parses a request, calls one function of a room, and renders the value with
the components of `show`. Pages that belong to one room are in that room, as `page_web_*`; nothing
else imports this one. The command line names it in a table.
"""
