"""Endpoints of the caller's webhooks."""

from __future__ import annotations

from typing import Final

from treadle.api.webhook_types import NewWebhook, Webhook, Webhooks
from treadle.server.http.endpoints import Endpoint, EndpointRequest, EndpointResponse
from treadle.server.webhooks import webhook_settings

_PATH: Final = "/api/webhooks"


def _make(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(
        webhook_settings.make_webhook(
            request.context,
            request.body,
            request.origin,
            allows_private=request.allows_private_webhooks,
        )
    )


def _list(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(webhook_settings.list_webhooks(request.context))


def _try(request: EndpointRequest) -> EndpointResponse:
    webhook_settings.try_webhook(request.context, int(request.path["webhook_id"]))
    return EndpointResponse()


def _remove(request: EndpointRequest) -> EndpointResponse:
    webhook_settings.remove_webhook(request.context, int(request.path["webhook_id"]))
    return EndpointResponse()


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=_PATH,
        name="make_webhook",
        about="Have the caller told of events at an address; what signs is not shown again.",
        do=_make,
        is_write=True,
        body=NewWebhook,
        status=201,
        answer=Webhook,
    ),
    Endpoint(
        method="GET",
        path=_PATH,
        name="list_webhooks",
        about="The caller's webhooks, and how they fare.",
        do=_list,
        answer=Webhooks,
    ),
    Endpoint(
        method="POST",
        path=f"{_PATH}/{{webhook_id}}/test",
        name="try_webhook",
        about="Send a test, which enables a webhook again that was disabled.",
        do=_try,
        is_write=True,
        status=204,
    ),
    Endpoint(
        method="DELETE",
        path=f"{_PATH}/{{webhook_id}}",
        name="remove_webhook",
        about="Send nothing there any more.",
        do=_remove,
        is_write=True,
        status=204,
    ),
)
