"""Lists directories of a Lustre by FID, and tells which MDT FIDs are on; it may hang in its place.

``python -I -S listing_child.py list ROOT GONE...`` reads FIDs of 16 bytes, big-endian, and prints
of each its error number and how many names follow, 32 bits each, then of each name the inode
number, 64 bits, its length, 16 bits, and the name. Without an error, or of what is gone by one of
the numbers GONE, the error number is 0. Inode numbers are those that the directories hold: no file
is looked at. ``... mdts ROOT`` prints the index of the MDT of each FID, or -1.
"""

import errno
import fcntl
import os
import struct
import sys

FID2MDTIDX = 0xC01066F8
"""``LL_IOC_FID2MDTIDX`` of ``lustre_user.h``: _IOWR('f', 248, struct lu_fid)."""
FID_BYTES = 16
HEAD = struct.Struct("<II")
ENTRY = struct.Struct("<QH")


def listing(directory, gone):
    """Return what a directory holds, as it is printed."""
    try:
        descriptor = opened(directory)
        try:
            with os.scandir(descriptor) as entries:
                held = [(entry.inode(), os.fsencode(entry.name)) for entry in entries]
        finally:
            os.close(descriptor)
    except OSError as error:
        number = settled(directory, error.errno or errno.EIO)
        return HEAD.pack(0 if number in gone or number == errno.ENOTDIR else number, 0)
    parts = [HEAD.pack(0, len(held))]
    for inode, name in held:
        parts += [ENTRY.pack(inode, len(name)), name]
    return b"".join(parts)


def opened(directory):
    """Return a directory to be listed; to list it must not move its time of access."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        return os.open(directory, flags | os.O_NOATIME)
    except PermissionError:  # somebody else's, to who is not root; or a stripe
        return os.open(directory, flags)


def settled(directory, number):
    """Return what an error means: EFAULT of an open that a stat explains is the stat's own."""
    if number == errno.EFAULT:
        try:
            os.lstat(directory)
        except OSError as error:
            return error.errno or number
    return number


def main():
    """Do what the command line says, for every FID of standard input."""
    verb, root = sys.argv[1], os.fsencode(sys.argv[2])
    gone = [int(number) for number in sys.argv[3:]]
    fids = sys.stdin.buffer.read()
    out = sys.stdout.buffer
    mount = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for at in range(0, len(fids), FID_BYTES):
        sequence, number, version = struct.unpack_from(">QII", fids, at)
        if verb == "list":
            name = b"/.lustre/fid/[%#x:%#x:%#x]" % (sequence, number, version)
            out.write(listing(root + name, gone))
        else:
            fid = struct.pack("<QII", sequence, number, version)
            try:
                index = fcntl.ioctl(mount, FID2MDTIDX, bytearray(fid))
            except OSError:
                index = -1
            out.write(struct.pack("<i", index))
    out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
