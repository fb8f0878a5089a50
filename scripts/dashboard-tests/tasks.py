"""What people do in the dashboard: find tables, page, edit, delete, run statements, look at profiles."""
import json, os, re, urllib.parse
from playwright.sync_api import expect
from support import HOSTILE, Held, Visit, keys


def the_rail_leads_to_tables_by_keyboard(browser, server):
    with Visit(browser, server.address, "#overview?db=shop") as page:
        tree = page.get_by_role("tree", name="Databases and tables")
        expect(tree.get_by_role("treeitem", name="fruit")).to_be_visible()
        page.keyboard.press("/")
        page.keyboard.type("fru")
        expect(tree.get_by_role("treeitem", name="stock")).to_have_count(0)
        page.keyboard.press("ArrowDown")
        tree.get_by_role("treeitem", name="fruit").wait_for()
        for _ in range(9):
            if "active" in (tree.get_by_role("treeitem", name="fruit").get_attribute("class") or ""):
                break
            page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        expect(tree.get_by_role("treeitem", name="name text")).to_be_visible()
        page.keyboard.press("Enter")
        expect(page.get_by_role("grid", name="Records of fruit")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Databases")).to_be_visible()
        page.go_forward()
        page.reload()
        expect(page.get_by_role("grid", name="Records of fruit")).to_contain_text("<b>lemon</b>")
        expect(page.get_by_role("grid", name="Records of fruit")).to_contain_text("9007199254740993")


def pages_go_both_ways(browser, server):
    # By the primary key, and by bytes.
    for place, label in [("typed=many", "Records of many"), ("table=stock", "Records of stock")]:
        with Visit(browser, server.address, f"#data?db=shop&{place}") as page:
            grid = page.get_by_role("grid", name=label)
            expect(grid).to_have_attribute("aria-rowcount", "51")
            expect(page.get_by_role("button", name="Previous")).to_be_disabled()
            first = keys(page, label)
            page.get_by_role("button", name="Next").click()
            expect(page.get_by_role("button", name="Previous")).to_be_enabled()
            second = keys(page, label)
            assert not set(first) & set(second) or place == "typed=many", (first, second)
            at = page.url
            page.get_by_role("button", name="Next").click()
            page.wait_for_function("at => location.href !== at", arg=at)
            page.get_by_role("button", name="Previous").click()
            expect(page.get_by_role("button", name="Next")).to_be_enabled()
            page.wait_for_timeout(300)
            assert keys(page, label) == second
            page.reload()
            expect(page.get_by_role("button", name="Next")).to_be_enabled()
            assert keys(page, label) == second, "a reload shows the same page"
            page.get_by_role("button", name="Last").click()
            expect(page.get_by_role("button", name="Next")).to_be_disabled()
            page.get_by_role("button", name="First").click()
            expect(page.get_by_role("button", name="Previous")).to_be_disabled()
            page.wait_for_timeout(300)
            assert keys(page, label) == first


def a_row_is_edited_deleted_and_brought_back(browser, server):
    with Visit(browser, server.address, "#data?db=shop&typed=fruit", allowed=("400", "412")) as page:
        grid = page.get_by_role("grid", name="Records of fruit")
        grid.get_by_text("apple").click()
        page.get_by_role("textbox", name="price").fill("2.75")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
        assert json.loads(server.ask("GET", "v1/databases/shop/documents/fruit/1"))["price"] == 2.75
        page.get_by_role("textbox", name="price").fill("dear")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("dear")
        page.get_by_role("textbox", name="price").fill("2.75")
        page.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Cancel").click()
        assert b"apple" in server.ask("GET", "v1/databases/shop/documents/fruit/1")
        page.get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Delete").click()
        expect(page.get_by_text("Deleted 1.")).to_be_visible()
        expect(grid.get_by_text("apple")).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(grid.get_by_text("apple")).to_be_visible()
        assert json.loads(server.ask("GET", "v1/databases/shop/documents/fruit/1"))["photo"] == "00ff"
        # A number keeps all its digits.
        grid.get_by_text("9007199254740993").click()
        page.get_by_role("checkbox", name="name is NULL").uncheck()
        page.get_by_role("textbox", name="name").fill("big")
        page.get_by_role("button", name="Save").click()
        expect(grid.get_by_text("big")).to_be_visible()
        assert b"9007199254740993" in server.ask("GET", "v1/databases/shop/documents/fruit/9007199254740993")
        page.get_by_role("button", name="New record").click()
        page.get_by_role("textbox", name="id").fill("1")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("alert")).to_contain_text("exists already")


def entries_stay_as_they_were_but_for_what_was_changed(browser, server):
    for key, value in [("bytes", b"\0\xff\n"), ("lines", b"a\r\nb\n"), (".", b"dot"), ("..", b"\xff"), ("text", "a\nä".encode())]:
        body = {"operations": [{"op": "put", "table": "stock", "key": f"~{key}" if key not in (".", "..") else key, "value_hex": value.hex()}]}
        server.ask("POST", "v1/databases/shop/batch", body)
    stored = lambda key: server.ask("GET", f"v1/databases/shop/tables/stock/entries?key={urllib.parse.quote(key)}")
    with Visit(browser, server.address, "#data?db=shop&table=stock") as page:
        for key, shown, change, then in [("~bytes", "00ff0a", "00ff0a0d", "00ff0a0d"), ("~lines", "610d0a620a", "610d0a62", "610d0a62"),
                                         (".", "dot", "dot!", b"dot!".hex()), ("..", "ff", "ff00", "ff00"), ("~text", "a\nä", "a\nä!", "a\nä!".encode().hex())]:
            page.get_by_role("searchbox", name="Keys that begin with").fill(key)
            page.get_by_role("button", name="Find").click()
            page.get_by_role("grid").get_by_role("gridcell", name=key, exact=True).first.click()
            box = page.get_by_role("textbox", name="Value")
            expect(box).to_have_value(shown)
            box.fill(change)
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_text("Saved.").first).to_be_visible()
            for close in page.get_by_role("button", name="Dismiss").all():
                close.click()
            one = json.loads(stored(key).split(b"\n")[0])
            assert one.get("value_hex", one.get("value", "").encode().hex()) == then, (key, one)
        page.get_by_role("combobox", name="How the value is written").select_option("hex")
        page.get_by_role("textbox", name="Value").fill("0")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("two hexadecimal digits")


def the_second_of_two_people_is_shown_both_versions(browser, server):
    place = "#data?db=shop&typed=fruit&key=2"
    with Visit(browser, server.address, place, allowed=("412",)) as one, Visit(browser, server.address, place, allowed=("412",)) as two:
        for page in (one, two):
            expect(page.get_by_role("textbox", name="name")).to_have_value("<b>lemon</b>")
        one.get_by_role("textbox", name="name").fill("lime")
        one.get_by_role("button", name="Save").click()
        expect(one.get_by_text("Saved.")).to_be_visible()
        two.get_by_role("textbox", name="name").fill("citron")
        two.get_by_role("button", name="Save").click()
        dialog = two.get_by_role("dialog", name="Changed meanwhile")
        expect(dialog).to_contain_text("lime")
        expect(dialog).to_contain_text("citron")
        assert json.loads(server.ask("GET", "v1/databases/shop/documents/fruit/2"))["name"] == "lime", "nothing was overwritten"
        dialog.get_by_role("button", name="Save mine over it").click()
        expect(two.get_by_text("Saved.")).to_be_visible()
        assert json.loads(server.ask("GET", "v1/databases/shop/documents/fruit/2"))["name"] == "citron"


def what_is_typed_while_the_server_works_stays(browser, server):
    with Visit(browser, server.address, "#data?db=shop&table=stock") as page:
        grid, search = page.get_by_role("grid", name="Records of stock"), page.get_by_role("searchbox", name="Keys that begin with")
        expect(grid).to_contain_text("item0000")
        entries = Held(page, re.compile("entries.*cursor="))
        page.get_by_role("button", name="Next").click()
        entries.wait()
        search.fill("item001")
        entries.release()
        expect(grid).to_contain_text("item0050")
        expect(search).to_have_value("item001")
        # A page that is read again after a change, too.
        grid.get_by_text("item0050").click()
        box = page.get_by_role("textbox", name="Value")
        expect(box).to_have_value("50 pieces")
        box.fill("51 pieces")
        saved = Held(page, re.compile("entries/"), "PUT")
        page.get_by_role("button", name="Save").click()
        saved.wait()
        search.fill("item002")
        assert not box.evaluate("field => { field.focus(); return document.activeElement === field; }"), "it is drawn again soon"
        saved.release()
        expect(grid).to_contain_text("51 pieces")
        expect(search).to_have_value("item002")
        expect(box).to_have_value("51 pieces")
        assert box.evaluate("field => { field.focus(); return document.activeElement === field; }")


def what_was_asked_for_an_earlier_place_is_not_drawn(browser, server):
    go = lambda page, place: page.evaluate("place => { location.hash = place; }", place)
    with Visit(browser, server.address, "#data?db=shop&table=stock") as page:
        grid, choose = page.get_by_role("grid", name="Records of stock"), page.get_by_role("heading", name="Choose a table")
        expect(grid).to_contain_text("item0000")
        page.get_by_role("link", name="Data", exact=True).click()
        expect(choose).to_be_visible()
        page.go_back()
        expect(grid).to_contain_text("item0000")
        # The table is not drawn over the place after it.
        table = Held(page, re.compile("documents$"))
        go(page, "#data?db=shop&typed=many")
        table.wait()
        go(page, "#data?db=shop")
        expect(choose).to_be_visible()
        table.release()
        expect(choose).to_be_visible()
        # A record that is opened while a page is read stays open.
        go(page, "#data?db=shop&table=stock")
        expect(grid).to_contain_text("item0000")
        entries = Held(page, re.compile("entries.*cursor="))
        page.get_by_role("button", name="Next").click()
        entries.wait()
        grid.get_by_text("item0003").click()
        expect(page.get_by_role("textbox", name="Value")).to_have_value("3 pieces")
        entries.release()
        expect(grid).to_contain_text("item0050")
        expect(page.get_by_role("textbox", name="Value")).to_have_value("3 pieces")
    with Visit(browser, server.address, "#operations?db=shop") as page:
        check = Held(page, re.compile("check$"), "POST")
        page.get_by_role("button", name="Check", exact=True).click()
        check.wait()
        go(page, "#operations?db=default")
        expect(page.get_by_role("heading", name="Maintenance of default")).to_be_visible()
        check.release()
        expect(page.get_by_text("Check of shop: Sound")).to_be_visible()
    # A download would run the statement in the other database.
    with Visit(browser, server.address, "#sql?db=shop") as page:
        page.get_by_role("textbox", name="SQL statement").fill("SELECT count(*) FROM many")
        rows = Held(page, re.compile("/sql"), "POST")
        page.get_by_role("button", name="Run").click()
        rows.wait()
        go(page, "#sql?db=default")
        rows.release()
        expect(page.get_by_role("main").get_by_role("status")).to_contain_text("1 row in the database shop")
        expect(page.get_by_role("button", name="Download CSV")).to_be_hidden()


def what_is_written_is_what_was_meant(browser, server):
    server.sql("CREATE TABLE large(id INTEGER PRIMARY KEY, big INTEGER DEFAULT 9007199254740993); INSERT INTO large VALUES (1, 1)")
    # A button that is pressed twice saves once.
    with Visit(browser, server.address, "#data?db=shop&typed=large&key=1") as page:
        expect(page.get_by_role("textbox", name="big")).to_have_value("1")
        page.get_by_role("textbox", name="big").fill("7")
        saved = Held(page, re.compile("large/1"), "PUT")
        page.get_by_role("button", name="Save").dblclick()
        saved.wait()
        page.wait_for_timeout(300)
        assert len(saved.routes) == 1
        assert saved.routes[0].request.headers["if-match"]
        saved.release()
        expect(page.get_by_text("Saved.")).to_be_visible()
        stored = json.loads(server.ask("GET", "v1/databases/shop/documents/large/1"))
        assert stored == {"id": 1, "big": 7}, stored
        page.get_by_role("button", name="New record").click()
        expect(page.get_by_role("textbox", name="big")).to_have_value("9007199254740993")
    server.sql("DROP TABLE large")


def statements_run_and_only_read_unless_writes_are_allowed(browser, server):
    with Visit(browser, server.address, "#sql?db=shop", allowed=("403", "400")) as page:
        box, status = page.get_by_role("textbox", name="SQL statement"), page.get_by_role("main").get_by_role("status")
        box.press_sequentially("SELECT note FROM man")
        expect(page.get_by_role("option", name="many")).to_be_visible()
        box.press("Tab")
        expect(box).to_have_value("SELECT note FROM many")
        box.press("Control+Enter")
        expect(status).to_contain_text("The first 1,000 rows")
        with page.expect_download() as stored:
            page.get_by_role("button", name="Download CSV").click()
        assert len(open(stored.value.path()).readlines()) == 1021, "a download has all rows"
        box.fill("SELECT 9007199254740993, 1.0, x'00ff', NULL, '<i>'")
        box.press("Control+Enter")
        for text in ["9007199254740993", "1.0", "x'00ff'", "NULL", "<i>"]:
            expect(page.get_by_role("gridcell", name=text, exact=True)).to_be_visible()
        page.get_by_role("button", name="Explain").click()
        box.fill("SELECT * FROM many WHERE town = 'town1'")
        page.get_by_role("button", name="Explain").click()
        expect(page.get_by_role("listitem").first).to_contain_text("many")
        box.fill("DELETE FROM many WHERE id = 1020")
        box.press("Control+Enter")
        expect(status).to_contain_text("read_only")
        page.get_by_role("checkbox", name="Allow writes").check()
        box.press("Control+Enter")
        expect(status).to_contain_text("1 row changed")
        box.fill("SELEC 1")
        box.press("Control+Enter")
        expect(status).to_contain_text("syntax error")
        page.get_by_role("checkbox", name="Allow writes").uncheck()
        box.fill("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
        box.press("Control+Enter")
        expect(page.get_by_role("button", name="Cancel")).to_be_visible()
        box.press("Escape")
        expect(status).to_contain_text("Cancelled after")
        page.reload()
        page.get_by_text("kept in this browser").click()
        expect(page.get_by_role("button", name="SELEC 1", exact=True)).to_be_visible()


def names_from_a_database_are_text(browser, server):
    name = urllib.parse.quote(HOSTILE, safe="")
    server.ask("PUT", f"v1/databases/shop/tables/{name}")
    server.ask("POST", "v1/databases/shop/batch", {"operations": [{"op": "put", "table": HOSTILE, "key": HOSTILE, "value": HOSTILE}]})
    with Visit(browser, server.address, f"#data?db=shop&table={name}") as page:
        expect(page.get_by_role("grid")).to_contain_text("<img src=x")
        expect(page.get_by_role("grid")).to_contain_text("⟨202E⟩gnp.exe")
        expect(page.get_by_role("tree")).to_contain_text("⟨202E⟩")
        page.get_by_role("gridcell").nth(1).click()
        expect(page.get_by_role("textbox", name="Value")).to_have_value(HOSTILE)
        assert page.locator("img").count() == 0 and "taken" not in page.title().split("\u2026")[0][:5]
    server.ask("DELETE", f"v1/databases/shop/tables/{name}")


def operations_say_what_they_did(browser, server):
    with Visit(browser, server.address, "#operations?db=shop") as page:
        for label, said in [("Checkpoint", "Written"), ("Check", "Sound"), ("Compact", "data file went from"), ("Sync", "on the disk")]:
            page.get_by_role("button", name=label, exact=True).click()
            expect(page.get_by_text(f"{label} of shop: ").filter(has_text=said)).to_be_visible()
        with page.expect_download() as stored:
            page.get_by_role("link", name="Download a backup").click()
        assert os.path.getsize(stored.value.path()) > 4096
        server.ask("POST", "v1/databases/shop/transactions", {})
        expect(page.get_by_role("region", name="Readers")).to_contain_text("transaction")


def flame_graphs_are_drawn_or_say_why_not(browser, server):
    with Visit(browser, server.address, "#profile?db=shop") as page:
        for kind in ("alloc", "lock", "cpu"):
            page.get_by_role("combobox", name="Kind of profile").select_option(kind)
            page.get_by_role("combobox", name="Length of the recording").select_option("2")
            page.get_by_role("button", name="Record").click()
            status = page.get_by_role("main").get_by_role("status")
            expect(status).not_to_contain_text("Recording for", timeout=30000)
            blocks = page.get_by_role("group", name="Flame graph").get_by_role("button").count()
            assert blocks > 3 or "Nothing was recorded" in status.inner_text(), (kind, blocks, status.inner_text())
            assert kind != "alloc" or blocks > 3
        assert b"debug/profile" not in server.ask("GET", "debug/slow")

TESTS = [the_rail_leads_to_tables_by_keyboard, pages_go_both_ways, a_row_is_edited_deleted_and_brought_back, entries_stay_as_they_were_but_for_what_was_changed,
         the_second_of_two_people_is_shown_both_versions, what_is_typed_while_the_server_works_stays, what_was_asked_for_an_earlier_place_is_not_drawn,
         what_is_written_is_what_was_meant,
         statements_run_and_only_read_unless_writes_are_allowed, names_from_a_database_are_text, operations_say_what_they_did, flame_graphs_are_drawn_or_say_why_not]
