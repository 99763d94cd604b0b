"""One path of the API: takes a request apart, has one function answer it, and sends the answer."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec
from anyio import move_on_after
from sqlalchemy import Connection

from treadle.api.error_codes import ErrorCode
from treadle.api.types import MACHINE_HEADER, Health
from treadle.errors import TreadleError
from treadle.server.accounts import tokens
from treadle.server.context import Context, Principal
from treadle.server.http import request_reader, responses
from treadle.server.http.change_stream import PAGE_COUNT, ChangePage
from treadle.server.http.endpoints import JSON, Endpoint, EndpointRequest, EndpointResponse
from treadle.server.http.limits import BodyReader
from treadle.server.http.metrics import METRICS_MEDIA_TYPE
from treadle.server.http.request_monitor import RequestLogFields
from treadle.server.http.request_reader import RequestHead
from treadle.server.http.responses import Send
from treadle.server.http.routes.health import APPLICATION_ENDPOINTS
from treadle.server.http.routes.remote_requests import LISTENING
from treadle.server.http.routes.retention import RUN_NAME
from treadle.server.http.services import Services
from treadle.server.refusals import Refusal, make_not_found_refusal, make_unauthorized_refusal
from treadle.server.threads import threads
from treadle.server.threads.push import make_push_queries
from treadle.version import __version__

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Resource:
    """The ASGI application of one path.

    Args:
        services: of the process.
        endpoints: what can be done there, by method.
        document: the OpenAPI document, encoded.
    """

    def __init__(
        self, services: Services, endpoints: Mapping[str, Endpoint], document: bytes
    ) -> None:
        self._services = services
        self._endpoints = dict(endpoints)
        self._document = document
        allowed = {*endpoints, "OPTIONS"} | ({"HEAD"} if "GET" in endpoints else set())
        self._allow = {"allow": ", ".join(sorted(allowed))}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse as the API refuses."""
        try:
            await self._handle_request(scope, receive, send)
        except Refusal as refusal:
            seen: RequestLogFields = scope["treadle"]
            if seen.has_response_started:
                raise
            seen.code = refusal.code
            if refusal.code is ErrorCode.UNAVAILABLE:
                seen.refusal_text = str(
                    refusal
                )  # of the database and the server: nothing of what was sent
            is_left = not seen.has_read_body and request_reader.has_body(scope)
            await responses.send_refusal(
                send, refusal, is_last=is_left, is_page=responses.wants_page(scope)
            )

    async def _handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen: RequestLogFields = scope["treadle"]
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = self._endpoints.get(method)
        if method == "OPTIONS":
            await responses.send_response(send, 204, "", b"", self._allow)
            return
        if endpoint is None:
            raise Refusal(
                ErrorCode.METHOD_NOT_ALLOWED, "that cannot be done here", headers=self._allow
            )
        seen.route, seen.name = endpoint.path, endpoint.name
        head = request_reader.read_head(scope, self._services.config)
        if endpoint.name in APPLICATION_ENDPOINTS:
            await self._answer_application_endpoint(endpoint, head, send)
            return
        digest = hashlib.sha256((head.bearer or "").encode()).hexdigest() if head.bearer else ""
        self._services.rate_limiter.count_request(head.address, digest)
        if head.bearer is None and not endpoint.is_open:
            raise make_unauthorized_refusal()
        request = _EndpointCall(self._services, endpoint, head, seen)
        try:
            user_id = None if endpoint.body is None else await self._find_sender_id(head, digest)
            with self._services.body_memory.open_reservation(user_id) as held:
                body = b""
                if endpoint.body is not None:
                    request_reader.check_content_type(endpoint, head.headers)
                    reader = BodyReader(receive, head.headers, self._services.config, held)
                    body = await reader.read()
                    seen.has_read_body, seen.body_size = True, len(body)
                context, answer = await request.run_endpoint(scope, body)
        except Refusal as refusal:
            if refusal.code is ErrorCode.UNAUTHORIZED:
                self._services.rate_limiter.forget_token(digest)
            raise
        caller = context.caller
        if caller.user_id is not None:
            self._services.rate_limiter.confirm_token(digest, caller.user_id)
        is_whole = scope["method"] != "HEAD"
        if endpoint.is_stream and is_whole:
            await request.stream_changes(
                caller, request_reader.read_last_event_id(head.headers), receive, send
            )
        else:
            await request.send_response(answer, send, is_whole=is_whole)
        self._services.run_in_background(request.record_token_use(context))

    async def _find_sender_id(self, head: RequestHead, digest: str) -> int | None:
        """Who sends a body, before any of it is held; the request asks again when it is there.

        A token that has proved to be one is believed so far: what one user can hold is bounded.

        Raises:
            Refusal: the token is none.
        """
        services = self._services
        known = services.rate_limiter.find_user(digest)
        if known is not None or head.bearer is None:
            return known
        if not tokens.is_well_formed(head.bearer, tokens.TokenKind.ACCESS):
            raise make_unauthorized_refusal()
        found = await services.run_transaction(
            lambda db: services.make_context(db, head.bearer).caller.user_id, is_write=False
        )
        assert found is not None
        services.rate_limiter.confirm_token(digest, found)
        return found

    async def _answer_application_endpoint(
        self, endpoint: Endpoint, head: RequestHead, send: Send
    ) -> None:
        """What the application knows by itself."""
        services = self._services
        if endpoint.name == "openapi":
            await responses.send_response(send, 200, JSON, self._document)
        elif endpoint.name == "metrics":
            await self._check_metrics_access(head)
            await responses.send_response(send, 200, METRICS_MEDIA_TYPE, services.metrics.render())
        else:
            health = await _check_health(services, is_ready=endpoint.name == "ready")
            status = 200 if health.status == "healthy" else 503
            await responses.send_response(send, status, JSON, msgspec.json.encode(health))

    async def _check_metrics_access(self, head: RequestHead) -> None:
        """Numbers tell how much a team works: they are for who runs the server.

        Raises:
            Refusal: the caller is not who may see them.
        """
        if self._services.config.has_public_metrics or (head.is_local and head.bearer is None):
            return
        if head.bearer is None:
            raise make_not_found_refusal()
        caller = await self._services.run_transaction(
            lambda db: self._services.make_context(db, head.bearer).caller, is_write=False
        )
        if not caller.is_admin or not tokens.allows(caller.scope, "all"):
            raise make_not_found_refusal()


class _EndpointCall:
    """A request of one endpoint, with what of it has been read."""

    def __init__(
        self,
        services: Services,
        endpoint: Endpoint,
        head: RequestHead,
        log_fields: RequestLogFields,
    ) -> None:
        self._services = services
        self._endpoint = endpoint
        self._head = head
        self._log_fields = log_fields
        self._query: Any = None

    async def run_endpoint(self, scope: Scope, body: bytes) -> tuple[Context, EndpointResponse]:
        """Who asks, and the answer of the endpoint's function; its transaction is committed.

        Raises:
            Refusal: the request has not the form of the endpoint, or the function refuses.
        """
        endpoint, bearer = self._endpoint, self._head.bearer

        def work(db: Connection) -> tuple[Context, EndpointResponse]:
            # Who asks is looked at first: nobody else is told what is wrong with a request.
            context = self._services.make_context(db, bearer, is_open=endpoint.is_open)
            tokens.check_scope(context.caller, endpoint.scope)
            return context, endpoint.do(self._make_request(context, scope, body))

        questions = (
            make_push_queries(bearer, scope["path_params"].get("thread_id", ""))
            if endpoint.name == "push_records"
            else ()
        )
        if endpoint.name == "search_threads":
            await self._services.index_until_current()
        context, answer = await self._services.run_transaction(
            work, is_write=endpoint.is_write, queries=questions
        )
        self._log_fields.user_id = context.caller.user_id
        if context.reads:
            way = endpoint.way or request_reader.read_purpose(self._head.headers)
            await self._services.keep_reads(context.reads, way, self._head.address, context.now)
        if endpoint.is_write:
            self._services.change_listeners.notify_change()
            self._services.schedule_indexing()
            if endpoint.name == "try_webhook":
                self._services.webhook_sender.wake()
            if endpoint.name == RUN_NAME:
                self._services.retention_keeper.wake()
            if endpoint.name == "push_records":
                self._services.metrics.pushes.inc()
                self._services.metrics.pushed_size.inc(len(body))
        return context, answer

    def _make_request(self, context: Context, scope: Scope, body: bytes) -> EndpointRequest:
        """The request in the form of the endpoint."""
        endpoint, headers = self._endpoint, self._head.headers
        path = request_reader.check_path(scope["path_params"])
        self._query = request_reader.read_query(scope["query_string"], endpoint.query)
        return EndpointRequest(
            context,
            path,
            self._query,
            request_reader.read_body(endpoint, body) if endpoint.body is not None else None,
            request_reader.read_if_match(endpoint, headers),
            request_reader.read_if_none_match(headers) if endpoint.has_tag else frozenset(),
            self._head.origin,
            self._services.config.allows_private_webhooks,
        )

    async def record_token_use(self, context: Context) -> None:
        """Note that a token was used, if nobody has to wait for it: the next use is noted too."""
        caller = context.caller
        services = self._services
        listens = self._endpoint.name == LISTENING
        if not services.token_uses.mark_if_due(caller, context.now, listens=listens):
            return
        token_id = caller.token_id
        assert token_id is not None
        machine = self._head.headers.get(MACHINE_HEADER, "")
        try:
            await services.run_transaction(
                lambda db: tokens.record_use(db, token_id, context.now, machine, listens=listens),
                is_write=True,
                wait_s=0,
            )
        except Refusal:
            services.token_uses.unmark(token_id)

    async def send_response(self, answer: EndpointResponse, send: Send, *, is_whole: bool) -> None:
        """Send the answer; what follows its first part is made while that is on its way."""
        endpoint = self._endpoint
        status = answer.status or endpoint.status
        if answer.raw is None:
            data = b"" if answer.value is None else msgspec.json.encode(answer.value)
        else:
            data = answer.raw
        has_body = status not in (204, 304)
        media = (answer.media or endpoint.answer_media) if has_body else ""
        if answer.rest is None:
            await responses.send_response(send, status, media, data, answer.headers)
            return
        await responses.send_head(send, status, media, answer.headers)
        while is_whole:
            await responses.send_body(send, data, is_last=answer.rest is None)
            rest = answer.rest
            if rest is None:
                return
            answer = await self._services.run_transaction(
                lambda db, rest=rest: rest(  # type: ignore[misc]
                    self._services.make_context(db, self._head.bearer, is_open=endpoint.is_open)
                ),
                is_write=False,
            )
            data = answer.raw or b""
        await responses.send_body(send, b"", is_last=True)

    async def stream_changes(
        self, caller: Principal, last: int | None, receive: Receive, send: Send
    ) -> None:
        """Send changes for as long as the caller listens and may.

        Args:
            caller: who listens.
            last: the change that the caller has seen last, if it says so.
            receive: says when the caller has gone.
            send: of ASGI.

        Raises:
            Refusal: there are too many streams.
        """
        services = self._services
        after = last if last is not None else self._query.after
        if not isinstance(after, int):
            after = await services.run_transaction(services.find_newest_change, is_write=False)
        with services.change_listeners.add_listener(caller) as listener:
            services.metrics.streams.inc()
            try:
                await responses.send_head(send, 200, self._endpoint.answer_media, {})
                async with services.change_listeners.watch_disconnect(receive, listener) as gone:
                    async for text in services.change_listeners.stream_events(
                        listener, after, self._read_changes, gone
                    ):
                        await responses.send_body(send, text, is_last=False)
                await responses.send_body(send, b"", is_last=True)
            finally:
                services.metrics.streams.dec()

    async def _read_changes(self, after: int) -> ChangePage:
        def work(db: Connection) -> ChangePage:
            context = self._services.make_context(db, self._head.bearer)
            # What was committed before the look is in it; what comes later has a larger number.
            seen = threads.find_newest_change(context)
            heads = tuple(threads.list_changes(context, after, PAGE_COUNT))
            if len(heads) >= PAGE_COUNT:
                return ChangePage(heads, heads[-1].change)
            return ChangePage(heads, max([after, seen, *(head.change for head in heads)]))

        return await self._services.read_for_listeners(work)


async def _check_health(services: Services, *, is_ready: bool) -> Health:
    """Whether the parts work; one that does not answer in time does not."""

    def check_parts() -> str:
        # Once: what is begun anew would wait for a locked database again and again.
        with services.database.read() as db:
            services.find_newest_change(db)
        if is_ready and services.has_failed_to_write:
            services.try_to_write()
        return (
            "healthy" if not is_ready or services.database.has_current_schema() else "not migrated"
        )

    found = "does not answer"
    try:
        with move_on_after(services.config.health_time_s):
            found = await services.run_health_check(check_parts)
    except Refusal as refusal:
        found = str(refusal)
    except TreadleError as error:
        found = error.message
    components = {"database": found}
    if is_ready:
        components["server"] = "stopping" if services.change_listeners.is_stopping else "healthy"
    is_healthy = all(one == "healthy" for one in components.values())
    return Health("healthy" if is_healthy else "unhealthy", __version__, components)
