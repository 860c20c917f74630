"""The site file: what a site is, what it is held to, and what is probed when.

``schema`` says what may stand in it, ``load`` finds and reads it, ``write`` makes a commented one,
``schedule`` turns schedules into times: pure functions of the clock.
"""
