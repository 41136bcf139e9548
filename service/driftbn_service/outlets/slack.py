"""Events as messages in a channel of Slack, or of whatever takes what Slack takes."""

from __future__ import annotations

import json
from typing import Final

from driftbn_service.events import Event
from driftbn_service.outlets.base import NO_LINKS, Links, links_of
from driftbn_service.outlets.webhook import WebhookOutlet
from driftbn_service.settings import SlackOutletSettings

_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""What Slack would take for a link or a mention."""


class SlackOutlet(WebhookOutlet):
    """Posts each event to an incoming webhook: the stream and its key, then what is to be said."""

    content_type = "application/json; charset=utf-8"

    def __init__(self, settings: SlackOutletSettings, links: Links = NO_LINKS) -> None:
        super().__init__(settings)
        self._links = links

    def body(self, event: Event) -> bytes:
        told = event.document["data"]
        name = f"{event.stream} / {event.key}" if event.key else event.stream
        lines = [
            f"*{name}*: {told['headline']}",
            *(f"• {text}" for text in (*told["sentences"], *told["advice"])),
        ]
        text = "\n".join((*(line.translate(_ESCAPES) for line in lines), *self._linked(event)))
        return json.dumps({"text": text}, ensure_ascii=False).encode("utf-8", errors="replace")

    def _linked(self, event: Event) -> list[str]:
        found = links_of(event, self._links)
        return [f"<{address}|{name}>" for name, address in found.items()]
