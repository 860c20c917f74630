"""What a file system is built of, as far as efficiencies need it, and figures as printed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as somebody printed it, with what its rounding leaves open.

    Attributes
    ----------
    value
        In base SI.
    unit
        ``B/s``, ``1/s``, ``s`` or ``1``.
    step
        Worth of the last digit that was printed: the value itself was within half of it.
    step_if_zeros_are_filling
        The same where zeros at the end of a whole number only fill it up: 1,600 may be rounded to
        hundreds. Equal to ``step`` where there are none.
    upper
        The other end where a range was printed; else the value.
    text
        As printed.
    """

    value: float
    unit: str
    step: float = 0.0
    step_if_zeros_are_filling: float = 0.0
    upper: float | None = None
    text: str | None = None

    @property
    def middle(self) -> float:
        """The value, or the middle of the range."""
        return self.value if self.upper is None else (self.value + self.upper) / 2

    def possible(self, *, zeros_are_filling: bool = False) -> tuple[float, float]:
        """Return the least and the greatest value that would have been printed so.

        Examples
        --------
        >>> Figure(1600, "1/s", 1, 100).possible()
        (1599.5, 1600.5)
        >>> Figure(1600, "1/s", 1, 100).possible(zeros_are_filling=True)
        (1550.0, 1650.0)
        """
        half = (self.step_if_zeros_are_filling if zeros_are_filling else self.step) / 2
        return self.value - half, (self.value if self.upper is None else self.upper) + half


@dataclass(frozen=True, slots=True)
class Parity:
    """How a parity group protects what is written: ``data`` blocks get ``parity`` more.

    ``spares`` (the last part of 8+2+1) hold capacity; with distributed parity they carry their
    share of the traffic like any other, so they change no rate.
    """

    data: int
    parity: int
    spares: int = 0

    @property
    def written_per_byte(self) -> float:
        """Bytes that reach the drives for a byte written, in whole stripes: (d + p) / d."""
        return (self.data + self.parity) / self.data

    def __str__(self) -> str:
        """Return ``8+2`` or ``8+2+1``."""
        parts = (self.data, self.parity, *([self.spares] if self.spares else []))
        return "+".join(map(str, parts))


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a file system is built of; everything may be unknown.

    Attributes
    ----------
    drive
        Model of the drives that hold data, for its data sheet.
    drive_write, drive_read, drive_write_iops, drive_read_iops
        Of one drive, where they are stated; they count before the data sheet of ``drive``.
    drive_link
        What a server's link to one drive carries (PCIe x2 ...), each way.
    drives, osts, oss
        How many the whole file system has.
    drives_per_ost
        Where no two OSTs share a drive.
    parity
        ``None``: not known. ``Parity(1, 0)``: none.
    network
        Line rate of one OSS to the clients, all its interfaces together, each way.
    client_network
        The same of one client node.
    """

    drive: str | None = None
    drive_write: Figure | None = None
    drive_read: Figure | None = None
    drive_write_iops: Figure | None = None
    drive_read_iops: Figure | None = None
    drive_link: Figure | None = None
    drives: int | None = None
    drives_per_ost: int | None = None
    osts: int | None = None
    oss: int | None = None
    parity: Parity | None = None
    network: Figure | None = None
    client_network: Figure | None = None
