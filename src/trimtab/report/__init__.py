"""Charts and documents: plain values in, text out.

`trimtab.report.check` writes the page of one check; `trimtab.report.charts` says what each chart
shows; `trimtab.report.render` draws it. Nothing here opens a network connection, and the pages
hold no script.
"""
