"""Carry out a plan: decided row by row, guarded, journalled, resumable after any end.

::

    guards    may it begin, may it continue   facts in, objections out       pure
    decide    what to do next                 events in, instructions out    pure
    collect   the facts of this machine       files, mounts, clocks, a canary
    journal   intentions and results, fsynced before and after
    shared    progress of all hosts           lines of their journal in      pure
    runner    the small shell: claims rows, carries an instruction out, hands back the event
    account   totals of a run, journalled

Only a `Removal` of the Rust core deletes; nothing here removes a user's file.
"""
