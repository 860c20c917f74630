"""obdfilter-survey: the bandwidth of OSTs on their servers, without network and clients.

A survey leaves two files: ``NAME.summary``, a line for each combination of record size, objects
and threads (`summary`), and ``NAME.detail``, with what each OST did in each of them (`detail`).
They are one result; either can be read alone.
"""

from trimtab.measure.obdfilter_survey.reading import FORMAT, read

__all__ = ["FORMAT", "read"]
