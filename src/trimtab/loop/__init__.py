"""Check, probe, status: the only place that joins the steps measure, record, judge and explain."""
