"""A child that is made ready by a thread of its own: it imports its adapter while the child before it still works.

It is a new process like any other, and has opened nothing by the time that it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Final, Generic, TypeVar

from harness.engines.process import ChildProcess

T = TypeVar("T")
_NAME: Final = "ahead"


class Ahead(Generic[T]):
    """A child that was started, and what making it ready gives.

    Args:
        child: It has been asked nothing yet, and nobody else asks it before :meth:`ready` has returned.
        make_ready: Asks it for what every new child is asked.
    """

    def __init__(self, child: ChildProcess, make_ready: Callable[[ChildProcess], T]) -> None:
        self.child = child
        self._told: Future[T] = Future()
        Thread(target=self._run, args=(make_ready,), name=_NAME, daemon=True).start()

    def ready(self) -> T:
        """Wait until it is ready.

        Raises:
            BaseException: What making it ready has raised.
        """
        return self._told.result()

    def failure(self) -> BaseException | None:
        """Wait until it is ready, and return what making it ready has raised; None: it is ready."""
        return self._told.exception()

    def _run(self, make_ready: Callable[[ChildProcess], T]) -> None:
        try:
            self._told.set_result(make_ready(self.child))
        except BaseException as error:  # noqa: BLE001 - raised by ready()
            self._told.set_exception(error)
