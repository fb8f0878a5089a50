"""How the dashboard looks: accessible, within its window, and as the tour in the documents shows it."""
import math, os, re, time
from playwright.sync_api import expect
from support import Visit, axe, screenshots


def places(page, names):
    """Goes through places in one window, as a person does."""
    for place in names:
        page.evaluate("place => { location.hash = place; }", place)
        # Figures of the last seconds need two looks at the server.
        page.wait_for_timeout(2300 if place.startswith("#overview") else 700)
        yield place


def nothing_serious_is_inaccessible(browser, server):
    script = open(axe).read() + "; undefined"
    for scheme in ("light", "dark"):
        with Visit(browser, server.address, PLACES[0], scheme) as page:
            # Through the debugger, as the policy of the page lets no other script in.
            page.evaluate(script)
            for place in places(page, PLACES):
                found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
                serious = [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found if one["impact"] in ("serious", "critical")]
                assert not serious, (scheme, place, serious)


def pages_fit_their_window(browser, server):
    # Colours change no width: without pictures, one scheme suffices.
    for width in (390, 1280, 2560):
        for scheme in ("light", "dark") if screenshots else ("light",):
            with Visit(browser, server.address, PLACES[0], scheme, width) as page:
                for place in places(page, PLACES):
                    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
                    assert wide[0] <= wide[1], (width, place, wide)
                    if screenshots:
                        name = re.sub(r"\W+", "-", place.strip("#").replace("db=shop", "")).strip("-")
                        os.makedirs(screenshots, exist_ok=True)
                        page.screenshot(path=f"{screenshots}/{name}-{width}-{scheme}.png")


def the_tour_has_a_picture_of_five_minutes(browser, server):
    """Takes the picture of Overview for docs/dashboard.md, if the variable TOUR names the folder. It takes as long."""
    folder = os.environ.get("TOUR")
    if not folder:
        return
    with Visit(browser, server.address, "#overview?db=shop", width=1100) as page:
        begun = time.time()
        number = 0
        while time.time() - begun < 290:
            # A load that rises and falls, so that there is something to see.
            for _ in range(int(30 + 20 * math.sin((time.time() - begun) / 30))):
                number += 1
                server.ask("GET", f"v1/databases/shop/tables/stock/entries/item{number * 7 % 230:04}")
                if number % 3 == 0:
                    server.ask("PUT", f"v1/databases/shop/tables/stock/entries/item{number % 230:04}", b"%d pieces" % number)
            if number % 5 == 0:
                server.sql("SELECT count(*) FROM many")
            page.wait_for_timeout(700)
        take(page, folder, "overview")


def the_tour_has_its_pictures(browser, server):
    """Takes the other pictures of docs/dashboard.md."""
    folder = os.environ.get("TOUR")
    if not folder:
        return
    with Visit(browser, server.address, "#data?db=shop&typed=many&key=town1%2F1", width=1280) as page:
        grid = page.get_by_role("grid", name="Records of many")
        grid.get_by_role("checkbox").nth(2).check()
        grid.get_by_role("checkbox").nth(4).check()
        take(page, folder, "data", 1280)
    with Visit(browser, server.address, "#sql?db=shop", width=1100) as page:
        box = page.get_by_role("textbox", name="SQL statement")
        box.fill("SELECT town, count(*) AS rows, min(id), max(id) FROM many GROUP BY town ORDER BY rows DESC")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("gridcell", name="town6")).to_be_visible()
        take(page, folder, "sql")
    server.ask("PUT", "v1/databases/shop/consumers/mails")
    with Visit(browser, server.address, "#changes?db=shop", width=1100) as page:
        page.wait_for_timeout(800)
        for n, (key, value) in enumerate([("apples", "7 pieces"), ("pears", "12 pieces"), ("plums", "3 pieces"), ("apples", "6 pieces")]):
            server.ask("PUT", f"v1/databases/shop/tables/stock/entries/{key}", value.encode())
        server.ask("DELETE", "v1/databases/shop/tables/stock/entries/plums")
        server.sql("UPDATE fruit SET price = 2 WHERE id = 1")
        page.wait_for_timeout(800)
        take(page, folder, "changes")
    server.ask("POST", "v1/databases/shop/transactions", {})
    with Visit(browser, server.address, "#operations?db=shop", width=1100) as page:
        for label in ("Checkpoint", "Check"):
            page.get_by_role("button", name=label, exact=True).click()
            expect(page.get_by_text(f"{label} of shop: ")).to_be_visible()
        page.get_by_text(re.compile("^The last work")).click()
        page.wait_for_timeout(2500)
        take(page, folder, "operations")


def take(page, folder, name, width=1100):
    os.makedirs(folder, exist_ok=True)
    page.screenshot(path=f"{folder}/dashboard-{name}.png", clip={"x": 0, "y": 0, "width": width, "height": 720})


PLACES = ["#overview?db=shop", "#data?db=shop&typed=fruit&key=1", "#data?db=shop&table=stock", "#sql?db=shop", "#operations?db=shop", "#profile?db=shop"]

PLACES = ["#overview?db=shop", "#data?db=shop&typed=fruit&key=1", "#data?db=shop&table=stock", "#sql?db=shop", "#changes?db=shop", "#operations?db=shop", "#profile?db=shop"]
TESTS = [nothing_serious_is_inaccessible, pages_fit_their_window, the_tour_has_a_picture_of_five_minutes, the_tour_has_its_pictures]
