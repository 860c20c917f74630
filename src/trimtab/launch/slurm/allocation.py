"""The life of one job: submitted, waited for, used, and given back whatever happened."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Final, Self

from trimtab.errors import JobLost, NeverStarted, ToolError
from trimtab.launch.allocation import Demand, Waiting, job_facts, seconds_between
from trimtab.launch.interruption import shielded
from trimtab.launch.process import ProcessResult
from trimtab.launch.slurm.client import Client, clean_environment
from trimtab.launch.slurm.script import batch_arguments, batch_script, job_name
from trimtab.launch.slurm.states import MEANING, Stage, never_starts
from trimtab.launch.slurm.step import Step, step_arguments, step_of
from trimtab.launch.slurm.view import JobView, unfold
from trimtab.message import Message
from trimtab.units import format_duration

FIRST_STEP_S: Final = 300.0
"""For the first step, which does nothing: a prolog may still mount the file system."""

GIVING_BACK_S: Final = 60.0
"""For a silent controller, when somebody may be waiting after Ctrl-C; then the time limit does."""

_POLITE_S: Final = 10.0
"""For the script to end by itself, which counts as completed in the site's accounting."""


class SlurmAllocation:
    """The nodes of one job; see `trimtab.launch.allocation.Allocation`."""

    def __init__(
        self,
        client: Client,
        demand: Demand,
        *,
        version: str | None = None,
        cluster: str | None = None,
        on_wait: Waiting | None = None,
    ) -> None:
        """Refuse what sbatch must not be asked.

        Raises
        ------
        UsageError
            The name or an option cannot be used.
        """
        self._arguments = batch_arguments(demand)
        self._client = client
        self._demand = demand
        self._version = version
        self._cluster = cluster
        self._on_wait = on_wait
        self._job_id: str | None = None
        self._view: JobView | None = None
        self._nodes: tuple[str, ...] = ()
        self._lost: JobLost | None = None
        self._unclean: str | None = None
        self._submitting = False
        self._given_back = False
        self._why_unknown: str | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The job's nodes; none before it has begun."""
        return self._nodes

    @property
    def facts(self) -> dict[str, object]:
        """See `trimtab.launch.allocation.Allocation`; times are of the controller's clock."""
        view = self._view
        facts = job_facts(
            "slurm",
            job_name(self._demand.name),
            self._nodes,
            version=self._version,
            reason=self._why_unknown,
            node_list=view.node_list or None if view else None,
            job_id=self._job_id,
            state=view.final_state if view else None,
            submitted_at=view.submitted_at if view else None,
            started_at=view.started_at if view else None,
            ended_at=view.ended_at if view else None,
            held_s=seconds_between(view.started_at, view.ended_at) if view else None,
        )
        return facts | {"cluster": self._cluster}

    def __enter__(self) -> Self:
        """Return itself, when the job has begun and a first step has run on each of its nodes.

        Raises
        ------
        NeverStarted
            Slurm refused it, it waited too long, or somebody took it out of the queue.
        JobLost
            It began, and was lost before it could be used.
        """
        entered = False
        try:
            self._get_nodes()
            entered = True
        except (JobLost, NeverStarted):
            raise
        except ToolError as error:
            raise NeverStarted(error.message, code=error.code, hint=error.hint) from error
        finally:
            if not entered:
                self._give_back()
        return self

    def __exit__(self, *_error: object) -> None:
        """Give the nodes back; if Slurm does not take them, ``facts`` say so."""
        self._give_back()

    def execute(
        self, argv: Sequence[str], *, tasks: int, timeout_s: float, **options: Any
    ) -> ProcessResult:
        """Return how ``argv`` ran as a step of the job; ``trimtab.launch.allocation`` says more.

        Raises
        ------
        JobLost
            Also when the job was suspended meanwhile, or a task was killed for its memory: what
            was printed then says nothing about the file system.
        """
        if not 1 <= tasks <= self._demand.tasks:
            raise ValueError(f"{tasks} tasks in a job for {self._demand.tasks}")
        if self._lost is not None:
            raise self._lost
        if self._unclean is not None:
            raise ToolError(self._unclean)
        return self._confirmed(self._step(argv, tasks, timeout_s, **options))

    # Getting the nodes.

    def _get_nodes(self) -> None:
        # What an earlier try of the same run, ended by force, left in the queue.
        for job_id in self._client.named(job_name(self._demand.name)):
            self._client.cancel(job_id)
        self._submit()
        self._wait()
        self._take_nodes()

    def _submit(self) -> None:
        patience = self._client.patience
        name, arguments = job_name(self._demand.name), self._arguments
        for _ in patience.pauses(patience.controller_s):
            with shielded():
                self._submitting = True
                self._job_id = self._client.submit(batch_script(self._demand), arguments, name)
            if self._job_id is not None:
                return
        raise NeverStarted(
            f"Slurm's controller did not answer for {format_duration(patience.controller_s)}",
            code="controller-silent",
            hint="see scontrol ping",
        )

    def _wait(self) -> None:
        """Wait until the job runs."""
        limit_s, why = self._demand.pending_limit_s, ""
        for waited_s in self._client.patience.pauses(limit_s):
            view = self._look()
            if view.stage is Stage.RUNNING:
                return
            if view.stage in {Stage.ENDED, Stage.ENDING, Stage.PAUSED}:
                raise self._ended_early(view)
            why = f"{view.state}: {view.reason}"
            if never_starts(view.state, view.reason or ""):
                raise NeverStarted(f"{self._job} will not start by itself ({why})", code="job-held")
            if self._on_wait is not None:
                self._on_wait(why, waited_s)
        raise NeverStarted(
            f"{self._job} was still waiting after {format_duration(limit_s)} ({why})",
            code="job-pending-too-long",
        )

    def _ended_early(self, view: JobView) -> NeverStarted | JobLost:
        """Return the error for a job that ended before it was seen to run."""
        if view.started_at is None and view.final_state != "BOOT_FAIL":
            return NeverStarted(f"{self._job} never ran: {_meaning(view)}", code="job-never-ran")
        return self._loss(view, None)

    def _take_nodes(self) -> None:
        """Note the nodes, and run a first step that does nothing as all tasks on all of them.

        What it reveals, a node that is not ready or an MPI plug-in that is not there, would
        otherwise look like a benchmark that failed; and the prolog is over when it has run.
        """
        view = self._seen()
        self._nodes = unfold(view.node_list, view.node_count)
        limit_s = FIRST_STEP_S
        step = self._step(("true",), self._demand.tasks, limit_s, patience_s=limit_s)
        if self._confirmed(step).problem is not None:
            raise NeverStarted(
                f"no command can be started in {self._job}: {step.complaint}", code="step-refused"
            )

    # Using them.

    def _step(
        self,
        argv: Sequence[str],
        tasks: int,
        timeout_s: float,
        *,
        patience_s: float | None = None,
        **options: Any,
    ) -> Step:
        """Return how srun ran; a step that Slurm could not create for now is tried again."""
        client = self._client
        arguments = step_arguments(self._known_id(), self._demand, tasks, argv)

        def once() -> Step:
            return step_of(
                client.run(
                    (client.programs["srun"], *arguments),
                    timeout_s=timeout_s,
                    environment=clean_environment(os.environ),
                    ask_to_end=self._ask_tasks_to_end,
                    **options,
                )
            )

        limit_s = client.patience.controller_s if patience_s is None else patience_s
        return client.patience.until(once, lambda step: not step.may_begin_later, limit_s)

    def _ask_tasks_to_end(self) -> None:
        """Send SIGTERM to the tasks, so that a benchmark can remove its files.

        srun ends them with SIGKILL when it gets SIGTERM itself. Without a step id scancel signals
        all steps and leaves the batch script alone (scancel(1), ``--batch``).
        """
        self._client.cancel("--signal=TERM", self._known_id(), patience_s=0.0)

    def _confirmed(self, step: Step) -> ProcessResult:
        """Return a step's result if it is one, or raise what became of the job meanwhile."""
        result = step.result
        try:
            view = self._look_after(step)
        except ToolError as error:
            if step.ended_by_itself:
                return result
            raise JobLost(
                f"what became of {self._job} is not known: {error.message}",
                code="job-state-unknown",
                state=None,
                result=result,
            ) from error
        if view.stage is not Stage.RUNNING:
            return self._after_the_end(view, step)
        if self._client.was_suspended(view.job_id):
            raise self._loss(view, result, "SUSPENDED")
        if step.out_of_memory:
            raise self._loss(view, result, "OUT_OF_MEMORY")
        if step.killed:
            self._end_steps()
        if not step.begun:
            why = result.problem if result.timed_out else step.complaint
            raise ToolError(
                f"Slurm did not start a command in {self._job}: {why}", code="step-not-started"
            )
        if result.problem is None and step.aborted:
            problem = Message(
                "step-ended-outside",
                f"a command in {self._job} was ended from outside: {step.complaint}",
            )
            raise JobLost(problem, state=view.state, result=result)
        return result

    def _look_after(self, step: Step) -> JobView:
        """Return the job once its state is that of its end, if the step ended with the job."""
        patience = self._client.patience
        # A step dies a moment before its job is said to be over; srun often tells which it was.
        limit_s = patience.ending_s if step.ended_with_job else patience.first_pause_s
        may_run_on = step.ended_by_itself
        view = patience.until(
            self._look, lambda seen: may_run_on or seen.stage is not Stage.RUNNING, limit_s
        )
        if view.stage is not Stage.ENDING:
            return view
        return patience.until(
            self._look, lambda seen: seen.stage is not Stage.ENDING, patience.ending_s
        )

    def _after_the_end(self, view: JobView, step: Step) -> ProcessResult:
        """Return what still counts of a step whose job does not run any more, or raise."""
        result = step.result
        loss = self._loss(view, result)
        self._lost = loss
        if view.stage in {Stage.PAUSED, Stage.UNKNOWN}:
            raise loss
        if step.ended_by_itself:  # before its job did
            return result
        if loss.unfinished and step.begun:
            elapsed_s = round(result.elapsed_s, 1)
            return dataclasses.replace(result, timed_out=True, timeout_s=elapsed_s)
        raise loss

    def _loss(self, view: JobView, result: ProcessResult | None, state: str = "") -> JobLost:
        state = state or view.final_state
        place = f" ({view.node_list})" if view.node_list else ""
        return JobLost(
            f"{self._job}{place} was lost: {MEANING.get(state, state)} ({state})",
            code="job-lost",
            state=state,
            result=result,
        )

    def _end_steps(self) -> None:
        """End what may be left of a step on the nodes: its files are about to be removed."""
        patience = self._client.patience
        job_id = self._known_id()
        for _ in patience.pauses(patience.ending_s):
            steps = self._client.steps(job_id)
            if not steps:
                return
            self._client.cancel("--signal=KILL", *steps)
        self._unclean = Message(
            "tasks-left-running",
            f"tasks of an earlier command still run in {self._job}, and do not end",
        )

    # Giving them back.

    def _give_back(self) -> None:
        with shielded():
            if self._given_back or not self._submitting:
                return
            patience = self._client.patience
            limit_s = min(GIVING_BACK_S, patience.controller_s)
            patience = dataclasses.replace(patience, controller_s=limit_s)
            self._client = dataclasses.replace(self._client, patience=patience)
            try:
                self._end_job()
            except ToolError as error:
                self._why_unknown = Message(
                    "job-not-cancelled",
                    f"{self._job} may still hold its nodes, until its time limit: {error.message}",
                )
            self._given_back = True

    def _end_job(self) -> None:
        """End the job and look how it ended.

        Raises
        ------
        ToolError
            Slurm does not answer, or the job does not end.
        """
        client = self._client
        if self._job_id is None:  # the answer to sbatch was lost
            for job_id in client.named(job_name(self._demand.name)):
                client.cancel(job_id)
            return
        if self._nodes and self._unclean is None and self._lost is None:
            client.cancel("--batch", "--signal=TERM", self._job_id)
            if self._has_ended(_POLITE_S):
                return
        elif self._has_ended(0.0):
            return
        problem = client.cancel(self._job_id)
        if not self._has_ended(client.patience.ending_s):
            raise ToolError(
                problem or Message("job-not-cancelled", f"it is {self._seen().state} after scancel")
            )

    def _has_ended(self, limit_s: float) -> bool:
        quick = dataclasses.replace(
            self._client.patience,
            first_pause_s=min(0.1, self._client.patience.first_pause_s),
            longest_pause_s=min(2.0, self._client.patience.longest_pause_s),
        )
        return any(self._look().stage is Stage.ENDED for _ in quick.pauses(limit_s))

    # Looking.

    def _look(self) -> JobView:
        """Return the job as it is now.

        Raises
        ------
        ToolError
            Slurm does not answer, or has forgotten it.
        """
        job_id = self._known_id()
        view = self._client.job(job_id)
        if view is None:
            raise ToolError(f"Slurm no longer knows job {job_id}", code="job-unknown")
        if view.submitted_at is None and self._view is not None:
            view = dataclasses.replace(view, submitted_at=self._view.submitted_at)
        self._view = view
        return view

    def _seen(self) -> JobView:
        """Return the job as it was when it was last looked at."""
        return self._view if self._view is not None else self._look()

    def _known_id(self) -> str:
        if self._job_id is None:
            raise ValueError("the allocation was not entered")
        return self._job_id

    @property
    def _job(self) -> str:
        return "the job" if self._job_id is None else f"job {self._job_id}"


def _meaning(view: JobView) -> str:
    state = view.final_state
    return f"{MEANING.get(state, 'Slurm says')} ({state})"
