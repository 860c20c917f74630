"""Which benchmark a command line starts, and what it asks for."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.errors import ToolError
from trimtab.twin.instruments import fio, ioload, ior, lnet_selftest, mdtest, obdfilter_survey
from trimtab.twin.instruments.fio import FioAsked
from trimtab.twin.instruments.ioload import LoadAsked
from trimtab.twin.instruments.ior import IorAsked
from trimtab.twin.instruments.lnet_selftest import StatAsked
from trimtab.twin.instruments.mdtest import MdtestAsked
from trimtab.twin.instruments.obdfilter_survey import SurveyAsked

Asked = IorAsked | MdtestAsked | FioAsked | LoadAsked | StatAsked | SurveyAsked


def answer(argv: Sequence[str], *, tasks: int = 1, nodes: int = 1) -> Asked:
    """Return what a command asks for, in the words of its benchmark.

    Parameters
    ----------
    tasks, nodes
        That the launcher starts it as and on.

    Raises
    ------
    ToolError
        It starts no benchmark that the twin plays.
    UsageError
        It has an option that the twin does not play; the option is named.
    """
    names = [word.rpartition("/")[2] for word in argv]
    match names[0] if names else "":
        case "ior":
            return ior.asked_of(argv, tasks=tasks, nodes=nodes)
        case "mdtest":
            return mdtest.asked_of(argv, tasks=tasks, nodes=nodes)
        case "fio":
            return fio.asked_of(argv)
        case "trimtab-ioload":
            return ioload.asked_of(argv, tasks=tasks)
        case "setsid" if names[-1] == "obdfilter-survey":
            return obdfilter_survey.asked_of(argv)
        case "env" | "lst" if "lst" in names[:3]:
            return lnet_selftest.asked_of(argv)
    raise ToolError(
        f"{names[0] if names else 'nothing'!r} is no benchmark that the twin plays",
        hint="ior, mdtest, fio, trimtab-ioload, obdfilter-survey or lst stat",
    )
