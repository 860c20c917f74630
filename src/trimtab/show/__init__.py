"""What all commands share to show a result: pages, charts, terminal output, and options.

The pages and documents of single commands lie in the rooms of their subjects; JSON is in
`trimtab.base.encode`.
"""
