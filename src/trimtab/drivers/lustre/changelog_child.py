"""Reads or clears the changelog of one MDT, in a process that may hang in its place.

``python -I -S changelog_child.py read DEVICE FIRST LIMIT`` prints whole binary records from one
on, until the log ends or so many bytes are printed; then exit code 0 or 3.
``... clear DEVICE USER INDEX`` tells the MDT; exit code 0, or 4 and the error number.
"""

import os
import sys

MORE = 3
REFUSED = 4
_BUFFER_BYTES = 1 << 20


def read(device, first, limit):
    """Print records; return whether there may be more."""
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    # The device counts in records. At 0 it begins with the first that it has.
    os.lseek(descriptor, first, os.SEEK_SET)
    printed = 0
    while printed < limit:
        data = os.read(descriptor, _BUFFER_BYTES)
        if not data:
            return False
        sys.stdout.buffer.write(data)
        printed += len(data)
    return True


def clear(device, user, index):
    """Tell the MDT that a user needs nothing up to a record any more."""
    descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    os.write(descriptor, f"clear:cl{user}:{index}".encode() + b"\0")


def main():
    """Do what the command line says."""
    verb, device, first, second = sys.argv[1:]
    try:
        if verb == "clear":
            clear(device, int(first), int(second))
            return 0
        more = read(device, int(first), int(second))
        sys.stdout.flush()
        return MORE if more else 0
    except OSError as error:
        sys.stderr.write(f"{error.errno} {error.strerror}\n")
        return REFUSED


if __name__ == "__main__":
    sys.exit(main())
