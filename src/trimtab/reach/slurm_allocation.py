"""Manages one job: submits it, waits for it, uses it, and always releases it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Final, Self

from trimtab.base.error import JobLost, Message, NeverStarted, ToolError
from trimtab.base.interruption import shielded
from trimtab.base.units import format_duration
from trimtab.reach.allocation import NodeDemand, Waiting, job_facts, seconds_between
from trimtab.reach.process import ProcessResult
from trimtab.reach.slurm_batch import (
    JobStep,
    batch_arguments,
    batch_script,
    job_name,
    step_arguments,
    step_of,
)
from trimtab.reach.slurm_client import (
    MEANING,
    Client,
    JobStage,
    JobView,
    clean_environment,
    never_starts,
    unfold,
)

FIRST_STEP_S: Final = 300.0
"""For the first step, which does nothing: the prolog may still mount the file system."""

GIVING_BACK_S: Final = 60.0
"""For a silent controller, when a user may be waiting after Ctrl-C; then the time limit acts."""

_POLITE_S: Final = 10.0
"""For the script to end by itself, so that accounting shows the job as completed."""


class SlurmAllocation:
    """The nodes of one job; see `trimtab.reach.allocation.Allocation`."""

    def __init__(
        self,
        client: Client,
        demand: NodeDemand,
        *,
        version: str | None = None,
        cluster: str | None = None,
        on_wait: Waiting | None = None,
    ) -> None:
        """Refuse invalid names and options.

        Raises
        ------
        UsageError
            The name or an option is invalid.
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
        """The job's nodes; none before it has started."""
        return self._nodes

    @property
    def facts(self) -> dict[str, object]:
        """See `trimtab.reach.allocation.Allocation`; times are by the controller's clock."""
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
        return facts | {"cluster": self._cluster, "options": dict(self._demand.options)}

    def __enter__(self) -> Self:
        """Return itself when the job has started and a first step has run on each node.

        Raises
        ------
        NeverStarted
            Slurm refused it, it waited too long, or it was cancelled in the queue.
        JobLost
            It started, but was lost before it could be used.
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
        """Release the nodes; if Slurm does not respond, ``facts`` have the reason."""
        self._give_back()

    def execute(
        self, argv: Sequence[str], *, tasks: int, timeout_s: float, **options: Any
    ) -> ProcessResult:
        """Run ``argv`` as a step of the job; see `trimtab.reach.allocation.Allocation`.

        Raises
        ------
        JobLost
            Also if the job was suspended, or a task was killed for its memory: then the output says
            nothing about the file system.
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
        # Jobs left in the queue by an earlier, killed try of the same run.
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
            if view.stage is JobStage.RUNNING:
                return
            if view.stage in {JobStage.ENDED, JobStage.ENDING, JobStage.PAUSED}:
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
        """Return the error for a job that ended before it was seen running."""
        if view.started_at is None and view.final_state != "BOOT_FAIL":
            return NeverStarted(f"{self._job} never ran: {_meaning(view)}", code="job-never-ran")
        return self._loss(view, None)

    def _take_nodes(self) -> None:
        """Note the nodes, and run a first step that does nothing, with all tasks on all nodes.

        It reveals a node that is not ready or a missing MPI plug-in, which would otherwise look
        like a failed benchmark, and it waits for the prolog.
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
    ) -> JobStep:
        """Run srun; retry a step that Slurm could not create for now."""
        client = self._client
        arguments = step_arguments(self._known_id(), self._demand, tasks, argv)

        def once() -> JobStep:
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

        srun kills them with SIGKILL when it receives SIGTERM itself. Without a step id scancel
        signals all steps but not the batch script (scancel(1), ``--batch``).
        """
        self._client.cancel("--signal=TERM", self._known_id(), patience_s=0.0)

    def _confirmed(self, step: JobStep) -> ProcessResult:
        """Return a step's result if it is valid, or raise an error about the job."""
        result = step.result
        try:
            view = self._look_after(step)
        except ToolError as error:
            if step.ended_by_itself:
                return result
            raise JobLost(
                f"the state of {self._job} is unknown: {error.message}",
                code="job-state-unknown",
                state=None,
                result=result,
            ) from error
        if view.stage is not JobStage.RUNNING:
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

    def _look_after(self, step: JobStep) -> JobView:
        """Return the job; if the step ended with it, once its final state is known."""
        patience = self._client.patience
        # A step dies a moment before its job is reported as ended; srun often shows the reason.
        limit_s = patience.ending_s if step.ended_with_job else patience.first_pause_s
        may_run_on = step.ended_by_itself
        view = patience.until(
            self._look, lambda seen: may_run_on or seen.stage is not JobStage.RUNNING, limit_s
        )
        if view.stage is not JobStage.ENDING:
            return view
        return patience.until(
            self._look, lambda seen: seen.stage is not JobStage.ENDING, patience.ending_s
        )

    def _after_the_end(self, view: JobView, step: JobStep) -> ProcessResult:
        """Return the result of a step whose job no longer runs if it is valid, or raise."""
        result = step.result
        loss = self._loss(view, result)
        self._lost = loss
        if view.stage in {JobStage.PAUSED, JobStage.UNKNOWN}:
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
        """End the remaining tasks of a step, whose files are about to be removed."""
        patience = self._client.patience
        job_id = self._known_id()
        for _ in patience.pauses(patience.ending_s):
            steps = self._client.steps(job_id)
            if not steps:
                return
            self._client.cancel("--signal=KILL", *steps)
        self._unclean = Message(
            "tasks-left-running",
            f"tasks of an earlier command still run in {self._job} and do not end",
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
                    f"{self._job} may hold its nodes until its time limit: {error.message}",
                )
            self._given_back = True

    def _end_job(self) -> None:
        """End the job and check how it ended.

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
        return any(self._look().stage is JobStage.ENDED for _ in quick.pauses(limit_s))

    # Looking.

    def _look(self) -> JobView:
        """Query the current state of the job.

        Raises
        ------
        ToolError
            Slurm does not answer, or no longer knows it.
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
        """Return the job as last queried."""
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
    return f"{MEANING.get(state, 'Slurm reports')} ({state})"
