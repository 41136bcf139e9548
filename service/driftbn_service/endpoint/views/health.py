"""Health, readiness and metrics."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import PlainTextResponse, Response

from driftbn_service.endpoint.operations import Call, Operation, Reply

_TEXT = "text/plain"


def operations() -> tuple[Operation, ...]:
    """Return the routes for supervisors and Prometheus."""
    return (
        Operation(
            "/-/healthy",
            "healthy",
            "Whether the service works; restart it if not.",
            healthy,
            {
                200: Reply("It does.", media_type=_TEXT),
                503: Reply("It does not; one reason a line.", media_type=_TEXT),
            },
            public=True,
        ),
        Operation(
            "/-/ready",
            "ready",
            "Whether all sources are connected and checkpoints are written.",
            ready,
            {
                200: Reply("They are.", media_type=_TEXT),
                503: Reply("Not yet, or not now; one reason a line.", media_type=_TEXT),
            },
            public=True,
        ),
        Operation(
            "/metrics",
            "metrics",
            "The metrics for Prometheus, as OpenMetrics if the client accepts it.",
            metrics,
            {200: Reply("One sample a line.", media_type=_TEXT)},
            headers={"Accept": "application/openmetrics-text or text/plain."},
        ),
    )


async def healthy(call: Call) -> Response:
    """Answer 200, or 503 with the reasons."""
    health = call.view.healthy()
    return _state(health.healthy, "healthy", health.reasons)


async def ready(call: Call) -> Response:
    """Answer 200, or 503 with the reasons."""
    readiness = call.view.ready()
    return _state(readiness.ready, "ready", readiness.reasons)


def metrics(call: Call) -> Response:
    """Answer with the metrics in the form that the client asks for."""
    body, content_type = call.view.metrics_text(call.request.headers.get("accept", ""))
    return Response(body, headers={"content-type": content_type})


def _state(holds: bool, word: str, reasons: tuple[str, ...]) -> Response:
    if holds:
        return PlainTextResponse(f"{word}\n")
    lines = "".join(f"{reason}\n" for reason in reasons)
    return PlainTextResponse(f"not {word}\n{lines}", HTTPStatus.SERVICE_UNAVAILABLE)
