"""Several scenarios of one run at a time, each in a child of its own; results in the order of the plans.

A bench works on one plan from its first cell to its end record, so an evidence file has one writer and looks as that of
a run of one job. Plans are filed one by one in their order, whatever ended first, while the next ones run.

Plans that are judged by times come first, one by one, while no other bench has begun: their records say one job. Beside
them nothing is filed, and no child is started ahead.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Lock

from harness.model.evidence import Observation
from harness.model.scenario import Plan
from harness.pipeline import Bench, run_one
from harness.stopping import held_back

_Held = tuple[Plan, "Future[Ran | None]"]
Tell = Callable[[Observation], None]
"""Is told every observation; one call at a time, from any thread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One plan that was run, or begun."""

    plan: Plan
    evidence: Path
    interrupted: bool


File = Callable[[Ran], None]
"""Judges and files one plan."""


@contextmanager
def benches(first: Bench, jobs: int) -> Iterator[list[Bench]]:
    """Return a bench and others beside it, whose children start with their first plan, and end those afterwards.

    A child that is not the subject that the first one was is an observation of the arm that it was to run.

    Args:
        first: Is up already.
        jobs: How many benches there shall be; none but the first where its device is absent.
    """
    with ExitStack() as stack:
        made = [first]
        for number in range(2, 1 if first.host.absent else jobs + 1):
            scratch = first.folder / f"job-{number}"
            made.append(replace(first, host=stack.enter_context(first.host.rival(scratch)), scratch=scratch))
        yield made


class _Shift:
    """Benches at work on plans, which they take in their order.

    A bench that is done with the cells of a plan takes its next one before the evidence is closed: so it knows whether
    it has one, and its child, where it has none, ends while the evidence can still tell how.

    Args:
        plans: What to run.
        benches: How many will work.
        tell: Is told every observation.
    """

    def __init__(self, plans: Sequence[Plan], benches: int, tell: Tell) -> None:
        self.futures: Sequence[Future[Ran | None]] = [Future() for _ in plans]
        """Of the plans in their order; None: it was not begun."""
        self.ended = Event()
        """Set when no further plan is to be begun."""
        self._tell = tell
        self._waiting = deque(zip(plans, self.futures, strict=True))
        self._restarting = {id(plan) for plan in plans if plan.restarts}
        self._working = benches
        self._lock = Lock()

    def work(self, bench: Bench) -> None:
        """Run plans on a bench until there are no more."""
        held = self._take()
        while held is not None:
            held = self._run(bench, *held)
        with self._lock:
            self._working -= 1
            left = [] if self._working else list(self._waiting)
        for _, future in left:
            future.set_result(None)

    def _run(self, bench: Bench, plan: Plan, future: Future[Ran | None]) -> _Held | None:
        """Run one plan; return the next one of this bench."""
        upcoming: list[_Held | None] = []
        if self._restarts_from(plan):
            bench.host.start_ahead()

        def last() -> bool:
            upcoming.append(self._take())
            return upcoming[0] is None

        try:
            evidence, interrupted = run_one(bench, plan, self._tell, last=last)
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits for the plan
            self.ended.set()
            future.set_exception(error)
            for held in filter(None, upcoming):
                held[1].set_result(None)
            return None
        future.set_result(Ran(plan=plan, evidence=evidence, interrupted=interrupted))
        return upcoming[0] if upcoming else self._take()

    def _restarts_from(self, plan: Plan) -> bool:
        """Whether a plan, or one that nobody has taken yet, goes on in another process."""
        with self._lock:
            return any(id(one) in self._restarting for one in (plan, *(one for one, _ in self._waiting)))

    def _take(self) -> _Held | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self.ended.is_set() else None


def run_plans(benches: Sequence[Bench], plans: Sequence[Plan], tell: Tell, file: File) -> bool:
    """Run plans, side by side where there are several benches, and file what was run or begun, in the order of plans.

    Plans that are judged by times go first, on the first bench, alone.

    Ctrl-C breaks off the plans that are under way, in good order, and none is begun any more. While something is filed
    it waits. An error of the harness does the same, and is raised once everything else has been filed.

    Args:
        benches: Where they run.
        plans: What to run.
        tell: Shows what is observed.
        file: Judges and files one plan; called by this thread only.

    Returns:
        Whether the run was interrupted.

    Raises:
        StatecertError: The harness could not go on with a plan; its evidence file is cut off.
    """
    timed, others = [plan for plan in plans if plan.timed], [plan for plan in plans if not plan.timed]
    if timed:
        first = benches[0]
        first = replace(first, environment=first.environment.alone())
        if _in_turn(first, timed, tell, file, then=bool(others)):
            return True
    return bool(others) and _side_by_side(benches, others, tell, file)


def _in_turn(bench: Bench, plans: Sequence[Plan], tell: Tell, file: File, *, then: bool = False) -> bool:
    """Run plans one by one; ``then``: the bench has others to run afterwards."""
    final = None if then else plans[-1]
    for plan in plans:
        evidence, interrupted = run_one(bench, plan, tell, last=partial(operator.is_, plan, final))
        if _filed(file, Ran(plan=plan, evidence=evidence, interrupted=interrupted)) or interrupted:
            return True
    return False


def _side_by_side(benches: Sequence[Bench], plans: Sequence[Plan], tell: Tell, file: File) -> bool:
    lock = Lock()

    def told(observation: Observation) -> None:
        with lock:
            tell(observation)

    shift = _Shift(plans, len(benches), told)
    pool = ThreadPoolExecutor(len(benches), thread_name_prefix="job")
    problem: Exception | None = None
    interrupted, whole = False, False
    try:
        for bench in benches:
            pool.submit(shift.work, bench)
        for future in shift.futures:
            try:
                ran = _waited(future, shift, benches)
            except Exception as error:  # noqa: BLE001 - raised below, when everything else is filed
                problem = problem or error
                _break_off(shift, benches)
                continue
            if ran is not None and (_filed(file, ran) or ran.interrupted):
                interrupted = True
                _break_off(shift, benches)
        whole = True
    finally:
        if not whole:
            _break_off(shift, benches)
        pool.shutdown(cancel_futures=True)
    if problem is not None:
        raise problem
    return interrupted or shift.ended.is_set()


def _waited(future: Future[Ran | None], shift: _Shift, benches: Sequence[Bench]) -> Ran | None:
    """Return what came of a plan; Ctrl-C meanwhile breaks off what is under way and waits for its end."""
    try:
        return future.result()
    except KeyboardInterrupt:
        _break_off(shift, benches)
        return future.result()


def _break_off(shift: _Shift, benches: Sequence[Bench]) -> None:
    shift.ended.set()
    for bench in benches:
        bench.host.interrupt()


def _filed(file: File, ran: Ran) -> bool:
    """File one plan whole; return whether it was to be broken off meanwhile."""
    with held_back() as came:
        file(ran)
    return bool(came)
