"""The server as an ASGI application: its paths, and what answers where there is none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.routing import Route

from treadle.server.data.database import Database
from treadle.server.http import openapi
from treadle.server.http.account_pages import AccountPages
from treadle.server.http.admin_pages import AdminPages
from treadle.server.http.endpoint_calls import Resource
from treadle.server.http.endpoints import Endpoint
from treadle.server.http.feed_pages import FeedPages
from treadle.server.http.fleet_pages import FleetPages
from treadle.server.http.invitation_pages import InvitationPages
from treadle.server.http.page_site import PageSite
from treadle.server.http.reader_pages import ReaderPages
from treadle.server.http.request_monitor import monitor_request
from treadle.server.http.responses import Send
from treadle.server.http.retention_pages import RetentionPages
from treadle.server.http.routes import (
    admin,
    current_user,
    health,
    holds,
    identities,
    invitations,
    reads,
    records,
    remote_requests,
    retention,
    shares,
    webhooks,
)
from treadle.server.http.routes import threads as documents
from treadle.server.http.services import Services
from treadle.server.http.settings import ServerConfig
from treadle.server.http.uncounted_usage import UncountedUsage
from treadle.server.http.usage_pages import UsagePages
from treadle.server.http.webhook_pages import WebhookPages
from treadle.store.local_store import utc_now

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *health.ENDPOINTS,
    *documents.ENDPOINTS,
    *records.ENDPOINTS,
    *shares.ENDPOINTS,
    *reads.ENDPOINTS,
    *remote_requests.ENDPOINTS,
    *current_user.ENDPOINTS,
    *admin.ENDPOINTS,
    *invitations.ENDPOINTS,
    *identities.ENDPOINTS,
    *webhooks.ENDPOINTS,
    *holds.ENDPOINTS,
    *retention.ENDPOINTS,
)
"""All that the server can be asked. A path that names something stands before one with a name."""


class Application:
    """The ASGI application of one process."""

    def __init__(self, services: Services) -> None:
        self.services = services
        document = msgspec.json.encode(openapi.make_openapi_document(ENDPOINTS))
        paths: dict[str, dict[str, Endpoint]] = {}
        for endpoint in ENDPOINTS:
            paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
        self._starlette = Starlette(
            routes=[
                Route(path, Resource(services, found, document)) for path, found in paths.items()
            ],
            lifespan=self._lifespan,
        )
        self._starlette.router.redirect_slashes = False
        self._pages = PageSite(services, _list_page_routes)
        self._starlette.router.default = self._pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; what is no HTTP is not spoken here."""
        if scope["type"] == "http":
            await monitor_request(
                self._starlette.router, scope, receive, send, self.services.metrics
            )
        elif scope["type"] == "lifespan":
            await self._starlette(scope, receive, send)

    def stop(self) -> None:
        """End every stream: the server is about to stop. Other requests are answered."""
        self.services.change_listeners.stop()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.services.schedule_indexing()  # what a process that died has left
        self.services.start_journal_uptake()
        self.services.start_keeping_reads()
        uncounted = UncountedUsage(self.services.database, self.services.now)
        uncounted.start()
        self.services.webhook_sender.start()
        self.services.retention_keeper.start()
        yield
        self.stop()
        await uncounted.close()
        await self.services.close()


def _list_page_routes(site: PageSite) -> list[Route]:
    parts = (
        AccountPages,
        AdminPages,
        FeedPages,
        FleetPages,
        InvitationPages,
        ReaderPages,
        RetentionPages,
        UsagePages,
        WebhookPages,
    )
    routes = [route for part in parts for route in part(site).list_routes()]
    if site.services.config.oidc is not None:
        # What it needs takes long to import, and most servers need it not.
        from treadle.server.http.provider_pages import ProviderPages

        routes += ProviderPages(site, site.services.config.oidc).list_routes()
    return routes


def make_app(
    config: ServerConfig, database: Database, *, now: Callable[[], str] = utc_now
) -> Application:
    """The server as an ASGI application.

    Args:
        config: its limits.
        database: with tables of this version; whoever opened it closes it.
        now: the clock, in the form of records.
    """
    return Application(Services(config, database, now))
