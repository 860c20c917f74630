"""The command line: parse, call one function, render. Nothing is decided here."""
