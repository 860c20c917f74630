"""What all commands share to show a result: pages, charts, terminal output, JSON, and options.

The pages and documents of single commands lie in the rooms of their subjects.
"""
