"""Charts and documents: plain values in, text out.

`trimtab.report.check` builds the page of one check; `trimtab.report.charts` specifies each chart;
`trimtab.report.render` draws it. Nothing here opens a network connection, and the pages contain no
script.
"""
