"""One way to declare, read, check, write and document a TOML file.

A field of a frozen dataclass declares its key once, ``fanout: int = key(kind, "comment", 64)``
(`schema`); `kinds` has the types of values, `problems` what is wrong and where, `writer` commented
files, `files` the text that a person wrote. The default of a key is the default of its field.
"""
