"""Messages to a channel, over a real socket."""

from __future__ import annotations

from dataclasses import replace

from driftbn_service.outlets.webhook import SlackOutlet
from driftbn_service.settings import SlackOutletSettings

from tests.outlet_parts import NO_LINKS, Links, make_event, receiver

EVENT = make_event(1)
WORDS = {"headline": "'a < b' broke", "sentences": ["Since 12:00."], "advice": ["Ask <!here>."]}


def told(links: Links = NO_LINKS, **others: str) -> object:
    event = replace(EVENT, document={**EVENT.document, "data": WORDS}, **others)
    with receiver() as found:
        settings = SlackOutletSettings.model_validate({"url": found.url})
        outlet = SlackOutlet(settings, links)
        outlet.open()
        outlet.send([event])
        outlet.close()
    (request,) = found.requests
    assert request.headers["Content-Type"] == "application/json; charset=utf-8"
    return request.document


def test_message_names_the_stream_and_says_what_happened_and_what_to_do() -> None:
    text = "*orders*: 'a &lt; b' broke\n• Since 12:00.\n• Ask &lt;!here&gt;."
    assert told(stream="orders", key="") == {"text": text}


def test_message_of_a_keyed_stream_names_the_key_and_mentions_nobody() -> None:
    document = told(stream="orders", key="<@U1>")
    assert isinstance(document, dict)
    assert document["text"].startswith("*orders / &lt;@U1&gt;*: ")


def test_message_leads_to_page_and_dashboard_where_the_settings_have_them() -> None:
    links = {"page": "https://drift.example.org", "dashboards": "https://g.example.org"}
    document = told(links, stream="orders", key="<eu|us>")
    assert isinstance(document, dict)
    assert document["text"].splitlines()[-2:] == [
        "<https://drift.example.org/#stream=orders&key=%3Ceu%7Cus%3E|page>",
        "<https://g.example.org/d/driftbn-stream?var-stream=orders|dashboard>",
    ]
