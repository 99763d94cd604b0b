"""Paths by which people sign in at a provider of OpenID Connect, or link a login there."""

from __future__ import annotations

import hmac
import logging
from typing import Any, Final

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.pages.site import HEADERS, PageRefusal, send_page
from treadle.server.accounts import identities, sessions
from treadle.server.accounts.times import count_seconds
from treadle.server.context import ANONYMOUS, Context
from treadle.server.http import logs, page_forms
from treadle.server.http.page_site import PageSite, open_session
from treadle.server.http.session_cookies import delete_cookie, name_cookie, set_cookie
from treadle.server.oidc.attempts import ATTEMPT_S_MAX, SignInAttempt, begin_attempt, derive
from treadle.server.oidc.attempts import read_attempt as decode_attempt
from treadle.server.oidc.id_tokens import IdClaims
from treadle.server.oidc.provider_client import ProviderClient
from treadle.server.oidc.settings import CALLBACK_PATH, OidcProvider, SignInFailure
from treadle.server.refusals import Refusal

ROUTE: Final = "sign-in"
"""What the log calls a request: what stands behind its `?` is a secret for a moment."""
COOKIE: Final = "treadle-sign-in"
CODE_LENGTH_MAX: Final = 4000
_DENIALS: Final = frozenset({"access_denied", "login_required", "interaction_required"})


class ProviderPages:
    """The paths.

    Args:
        site: knows who is signed in, and has the services of the process.
        provider: at which people sign in.
    """

    def __init__(self, site: PageSite, provider: OidcProvider) -> None:
        self._site = site
        self._client = ProviderClient(provider)

    def list_routes(self) -> list[Route]:
        """As Starlette has them."""
        return [
            Route("/sign-in/provider", self._begin, methods=["POST"]),
            Route("/account/identities", self._begin_link, methods=["POST"]),
            Route(CALLBACK_PATH, self._come_back, methods=["GET"]),
        ]

    async def _begin(self, request: Request) -> Response:
        request.scope["treadle"].route = ROUTE
        head = self._site.read_head(request)
        fields = await page_forms.read_form(self._site.services, request, head, None)
        path = page_forms.make_local_path(fields.get("next", "/"))
        return await self._lead_to_provider(request, begin_attempt(path))

    async def _begin_link(self, request: Request) -> Response:
        await self._site.write(request, lambda context, fields: None)
        secret = self._site.find_secret(request)
        return await self._lead_to_provider(request, begin_attempt("/account", secret))

    async def _lead_to_provider(self, request: Request, attempt: SignInAttempt) -> Response:
        """A page that goes on by itself: a form's policy holds for redirects of its answer too."""
        try:
            address = await self._client.make_address(
                attempt.state, attempt.nonce, attempt.challenge
            )
        except SignInFailure as failure:
            return self._send_failure(attempt, failure)
        answer = send_page("provider.html", address=address, host=self._client.provider.host)
        head = self._site.read_head(request)
        set_cookie(head, answer, COOKIE, attempt.encode(), ATTEMPT_S_MAX)
        return answer

    async def _come_back(self, request: Request) -> Response:
        request.scope["treadle"].route = ROUTE
        attempt = decode_attempt(
            request.cookies.get(name_cookie(self._site.read_head(request), COOKIE), "")
        )
        try:
            if attempt is None:
                raise _make_stranger_failure()
            answer = await self._finish(request, attempt)
        except SignInFailure as failure:
            answer = self._send_failure(attempt, failure)
        # An attempt is good for one answer, whatever came of it.
        delete_cookie(self._site.read_head(request), answer, COOKIE)
        return answer

    async def _finish(self, request: Request, attempt: SignInAttempt) -> Response:
        told = request.query_params
        if not hmac.compare_digest(told.get("state", "").encode(), attempt.state.encode()):
            raise _make_stranger_failure()
        await self._check_issuer(told.get("iss"))
        if error := told.get("error"):
            word = error if error in _DENIALS else "error"
            raise SignInFailure(f"{self._client.provider.host} did not sign you in: {word}.")
        code = told.get("code", "")
        if not 0 < len(code) <= CODE_LENGTH_MAX:
            raise SignInFailure("The provider sends no code.", "Sign in again.", 400)
        now_s = count_seconds(self._site.services.now())
        claims = await self._client.redeem_code(code, attempt.verifier, attempt.nonce, now_s)
        try:
            if attempt.session_mark:
                return await self._link(request, attempt, claims)
            return await self._sign_in(request, attempt, claims)
        except Refusal as refusal:
            text, hint = refusal.problem.message, refusal.problem.hint
            raise SignInFailure(f"{text[:1].upper()}{text[1:]}.", hint) from None

    async def _check_issuer(self, issuer: str | None) -> None:
        """RFC 9207: a code of one provider is not to be taken to another."""
        metadata = await self._client.read_metadata()
        if issuer is None and not metadata.authorization_response_iss_parameter_supported:
            return
        if issuer != metadata.issuer:
            raise SignInFailure("The answer is not of the provider that was asked.", status=502)

    async def _sign_in(
        self, request: Request, attempt: SignInAttempt, claims: IdClaims
    ) -> Response:
        services, head = self._site.services, self._site.read_head(request)
        browser = head.headers.get("user-agent", "")

        def work(db: Connection) -> str:
            context = Context(db, ANONYMOUS, services.now())
            found = identities.find_user(context, claims.iss, claims.sub)
            caller, identity_id = found or self._make_user(context, claims)
            own = Context(db, caller, context.now)
            return sessions.begin_session(own, browser, identity_id)

        secret = await services.run_transaction(work, is_write=True)
        # The cookie is the browser's own word: who can set it there must not say where it goes.
        return open_session(head, secret, page_forms.make_local_path(attempt.path))

    def _make_user(self, context: Context, claims: IdClaims) -> Any:
        provider, email = self._client.provider, claims.verified_email
        domain = email.rpartition("@")[2].lower() if email.count("@") == 1 else ""
        organization = provider.domains.get(domain)
        if organization is None:
            raise SignInFailure(
                f"Nobody here is linked to this login: {claims.sub} at {provider.host}.",
                "Sign in with a token, and link it on the page of your account; or ask an admin "
                "to link it, with the name that stands here.",
            )
        return identities.make_user_of_domain(context, claims.iss, claims.sub, email, organization)

    async def _link(self, request: Request, attempt: SignInAttempt, claims: IdClaims) -> Response:
        services, secret = self._site.services, self._site.find_secret(request)
        mark = derive(secret, "link") if secret else ""
        if not hmac.compare_digest(mark, attempt.session_mark):
            raise SignInFailure(
                "You are signed in as somebody else now, or not any more.", "Link it again."
            )

        def work(db: Connection) -> None:
            caller = sessions.identify_session(db, secret, services.now())
            context = Context(db, caller, services.now())
            email = claims.verified_email
            identities.link_identity(context, claims.iss, claims.sub, email)

        await services.run_transaction(work, is_write=True)
        return RedirectResponse("/account", 303, HEADERS)

    def _send_failure(self, attempt: SignInAttempt | None, failure: SignInFailure) -> Response:
        logs.log_event("sign_in_failed", level=logging.WARNING, why=failure.text)
        if attempt is not None and attempt.session_mark:
            raise PageRefusal(failure.status, "No login was linked", failure.text, failure.hint)
        path = "/" if attempt is None else attempt.path
        problem = f"{failure.text} {failure.hint}".strip()
        return self._site.send_sign_in(path, problem, failure.status)


def _make_stranger_failure() -> SignInFailure:
    return SignInFailure(
        "This sign-in was not begun in this browser, was finished already, or is too old.",
        "Begin it here.",
    )
