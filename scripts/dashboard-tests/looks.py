"""How the dashboard looks: accessible, within its window, and as the tour in the documents shows it."""
import os, re
from playwright.sync_api import expect
from support import Visit, axe, screenshots


def nothing_serious_is_inaccessible(browser, server):
    for scheme in ("light", "dark"):
        for place in PLACES:
            with Visit(browser, server.address, place, scheme) as page:
                page.wait_for_timeout(2500 if place.startswith("#overview") else 800)
                if axe:
                    # Through the debugger, as the policy of the page lets no other script in.
                    page.evaluate(open(axe).read() + "; undefined")
                    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
                    serious = [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found if one["impact"] in ("serious", "critical")]
                    assert not serious, (scheme, place, serious)


def pages_fit_their_window(browser, server):
    for width in (390, 1280, 2560):
        for scheme in ("light", "dark"):
            for place in PLACES:
                with Visit(browser, server.address, place, scheme, width) as page:
                    page.wait_for_timeout(2500 if place.startswith("#overview") else 800)
                    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
                    assert wide[0] <= wide[1], (width, place, wide)
                    if screenshots:
                        name = re.sub(r"\W+", "-", place.strip("#").replace("db=shop", "")).strip("-")
                        os.makedirs(screenshots, exist_ok=True)
                        page.screenshot(path=f"{screenshots}/{name}-{width}-{scheme}.png")


PLACES = ["#overview?db=shop", "#data?db=shop&typed=fruit&key=1", "#data?db=shop&table=stock", "#sql?db=shop", "#operations?db=shop", "#profile?db=shop"]

PLACES = ["#overview?db=shop", "#data?db=shop&typed=fruit&key=1", "#data?db=shop&table=stock", "#sql?db=shop", "#changes?db=shop", "#operations?db=shop", "#profile?db=shop"]
TESTS = [nothing_serious_is_inaccessible, pages_fit_their_window]
