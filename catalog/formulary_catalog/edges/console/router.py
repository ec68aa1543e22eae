"""All routes of the console, in the order in which they are looked at."""

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from formulary_catalog.domain.console_address import CONSOLE_PATH, FAVICON_PATH
from formulary_catalog.edges.console.pages import (
    catalog,
    coverage,
    halts,
    health,
    incidents,
    overview,
    rules,
    searching,
    signing_in,
    waiting,
)
from formulary_catalog.edges.console.pages.overview import OVERVIEW
from formulary_catalog.edges.console.route import ConsoleRoute
from formulary_catalog.edges.console.templating import asset_response
from formulary_catalog.errors import NotFound

_PAGES = (signing_in, overview, waiting, incidents, searching, catalog, coverage, rules, halts, health)

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)


@router.get("/")
@router.get(CONSOLE_PATH)
@router.get(f"{CONSOLE_PATH}/")
async def first_page(request: Request) -> Response:
    """To the page that matters most."""
    return RedirectResponse(OVERVIEW, status_code=303)


@router.get(f"{CONSOLE_PATH}/static/{{name}}")
async def asset(request: Request, name: str) -> Response:
    """A style sheet or the script."""
    return asset_response(name, request=request)


@router.get(FAVICON_PATH)
async def favicon(request: Request) -> Response:
    """The icon of the console, at the address where browsers look by themselves."""
    return asset_response("icon.svg", request=request)


for page in _PAGES:
    router.include_router(page.router)


@router.get(f"{CONSOLE_PATH}/{{path:path}}")
async def no_page(request: Request, path: str) -> Response:
    """What is asked for and is not there."""
    raise NotFound("there is no page at this address; choose one above", reference=path)
