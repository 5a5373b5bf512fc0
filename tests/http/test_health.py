from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import Mount, SyncAttempt
from skills_mcp.http.http_server import Health, NotReady
from tests.content.sources import FakeSource
from tests.support import SKILLS_CONTENT, open_library


def test_it_is_ready_once_content_is_there_and_the_port_is_open() -> None:
    library = open_library(SKILLS_CONTENT, load=False)
    health = Health(library)

    assert health.check_readiness() == NotReady("loading")
    health.begin()
    assert health.check_readiness() == NotReady("loading")
    library.sync()
    assert health.check_readiness() is None


def test_content_without_an_open_port_is_not_ready() -> None:
    health = Health(open_library(SKILLS_CONTENT))

    assert health.check_readiness() == NotReady("loading")


def test_it_says_which_step_is_waited_for() -> None:
    source = FakeSource()
    source.doing = "Receiving objects 45 %"
    health = Health(open_library(Mounts([Mount(source=source)]), load=False))
    health.begin()

    assert health.check_readiness() == NotReady("loading", "Receiving objects 45 %")


def test_a_sync_that_failed_is_named_by_its_code() -> None:
    source = FakeSource("https://ada:secret@git.example")
    source.last_attempt = SyncAttempt(failures=1, error_code="AUTH_FAILED")
    health = Health(open_library(Mounts([Mount(source=source)]), load=False))
    health.begin()

    assert health.check_readiness() == NotReady("sync failed", code="AUTH_FAILED")


def test_a_server_that_ends_is_not_ready() -> None:
    health = Health(open_library(SKILLS_CONTENT))
    health.begin()

    health.end()

    assert health.check_readiness() == NotReady("ending")
