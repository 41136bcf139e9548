from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from driftbn_service.page import CONTENT_SECURITY_POLICY, FOLDER, page_files, page_routes
from driftbn_service.settings import EndpointSettings

from tests.http_client import Client
from tests.http_service import FakeService, make_app

OWN_SCRIPTS = sorted((FOLDER / "js").glob("*.js"))
VENDORED = ("cytoscape", "dagre", "uPlot")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FakeService]:
    with FakeService(tmp_path) as found:
        yield found


def client(service: FakeService, token: str | None = None) -> Client:
    settings = EndpointSettings.model_validate({"token": token})
    return Client(make_app(service, settings, page_routes=page_routes()))


def test_every_file_has_the_strict_policy(service: FakeService) -> None:
    asked = client(service)
    for file in page_files():
        answer = asked.get(file.path)
        assert answer.status_code == 200, file.path
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.content == file.body


@pytest.mark.parametrize("word", ["unsafe", "*", "http:", "https:", "data:"])
def test_the_policy_has_no_holes(word: str) -> None:
    assert word not in CONTENT_SECURITY_POLICY


def test_the_page_is_served_without_the_token_and_the_data_are_not(service: FakeService) -> None:
    asked = client(service, token="secret")
    assert asked.get("/").status_code == 200
    assert asked.get("/static/js/main.js").status_code == 200
    assert asked.get("/api/v1/streams").status_code == 401


def test_a_known_file_is_not_sent_again(service: FakeService) -> None:
    asked = client(service)
    tag = asked.get("/static/js/main.js").headers["etag"]
    again = asked.get("/static/js/main.js", headers={"if-none-match": f'"other", W/{tag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert asked.get("/static/js/main.js", headers={"if-none-match": '"other"'}).status_code == 200


def test_files_are_compressed_for_those_who_ask(service: FakeService) -> None:
    asked = client(service)
    packed = asked.get("/static/vendor/cytoscape.min.js", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(packed.content) / 2
    plain = asked.get("/static/vendor/cytoscape.min.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == packed.content


@pytest.mark.parametrize(
    "path",
    ["/static/routes.py", "/static/../routes.py", "/static/%2e%2e/routes.py", "/static/js/", "/x"],
)
def test_nothing_else_is_served(service: FakeService, path: str) -> None:
    assert client(service).get(path).status_code == 404


def test_the_page_refers_only_to_files_that_are_there() -> None:
    html = (FOLDER / "index.html").read_text("utf-8")
    served = {file.path for file in page_files()}
    named = re.findall(r'(?:src|href)="(static/[^"]+)"', html)
    assert len(named) > 8
    assert {f"/{name}" for name in named} <= served
    for script in OWN_SCRIPTS:
        for name in re.findall(r'from "\./([^"]+)"', script.read_text("utf-8")):
            assert f"/static/js/{name}" in served, (script.name, name)


def test_the_page_has_no_inline_script_or_style() -> None:
    html = (FOLDER / "index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", html)
    assert not re.search(r"<script(?![^>]*\bsrc=)", html)


@pytest.mark.parametrize("script", OWN_SCRIPTS, ids=lambda path: path.stem)
def test_scripts_never_make_markup_of_text(script: Path) -> None:
    text = script.read_text("utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser",
        text,
    )


def test_nothing_comes_from_elsewhere() -> None:
    own = [FOLDER / "index.html", *OWN_SCRIPTS, *(FOLDER / "css").glob("*.css")]
    for path in own:
        assert not re.search(r"https?://|//cdn|@import|url\(", path.read_text("utf-8")), path
    for path in (FOLDER / "vendor").iterdir():
        assert "sourceMappingURL" not in path.read_text("utf-8"), path


@pytest.mark.parametrize("library", VENDORED)
def test_every_library_has_its_licence_beside_it(library: str) -> None:
    (licence,) = (FOLDER / "vendor").glob(f"{library}.*.txt")
    assert "Permission is hereby granted" in licence.read_text("utf-8")
    assert list((FOLDER / "vendor").glob(f"{library}*.min.js"))
