"""One way to declare, read, check, write and document a TOML file.

A field of a frozen dataclass declares its key once, ``fanout: int = key(kind, "comment", 64)``
(`schema`); `kinds` has the types of values, `problems` the errors and their places, `writer`
commented files, `files` reading and writing. The default of a key is the default of its field.
"""
