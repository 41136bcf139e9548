"""The daemon: all streams, outlets and the endpoint, put together, watched and stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time
from typing import Final

import numpy as np
import pyarrow as pa

from driftbn import DriftMonitor
from driftbn.errors import DriftbnError
from driftbn.kernels.compiled import is_compiling, progress
from driftbn_service.errors import StateError, UsageError
from driftbn_service.http import LiveSignal, NotNowError, ServiceView, StreamInfo
from driftbn_service.http.server import EndpointServer, make_app
from driftbn_service.lane import Committer
from driftbn_service.metrics import Known, Metrics, Shown
from driftbn_service.outlets import Deliverer, make_outlet
from driftbn_service.page import page_routes
from driftbn_service.process import Notifier, Signals, configure_logging
from driftbn_service.records import warm_up as warm_up_decoding
from driftbn_service.settings import HttpSourceSettings, OutletSettings, Settings, StreamSettings
from driftbn_service.sources import make_source
from driftbn_service.state import (
    Accepted,
    ActionRow,
    EpisodeRow,
    Journal,
    Store,
    StoreError,
    Wish,
    place_of,
)
from driftbn_service.stream import Quarantine, StreamParts, StreamPipeline, StreamState

logger = logging.getLogger("driftbn.service.daemon")

SHUTDOWN_SECONDS: Final = 30.0
"""How long a shutdown may take before it is forced."""
QUEUE_BYTES: Final = 64 << 20
"""Bytes per stream that are read and not yet worked through; beyond that reading waits."""
_HURRY_SECONDS: Final = 0.1
"""How often a stop looks whether it shall hurry."""
_ENDPOINT_SECONDS: Final = 3.0
"""How long requests that are being answered may take at the end."""
_RECALLED: Final = 10_000
"""Monitors of a stream that are looked at for what metrics show after a restart."""


@dataclass(frozen=True)
class _Outlet:
    settings: OutletSettings
    deliverer: Deliverer


class Assembly:
    """Makes, starts, replaces and stops what the settings ask for.

    Nothing runs before ``apply``. Raises ``StateError`` if the state directory cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.live = LiveSignal()
        self.stopping = False
        _make_directory(settings.service.state_dir)
        self.store = Store(place_of(settings.service))
        self._copying: threading.Thread | None = None
        self._streams: dict[str, StreamPipeline] = {}
        self._outlets: dict[str, _Outlet] = {}
        self._server: EndpointServer | None = None

    @property
    def streams(self) -> tuple[StreamPipeline, ...]:
        """The streams, in the order of the settings; further ones may be started meanwhile."""
        return tuple(self._streams.values())

    @property
    def address(self) -> str | None:
        """Where the endpoint listens; ``None`` if it does not."""
        return None if self._server is None else self._server.address

    def stream(self, name: str) -> StreamPipeline | None:
        return self._streams.get(name)

    def start_endpoint(self, view: ServiceView) -> None:
        """Listen, if the settings want it; ``EndpointError`` if the address cannot be used."""
        settings = self.settings.endpoint
        if settings.enabled:
            self._server = EndpointServer(
                make_app(view, settings, page_routes=page_routes()), settings
            )
            self._server.start()
        links = settings.links
        self.metrics.links(*(links.get(name, "") for name in ("page", "dashboards", "runbooks")))

    def apply(self, settings: Settings, give_up: Callable[[], bool] = lambda: False) -> None:
        """Have exactly these outlets and streams running; what has not changed goes on.

        ``give_up`` is asked before each stream whether to start no more.
        """
        self.settings = settings
        self._drop_outlets(settings.outlets)
        for outlet in settings.outlets:
            if outlet.name not in self._outlets:
                self._outlets[outlet.name] = self._start_outlet(outlet)
        self._drop_streams(settings.streams)
        for stream in settings.streams:
            if give_up():
                return
            if stream.name not in self._streams:
                self._streams[stream.name] = self._start_stream(stream)

    def reload(self, settings: Settings) -> Settings:
        """Apply new settings and return those that hold now; state directory and endpoint stay."""
        old = self.settings
        fixed = {"endpoint": old.endpoint, "service": old.service}
        for name in ("endpoint", "service"):
            if getattr(settings, name) != fixed[name]:
                logger.warning("[%s] has changed: that needs a restart, the old one stays", name)
        settings = settings.model_copy(update=fixed)
        configure_logging(settings.log)
        if settings.outlets != old.outlets or settings.checkpoint != old.checkpoint:
            self._drop_streams(())  # each knows the outlets and when its commits are due
        self.apply(settings)
        return settings

    def prune(self) -> None:
        """Let the history forget what is older than the settings say."""
        store = self.settings.store
        with _logged("old windows and events are not deleted"):
            self.store.prune(store.keep_windows, store.keep_events_days)

    def renew_lease(self) -> None:
        with _logged("the lease on lanes is not renewed"):
            self.store.renew_lease()

    def heed(self) -> None:
        """Have streams do what people want, and metrics show what is silenced."""
        with _logged("what people want is not seen to"):
            wanted = self.store.wanted()
            self.metrics.silence(self.store.silences())
            for stream in self.streams:
                stream.accept(tuple(one for one in wanted if one.stream == stream.name))

    def back_up(self) -> None:
        """Begin to copy the state, for a later start to go back to, unless that is going on."""
        if self._copying is None or not self._copying.is_alive():
            self._copying = threading.Thread(
                target=self.store.back_up, name="copy the state", daemon=True
            )
            self._copying.start()

    def stop(self, seconds: float, force: Callable[[], bool]) -> bool:
        """Stop everything; ``False`` if streams had to be left before they were done."""
        self.stopping = True
        deadline = monotonic() + seconds
        in_time = self._stop_streams(list(self._streams.values()), deadline, force)
        for outlet in self._outlets.values():
            outlet.deliverer.stop(max(0.0, deadline - monotonic()))
        if self._server is not None:
            self._server.stop(_ENDPOINT_SECONDS if in_time else 0.0)
        if self._copying is not None:
            self._copying.join(max(0.0, deadline - monotonic()))
        self.store.close()
        return in_time

    def _start_outlet(self, settings: OutletSettings) -> _Outlet:
        self.metrics.add_outlet(settings.name)
        links: dict[str, str] = dict(self.settings.endpoint.links.items())
        links.setdefault("page", self.address or "")
        outlet = make_outlet(settings, links, self.metrics.everything)
        deliverer = Deliverer(outlet, self.store, self._lanes, self.metrics)
        deliverer.start()
        return _Outlet(settings, deliverer)

    def _start_stream(self, settings: StreamSettings) -> StreamPipeline:
        journal = self._journal_of(settings)
        quarantine = Quarantine(
            self.settings.service.state_dir / "quarantine" / f"{settings.name}.ndjson",
            settings.quarantine_bytes,
            time,
        )
        wanted = tuple((outlet.name, outlet.types) for outlet in self.settings.outlets)
        keyed = settings.key is not None
        metrics = self.metrics.add_stream(
            settings.name, settings.source.kind, keyed=keyed, known=self._known(settings.name)
        )
        metrics.restored(self.store.restored_from or 0.0)
        committer = Committer(self.settings.checkpoint, wanted, metrics, self._wake)
        parts = StreamParts(
            settings=settings,
            source=make_source(settings, journal, self.store.identity),
            store=self.store,
            journal=journal,
            committer=committer,
            quarantine=quarantine,
            metrics=metrics,
            queue_bytes=QUEUE_BYTES,
        )
        pipeline = StreamPipeline(parts)
        pipeline.start()
        return pipeline

    def _journal_of(self, stream: StreamSettings) -> Journal | None:
        source = stream.source
        if not isinstance(source, HttpSourceSettings):
            return None
        return self.store.journal(stream.name, max_pending_bytes=source.max_pending_bytes)

    def _known(self, name: str) -> Known | None:
        """Return what metrics are to show from before the restart."""
        try:
            rows = self.store.monitors(name, limit=_RECALLED)
            if not rows:
                return None
            last = self.store.window(name, "", rows[0].last.window_index)
            open_ = {row.key: self._shown(row.open_episode) for row in rows if row.open_episode}
        except StoreError as error:
            logger.error("metrics begin without the last window: %s", error)
            return None
        levels = {row.key: row.last.level for row in rows}
        return None if last is None else last.report, levels, open_

    def _shown(self, episode: EpisodeRow) -> Shown:
        began, stored = episode.started_window, time()
        if episode.started_time is None:
            place = (episode.stream, episode.key)
            rows = self.store.windows(*place, after=began - 1, before=began + 1, limit=1)
            stored = rows[0].stored if rows else stored
        return Shown.stored(episode, stored)

    def _wake(self) -> None:
        self.live.wake()
        for outlet in tuple(self._outlets.values()):
            outlet.deliverer.wake()

    def _lanes(self) -> frozenset[tuple[str, str]]:
        return frozenset((stream.name, lane) for stream in self.streams for lane in stream.lanes)

    def _drop_outlets(self, wanted: Sequence[OutletSettings]) -> None:
        for name in [n for n, outlet in self._outlets.items() if outlet.settings not in wanted]:
            self._outlets.pop(name).deliverer.stop(SHUTDOWN_SECONDS)
            self.metrics.alerting(name, ())

    def _drop_streams(self, wanted: Sequence[StreamSettings]) -> None:
        names = [n for n, one in self._streams.items() if one.parts.settings not in wanted]
        dropped = [self._streams.pop(name) for name in names]
        deadline = monotonic() + SHUTDOWN_SECONDS
        self._stop_streams(dropped, deadline, lambda: False)
        for name in names:
            self.metrics.drop_stream(name)

    def _stop_streams(
        self, streams: Sequence[StreamPipeline], deadline: float, force: Callable[[], bool]
    ) -> bool:
        for stream in streams:
            stream.stop()
        waiting = list(streams)
        while waiting and monotonic() < deadline and not force():
            waiting = [stream for stream in waiting if not stream.join(_HURRY_SECONDS)]
        for stream in waiting:
            stream.abandon()
        for stream in waiting:
            stream.join(_ENDPOINT_SECONDS)
        for stream in streams:
            if stream.parts.journal is not None:
                stream.parts.journal.close()
        return not waiting


@contextmanager
def _logged(problem: str) -> Iterator[None]:
    """Go on where the state cannot be written now and a later call will do."""
    try:
        yield
    except StoreError as error:
        logger.warning("%s for now: %s", problem, error)


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise StateError(path, error.strerror or str(error)) from error


# The daemon as the endpoint sees it.

STUCK_SECONDS = 600.0
"""A worker that has been at one piece of work for so long is taken for stuck."""


class DaemonView:
    """What can be seen of the daemon from outside; all may be asked by any thread."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self.store = assembly.store
        self.metrics = assembly.metrics
        self.live = assembly.live

    def sickness(self) -> tuple[str, ...]:
        """Say which streams have threads that are gone or do not move."""
        return tuple(reason for stream in self._assembly.streams for reason in _sickness(stream))

    def unreadiness(self) -> tuple[str, ...]:
        """Say which sources are not connected, or write no checkpoints."""
        streams = self._assembly.streams
        if not streams and is_compiling():
            return (f"compiling kernels, {progress()}",)
        reasons = [
            f"stream {stream.name} is {stream.state.value}"
            + ("" if stream.trouble is None else f": {stream.trouble}")
            for stream in streams
            if not stream.ready
        ]
        n_missing = len(self._assembly.settings.streams) - len(streams)
        if n_missing > 0:
            reasons.append(f"{n_missing} streams are not started yet")
        return tuple(reasons)

    def streams(self) -> tuple[StreamInfo, ...]:
        return tuple(
            StreamInfo(
                name=stream.name,
                source=stream.parts.settings.source.kind,
                state=stream.state.value,
                key=stream.parts.settings.key,
                trouble=stream.trouble,
                max_record_bytes=stream.parts.settings.max_record_bytes,
                max_fields=stream.parts.settings.max_fields,
            )
            for stream in self._assembly.streams
        )

    def act(self, wish: Wish) -> ActionRow:
        """Enter what somebody wants, and have it seen to."""
        found = self.store.act(wish)
        self._assembly.heed()
        self.live.wake()
        return found

    def ingest(self, stream: str, table: pa.Table, key: str | None, digest: bytes) -> Accepted:
        """Write records to the journal of a stream; on return they are on disk."""
        found = self._assembly.stream(stream)
        if self._assembly.stopping:
            raise NotNowError("the service is being stopped: send again when it is back")
        is_up = found is not None and (found.parts.source.ready or found.stands_by)
        if found is None or found.parts.journal is None or not is_up:
            raise NotNowError(f"stream {stream!r} is being started: send again in a moment")
        return found.parts.journal.append(table, key, digest=digest)


def _sickness(stream: StreamPipeline) -> list[str]:
    if stream.busy_seconds > STUCK_SECONDS:
        return [
            f"stream {stream.name} has been at the same records for {stream.busy_seconds:.0f} s"
        ]
    if stream.state in (StreamState.RUNNING, StreamState.WAITING) and not stream.alive:
        return [f"stream {stream.name} has no thread any more"]
    return []


# From the first signal of life to the last.


TICK_SECONDS: Final = 0.5
DRAINING_TICK_SECONDS: Final = 0.05
"""Where somebody waits for the end."""
PRUNE_SECONDS: Final = 60.0
LEASE_SECONDS: Final = 5.0
"""How often the lease on lanes is renewed."""
HEED_SECONDS: Final = 2.0
"""How often to look what people want, whichever process they told."""
LIVE_SECONDS: Final = 2.0
"""How often the page looks for what daemons on other hosts have published."""
COMPILING_SECONDS: Final = 1.0
"""How often it is told how far the compiler is."""
COMPILING_GRACE_SECONDS: Final = 60.0
"""How much longer a start may take, told to systemd as long as the compiler runs."""
COPY_SECONDS: Final = 3600.0
"""How often the state is copied."""
_ENDED: Final = (StreamState.DRAINED, StreamState.FAILED, StreamState.STOPPED)


@dataclass
class _Chore:
    seconds: float
    action: Callable[[], None]
    done_at: float

    def do_if_due(self, now: float) -> None:
        if now - self.done_at >= self.seconds:
            self.done_at = now
            self.action()


def warm_up_monitor() -> tuple[str, ...]:
    """Run a monitor on a tiny stream with a drift, for every part of a decision to be used."""
    n_rows = 500
    monitor, rng = DriftMonitor(window=n_rows), np.random.default_rng(1)
    levels = []
    for copies in (True, True, True, False, False, True):
        x, y, z = rng.integers(0, 2, (3, n_rows))
        for report in monitor.update({"x": x, "y": x ^ (y * z) if copies else y, "z": z}):
            levels.append(report.decision.level.value)
    return tuple(levels)


def warm_up() -> None:
    """Load or compile all kernels."""
    warm_up_monitor()
    warm_up_decoding()


def watched_warm_up(tell: Callable[[str], None], give_up: Callable[[], bool]) -> None:
    """Warm up in another thread; once a second ``tell`` how far that is, if it takes so long."""
    compiler = ThreadPoolExecutor(1, "compile")
    begun, done = monotonic(), compiler.submit(warm_up)
    compiler.shutdown(wait=False)
    while not give_up():
        try:
            return done.result(timeout=COMPILING_SECONDS)
        except NotYet:
            if is_compiling():
                tell(f"compiling kernels, {progress()}, {monotonic() - begun:.0f} s")


class Daemon:
    """Runs streams, outlets and the endpoint.

    ``open``, ``startup``, ``tick`` and ``shutdown`` may be called one by one; ``run`` does it with
    signals. ``reload`` returns the settings as they are in the file now; ``None`` if they stay.
    """

    def __init__(self, settings: Settings, *, reload: Callable[[], Settings] | None = None) -> None:
        self.settings = settings
        self._reload = reload
        self._notifier = Notifier()
        self._assembly = Assembly(settings)
        self.view = DaemonView(self._assembly)
        self._was_ready = False
        self._alive_at = monotonic()
        self._chores = [
            _Chore(PRUNE_SECONDS, self._assembly.prune, monotonic()),
            _Chore(HEED_SECONDS, self._assembly.heed, monotonic() - HEED_SECONDS),
            _Chore(LEASE_SECONDS, self._assembly.renew_lease, monotonic()),
            _Chore(COPY_SECONDS, self._assembly.back_up, monotonic() - COPY_SECONDS),
        ]
        if self._assembly.store.shared:
            self._chores.append(_Chore(LIVE_SECONDS, self._assembly.live.wake, monotonic()))

    @property
    def address(self) -> str | None:
        return self._assembly.address

    def reset(self, names: Sequence[str]) -> None:
        """Forget states and history of streams, before the start; an unknown name is refused."""
        known = {stream.name for stream in self.settings.streams}
        for name in names:
            if name not in known:
                listed = ", ".join(sorted(known))
                raise UsageError(f"--reset {name}: no stream has this name; there are {listed}")
            self._assembly.store.reset(name)
            logger.warning("stream begins anew", extra={"stream": name})

    def open(self) -> None:
        """Open the endpoint; nothing else takes long to be there."""
        self._assembly.start_endpoint(self.view)
        logger.info("listening", extra={"address": self.address or "none"})

    def startup(
        self,
        give_up: Callable[[], bool] = lambda: False,
        tell: Callable[[str], None] = logger.info,
    ) -> None:
        """Load or compile the kernels and ``tell`` of it, then start outlets and streams."""

        def tell_all(words: str) -> None:
            self._notifier.extend(COMPILING_GRACE_SECONDS, words)
            tell(words)

        watched_warm_up(tell_all, give_up)
        self._assembly.apply(self.settings, give_up)
        logger.info(
            "started",
            extra={"streams": len(self._assembly.streams), "address": self.address or "none"},
        )

    def tick(self) -> bool:
        """Look after everything once; ``False`` when there is nothing left to do."""
        now = monotonic()
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
        self._notifier.reloading(monotonic())
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

        ``force`` is asked again and again whether to hurry; then nothing more is worked off.
        Returns 0, or 1 if a stream has failed or had to be left.
        """
        self._notifier.stopping()
        logger.info("stopping: what was read is worked off; a second signal ends it at once")
        failed = any(stream.state is StreamState.FAILED for stream in self._assembly.streams)
        in_time = self._assembly.stop(SHUTDOWN_SECONDS, force)
        logger.info("stopped" if in_time else "stopped before all was worked off; nothing is lost")
        return 1 if failed or not in_time else 0

    def run(self) -> int:
        """Start, go on until a signal or the end of all streams, stop; return the exit code."""
        with Signals() as signals:
            try:
                self.open()
                self.startup(lambda: signals.n_stops > 0)
                pause = TICK_SECONDS
                if self.settings.service.exit_when_drained:
                    pause = DRAINING_TICK_SECONDS
                while not signals.n_stops and self.tick():
                    signals.wait(pause)
                    if signals.take_reload():
                        self.reload()
                return self.shutdown(force=lambda: signals.n_stops > 1)
            except BaseException:
                self._assembly.stop(0.0, lambda: True)
                raise

    def _tell_manager(self, now: float) -> None:
        if not self._was_ready and not self.view.unreadiness():
            self._was_ready = True
            self._notifier.ready(self._summary())
        period = self._notifier.watchdog_seconds
        if period is None or now - self._alive_at < period / 3:
            return
        self._alive_at = now
        sickness = self.view.sickness()
        if sickness:
            logger.error("not healthy: %s", "; ".join(sickness))
        else:
            self._notifier.alive()

    def _summary(self) -> str:
        return f"{len(self._assembly.streams)} streams, endpoint {self.address or 'off'}"
