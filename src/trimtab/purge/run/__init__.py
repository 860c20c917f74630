"""A plan carried out: decided row by row, guarded, journalled, resumed after any end.

::

    guards    may it begin, may it go on      facts in, objections out       pure
    decide    what to do next                 events in, instructions out    pure
    collect   the facts of this machine       files, mounts, clocks, a canary
    journal   what was meant and what came of it, fsynced before and after
    runner    the small shell: carries an instruction out, journals it, hands back the event
    shared    how far several hosts are         lines of their journal in        pure
    shared_runner   the shell of one of several hosts: claims rows, takes over from lost hosts

The only thing that deletes is a `Remover`, the Rust core's; nothing here removes a file of a user.
"""
