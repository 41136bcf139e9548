"""The daemon: all streams, outlets and the endpoint, from the first signal of life to the last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from driftbn.errors import DriftbnError
from driftbn_service.assembly import SHUTDOWN_SECONDS, Assembly
from driftbn_service.errors import UsageError
from driftbn_service.process import Notifier, Signals
from driftbn_service.records import warm_up as warm_up_decoding
from driftbn_service.settings import Settings
from driftbn_service.stream_parts import StreamState
from driftbn_service.view import DaemonView
from driftbn_service.warmup import warm_up_monitor

logger = logging.getLogger("driftbn.service.daemon")

TICK_SECONDS: Final = 0.5
DRAINING_TICK_SECONDS: Final = 0.05
"""Where somebody waits for the end."""
PRUNE_SECONDS: Final = 60.0
LEASE_SECONDS: Final = 15.0
"""How often the lease on lanes is renewed."""
COPY_SECONDS: Final = 3600.0
"""How often the state is copied."""
_ENDED: Final = (StreamState.DRAINED, StreamState.FAILED, StreamState.STOPPED)


@dataclass
class _Chore:
    """Something to do now and then."""

    seconds: float
    action: Callable[[], None]
    done_at: float

    def do_if_due(self, now: float) -> None:
        if now - self.done_at >= self.seconds:
            self.done_at = now
            self.action()


class Daemon:
    """Runs streams, outlets and the endpoint.

    ``startup``, ``tick`` and ``shutdown`` may be called one by one; ``run`` does it with signals.

    Parameters
    ----------
    settings
        What to run.
    reload
        Returns the settings as they are now in the file; ``None`` if they never change.
    notifier
        Tells the service manager.
    clock
        Returns seconds.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        reload: Callable[[], Settings] | None = None,
        notifier: Notifier | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.settings = settings
        self._reload = reload
        self._notifier = notifier or Notifier()
        self._clock = clock
        self._assembly = Assembly(settings)
        self._was_ready = False
        self._alive_at = clock()
        self._chores = [
            _Chore(PRUNE_SECONDS, self._assembly.prune, clock()),
            _Chore(LEASE_SECONDS, self._assembly.renew_lease, clock()),
            _Chore(COPY_SECONDS, self._assembly.back_up, clock() - COPY_SECONDS),
        ]

    @property
    def view(self) -> DaemonView:
        """What can be seen of the daemon from outside."""
        return DaemonView(self._assembly)

    @property
    def address(self) -> str | None:
        """Where the endpoint listens; ``None`` if it does not."""
        return self._assembly.address

    def reset(self, names: Sequence[str]) -> None:
        """Forget states and history of monitors, before the start.

        Raises
        ------
        UsageError
            If the settings have no monitor of a name.
        """
        known = {stream.name for stream in self.settings.streams}
        for name in names:
            if name not in known:
                listed = ", ".join(sorted(known))
                raise UsageError(f"--reset {name}: no monitor has this name; there are {listed}")
            self._assembly.store.reset(name)
            logger.warning("monitor begins anew", extra={"monitor": name})

    def startup(self, give_up: Callable[[], bool] = lambda: False) -> None:
        """Open the endpoint, load or compile the kernels, then start outlets and streams.

        Parameters
        ----------
        give_up
            Is asked before each stream whether to start no more.

        Raises
        ------
        DriftbnError
            If the state directory or the address cannot be used.
        """
        self._assembly.start_endpoint(self.view)
        warm_up_monitor()
        warm_up_decoding()
        self._assembly.apply(self.settings, give_up)
        logger.info(
            "started",
            extra={"streams": len(self._assembly.streams), "address": self.address or "none"},
        )

    def tick(self) -> bool:
        """Look after everything once; ``False`` when there is nothing left to do."""
        now = self._clock()
        self._tell_manager(now)
        for chore in self._chores:
            chore.do_if_due(now)
        streams = self._assembly.streams
        ended = all(stream.state in _ENDED and not stream.alive for stream in streams)
        if ended and streams and all(stream.state is StreamState.FAILED for stream in streams):
            return False
        return not (self.settings.service.exit_when_drained and ended)

    def reload(self) -> None:
        """Read the settings again and apply what can be applied without a restart."""
        if self._reload is None:
            return
        self._notifier.reloading(self._clock())
        try:
            settings = self._reload()
        except DriftbnError as error:
            logger.error("settings are not reloaded, the old ones stay: %s", error)
        else:
            self.settings = self._assembly.reload(settings)
            logger.info("settings are reloaded")
        self._notifier.ready(self._summary())

    def shutdown(self, *, force: Callable[[], bool] = lambda: False) -> int:
        """End in order: streams work off what they have read, then outlets, then the endpoint.

        Parameters
        ----------
        force
            Is asked again and again whether to hurry; then nothing more is worked off.

        Returns
        -------
        int
            0, or 1 if a stream has failed or had to be left.
        """
        self._notifier.stopping()
        failed = any(stream.state is StreamState.FAILED for stream in self._assembly.streams)
        in_time = self._assembly.stop(SHUTDOWN_SECONDS, force)
        logger.info("stopped" if in_time else "stopped before all was worked off; nothing is lost")
        return 1 if failed or not in_time else 0

    def run(self) -> int:
        """Start, go on until a signal or the end of all streams, stop; return the exit code."""
        with Signals() as signals:
            try:
                self.startup(lambda: signals.n_stops > 0)
                pause = TICK_SECONDS
                if self.settings.service.exit_when_drained:
                    pause = DRAINING_TICK_SECONDS
                while not signals.n_stops and self.tick():
                    signals.wait(pause)
                    if signals.take_reload():
                        self.reload()
                n_stops = signals.n_stops
                return self.shutdown(force=lambda: signals.n_stops > max(1, n_stops))
            except BaseException:
                self._assembly.stop(0.0, lambda: True)
                raise

    def _tell_manager(self, now: float) -> None:
        if not self._was_ready and self.view.ready().ready:
            self._was_ready = True
            self._notifier.ready(self._summary())
        period = self._notifier.watchdog_seconds
        if period is None or now - self._alive_at < period / 3:
            return
        self._alive_at = now
        health = self.view.healthy()
        if health.healthy:
            self._notifier.alive()
        else:
            logger.error("not healthy: %s", "; ".join(health.reasons))

    def _summary(self) -> str:
        return f"{len(self._assembly.streams)} streams, endpoint {self.address or 'off'}"
