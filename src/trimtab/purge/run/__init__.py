"""Carry out a plan: decided row by row, guarded, journalled, resumable after any end.

::

    run_guard      may it begin, may it continue   facts in, objections out        pure
    next_step      what to do next                 events in, instructions out     pure
    next_batch     which rows, and how many        latency and caps in, rows out   pure
    plan_progress  progress of all hosts           lines of their journal in       pure
    surroundings   this host and the servers: clocks, files, the facts for the guards
    run_journal    intentions and results, fsynced before and after
    runner         the small shell: claims rows, carries an instruction out, hands back the event
    run_account    totals of a run, journalled

Only a `Removal` of the Rust core deletes; nothing here removes a user's file. How plans are made
and published is in `trimtab.purge.plan`.
"""
