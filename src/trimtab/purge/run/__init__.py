"""A plan carried out: decided row by row, guarded, journalled, resumed after any end.

::

    guards    may it begin, may it go on      facts in, objections out       pure
    decide    what to do next                 events in, instructions out    pure
    collect   the facts of this machine       files, mounts, clocks, a canary
    journal   what was meant and what came of it, fsynced before and after
    shared    how far all hosts are             lines of their journal in        pure
    runner    the small shell: claims rows, carries an instruction out, hands back the event
    account   what a run has come to, journalled

The only thing that deletes is a `Remover`, the Rust core's; nothing here removes a file of a user.
"""
