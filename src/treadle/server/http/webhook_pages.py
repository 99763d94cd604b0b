"""The paths by which webhooks are made, tried and removed on the account's page."""

from __future__ import annotations

from typing import cast

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.api.webhook_types import WEBHOOK_EVENTS, NewWebhook, Webhook
from treadle.pages.site import HEADERS, send_page
from treadle.server.context import Context
from treadle.server.http.account_pages import read_number
from treadle.server.http.page_site import PageSite
from treadle.server.webhooks import webhook_settings


class WebhookPages(Struct, frozen=True):
    """The paths.

    Args:
        site: knows who is signed in, and has the services of the process.
    """

    site: PageSite

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [
            Route("/account/webhooks", self._make, methods=["POST"]),
            Route("/account/webhooks/{webhook_id}/test", self._try, methods=["POST"]),
            Route("/account/webhooks/{webhook_id}/remove", self._remove, methods=["POST"]),
        ]

    async def _make(self, request: Request) -> Response:
        origin = self.site.read_head(request).origin
        allows_private = self.site.services.config.allows_private_webhooks

        def make(context: Context, fields: dict[str, str]) -> Webhook:
            wanted = tuple(one for one in WEBHOOK_EVENTS if fields.get(one) == "yes")
            new = NewWebhook(fields.get("url", "").strip(), wanted or WEBHOOK_EVENTS)
            return webhook_settings.make_webhook(
                context, new, origin, allows_private=allows_private
            )

        made, _ = await self.site.write(request, make)
        return send_page("webhook.html", made=cast("Webhook", made))

    async def _try(self, request: Request) -> Response:
        number = read_number(request.path_params["webhook_id"])
        await self.site.write(
            request, lambda context, _: webhook_settings.try_webhook(context, number)
        )
        self.site.services.webhook_sender.wake()
        return RedirectResponse("/account", 303, HEADERS)

    async def _remove(self, request: Request) -> Response:
        number = read_number(request.path_params["webhook_id"])
        await self.site.write(
            request, lambda context, _: webhook_settings.remove_webhook(context, number)
        )
        return RedirectResponse("/account", 303, HEADERS)
