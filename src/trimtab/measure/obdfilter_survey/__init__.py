"""obdfilter-survey: bandwidth of OSTs on their servers, without network and clients.

A survey writes two files: ``NAME.summary``, with a line for each combination of record size,
objects and threads (`summary`), and ``NAME.detail``, with each OST's figures (`detail`). They are
one result; each can be read alone.
"""

from trimtab.measure.obdfilter_survey.reading import FORMAT, read

__all__ = ["FORMAT", "read"]
