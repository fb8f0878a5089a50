"""What operators do in the dashboard: look at the last hour, follow changes, end readers, take backups, manage tokens; and
delete or export several records."""
import json, os, re, subprocess, time
from playwright.sync_api import expect
from support import Held, Server, Visit, keys, pando, scratch


def the_last_hour_is_there_after_a_reload(browser, server):
    for n in range(40):
        server.ask("GET", f"v1/databases/shop/tables/stock/entries/item{n:04}")
    begun = time.time()
    while not json.loads(server.ask("GET", "v1/history?after=0"))["points"] or b'"get"' not in server.ask("GET", "v1/history"):
        assert time.time() - begun < 20
        time.sleep(0.5)
    with Visit(browser, server.address, "#overview?db=shop") as page:
        chart = page.get_by_role("img", name=re.compile("^Requests a second, [1-9]"))
        expect(chart).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^p99 latency, [1-9]"))).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^Size of the files, [1-9]"))).to_be_visible()
        points = int(re.search(r", (\d+) points", chart.get_attribute("aria-label"))[1])
        page.reload()
        expect(chart).to_be_visible()
        again = int(re.search(r", (\d+) points", chart.get_attribute("aria-label"))[1])
        assert again >= points, (points, again)
        # Figures appear under the pointer, and with the arrow keys.
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 40)
        expect(page.locator(".tip:visible")).to_contain_text("reads: ")
        page.mouse.move(2, 2)
        expect(page.locator(".tip:visible")).to_have_count(0)
        chart.focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".tip:visible")).to_contain_text(":")


def changes_come_as_they_are_made(browser, server):
    server.ask("PUT", "v1/databases/shop/tables/feed")
    put = lambda key, value: server.ask("PUT", f"v1/databases/shop/tables/feed/entries/{key}", value)
    put("early", b"before the page")
    server.ask("PUT", "v1/databases/shop/consumers/mails")
    visit = Visit(browser, server.address, "#changes?db=shop")
    with visit as page:
        grid = page.get_by_role("grid", name="Changes, newest first")
        status = page.get_by_role("main").get_by_role("status")
        expect(grid).to_contain_text("early")
        expect(status).to_contain_text("Live")
        put("k1", b"first value")
        expect(grid).to_contain_text("first value")
        server.sql("UPDATE fruit SET price = 3 WHERE id = 1")
        expect(grid).to_contain_text("price=3")
        expect(grid).not_to_contain_text("sql:")
        server.sql("CREATE TABLE wide(a)")
        server.sql("INSERT INTO wide VALUES (hex(zeroblob(1024)))")
        expect(grid).to_contain_text("… (2.0 KiB)")
        server.sql("DROP TABLE wide")
        # A long value is not fetched.
        before = visit.bytes
        put("long", b"y" * 900000)
        expect(grid).to_contain_text("(879 KiB)")
        # Nothing is missed in a pause.
        page.get_by_role("button", name="Pause").click()
        expect(status).to_contain_text("Paused")
        for n in range(5):
            put(f"paused{n}", b"while nobody looked")
        page.wait_for_timeout(600)
        expect(grid).not_to_contain_text("paused0")
        page.get_by_role("button", name="Continue").click()
        for n in range(5):
            expect(grid).to_contain_text(f"paused{n}")
        # By table and prefix, and in the address.
        page.get_by_role("combobox", name="Changes of").select_option("feed")
        page.get_by_role("searchbox", name="Keys that begin with").fill("k")
        page.get_by_role("button", name="Apply").click()
        expect(grid).to_contain_text("first value")
        expect(grid).not_to_contain_text("paused0")
        assert "of=feed" in page.url and "prefix=k" in page.url
        # A change leads to its record.
        grid.get_by_text("first value").click()
        expect(page.get_by_role("textbox", name="Value")).to_have_value("first value")
        page.go_back()
        # The rows are bounded.
        page.get_by_role("searchbox", name="Keys that begin with").fill("")
        page.get_by_role("button", name="Apply").click()
        lines = "".join(json.dumps({"key": f"many{n:05}", "value": "v"}) + "\n" for n in range(3000))
        server.ask("POST", "v1/databases/shop/tables/feed/entries", lines.encode())
        expect(grid).to_contain_text("many02999")
        expect(grid).to_have_attribute("aria-rowcount", "1001")
        expect(page.get_by_role("region", name="Consumers")).to_contain_text("mails")
        page.get_by_role("button", name="Delete mails").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_text("Deleted the consumer mails.")).to_be_visible()
        expect(page.get_by_role("region", name="Consumers")).to_have_count(0)
        assert json.loads(server.ask("GET", "v1/databases/shop/consumers"))["consumers"] == []
        assert visit.bytes - before < 400 << 10, "no more than the beginnings of values"
    # A view that is left gives its place among the streams back.
    begun = time.time()
    while json.loads(server.ask("GET", "v1/server"))["streams"]:
        assert time.time() - begun < 10, "the stream is still open"
        time.sleep(0.1)
    server.ask("DELETE", "v1/databases/shop/tables/feed")


def several_records_are_deleted_brought_back_and_exported(browser, server):
    server.sql("CREATE TABLE bulk(id INTEGER PRIMARY KEY, note TEXT, raw BLOB);"
               "INSERT INTO bulk WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 60) SELECT i, 'note \"' || i || '\"', x'00ff' FROM n")
    server.ask("PUT", "v1/databases/shop/tables/loose")
    lines = "".join(json.dumps({"key": f"k{n:02}", "value": f"v{n}"}) + "\n" for n in range(20))
    server.ask("POST", "v1/databases/shop/tables/loose/entries", lines.encode())
    count = lambda: json.loads(server.sql("SELECT count(*) FROM bulk").split(b"\n")[1])[0]
    with Visit(browser, server.address, "#data?db=shop&typed=bulk", allowed=("412",)) as page:
        grid = page.get_by_role("grid", name="Records of bulk")
        for n in (2, 3, 5):
            grid.get_by_role("checkbox", name=f"Select {n}", exact=True).check()
        bulk = page.get_by_role("group", name="Selected records")
        expect(bulk).to_contain_text("3 records selected")
        with page.expect_download() as stored:
            bulk.get_by_role("button", name="Export selected as CSV").click()
        text = open(stored.value.path()).read()
        assert text == 'id,note,raw\n2,"note ""2""",00ff\n3,"note ""3""",00ff\n5,"note ""5""",00ff\n', text
        with page.expect_download() as stored:
            bulk.get_by_role("button", name="Export selected as NDJSON").click()
        assert [json.loads(line)["id"] for line in open(stored.value.path())] == [2, 3, 5]
        bulk.get_by_role("button", name="Delete selected").click()
        dialog = page.get_by_role("dialog", name="Delete 3 records?")
        expect(dialog).to_be_visible()
        # Somebody changes one of them while the question is open.
        server.sql("UPDATE bulk SET note = 'changed meanwhile' WHERE id = 3")
        dialog.get_by_role("button", name="Delete 3 records").click()
        expect(page.get_by_text("Deleted 2 records. 1 were changed meanwhile, and stay.")).to_be_visible()
        assert count() == 58
        expect(grid).to_contain_text("changed meanwhile")
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("2 records are back.")).to_be_visible()
        assert count() == 60
        # By keyboard: Space selects the row, Ctrl+A all of the page.
        grid.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")
        expect(bulk).to_contain_text("1 record selected")
        page.keyboard.press("Control+a")
        expect(bulk).to_contain_text("50 records selected")
        page.get_by_role("button", name="Next").click()
        expect(bulk).to_be_hidden()
    with Visit(browser, server.address, "#data?db=shop&table=loose") as page:
        page.get_by_role("checkbox", name="Select all records of the page").check()
        page.get_by_role("button", name="Delete selected").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete 20 records").click()
        expect(page.get_by_text("The table has no records yet.")).to_be_visible()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("grid")).to_contain_text("k19")
        page.get_by_role("searchbox", name="Keys that begin with").fill("k1")
        page.get_by_role("button", name="Find").click()
        expect(page.get_by_role("grid")).not_to_contain_text("k09")
        with page.expect_download() as stored:
            page.get_by_role("link", name="Export what is found as NDJSON").click()
        assert len(open(stored.value.path()).readlines()) == 10
    # The file of all records is what the server would send.
    server.sql("CREATE TABLE odd(id TEXT PRIMARY KEY, note TEXT, n REAL, raw BLOB)")
    for n, note in enumerate([None, "", "\\N", "\\\\N", "a,b", "a\nb", " padded ", '"', "NULL", "ä‮"]):
        server.ask("POST", "v1/databases/shop/sql", {"sql": "INSERT INTO odd VALUES (?, ?, ?, NULL)", "params": [f"k {n}", note, n / 4]})
    with Visit(browser, server.address, "#data?db=shop&typed=odd") as page:
        page.get_by_role("checkbox", name="Select all records of the page").check()
        with page.expect_download() as stored:
            page.get_by_role("button", name="Export selected as CSV").click()
        ours, theirs = open(stored.value.path(), newline="").read(), server.ask("GET", "v1/databases/shop/documents/odd?format=csv").decode()
        assert ours == theirs, (ours, theirs)
    server.sql("DROP TABLE odd; DROP TABLE bulk")
    server.ask("DELETE", "v1/databases/shop/tables/loose")


def readers_of_others_are_ended(browser, server):
    # Transactions of other tests end by themselves meanwhile.
    ids = lambda: {reader["id"] for reader in json.loads(server.ask("GET", "v1/databases/shop/readers"))["readers"] if reader["idle_ms"] is not None}
    others = ids()
    token = json.loads(server.ask("POST", "v1/databases/shop/transactions", {}))["transaction"]
    own, = ids() - others
    with Visit(browser, server.address, "#operations?db=shop", allowed=("404",)) as page:
        readers = page.get_by_role("region", name="Readers")
        end = page.get_by_role("button", name=f"End the transaction {own}", exact=True)
        expect(readers.get_by_role("row").filter(has=end)).to_contain_text("interactive transaction")
        end.click()
        page.get_by_role("dialog").get_by_role("button", name="End").click()
        expect(page.get_by_text("Ended the transaction.")).to_be_visible()
        expect(end).to_have_count(0)
    for held in json.loads(server.ask("GET", "v1/databases/shop/readers"))["readers"]:
        if held["idle_ms"] is not None:
            server.ask("DELETE", f"v1/databases/shop/readers/{held['id']}")
    try:
        server.ask("POST", f"v1/databases/shop/transactions/{token}/commit")
        raise AssertionError("a transaction that was ended has committed")
    except OSError as error:
        assert error.status == 404, error


def work_and_backups_are_shown(browser, server):
    folder = f"{scratch}/backups"
    own = Server("backed-up", "--backup-to", folder, "--backup-every", "2s", "--backup-keep", "3")
    try:
        with Visit(browser, own.address, "#operations?db=default") as page:
            points = page.get_by_role("region", name="Restore points")
            expect(points).to_contain_text("backup-000001-full", timeout=30000)
            expect(points).to_contain_text(f"pando restore {folder}/default NEW-DIR --at backup-000001-full")
            expect(page.get_by_text("The server takes one every 2 s")).to_be_visible()
            page.get_by_role("button", name="Check", exact=True).click()
            page.get_by_text(re.compile("^The last work")).click()
            expect(page.get_by_role("region", name="The last work")).to_contain_text("scheduled backup")
            page.get_by_text(re.compile("^Configuration of the server")).click()
            expect(page.get_by_role("row", name=re.compile("^--backup-every "))).to_contain_text("the command line")
            expect(page.get_by_role("row", name=re.compile("^--max-streams "))).to_contain_text("the default")
        name = json.loads(own.ask("GET", "v1/databases/default/backups"))["backups"][0]["name"]
        subprocess.run([pando, "restore", f"{folder}/default", f"{scratch}/restored", "--at", name], check=True, capture_output=True)
    finally:
        own.stop()
    # Progress of a backup that is slow.
    server.ask("PUT", "v1/databases/shop/tables/stock/entries/~long", b"x" * (3 << 20))
    with Visit(browser, server.address, "#operations?db=shop") as page:
        slow = subprocess.Popen(["curl", "-s", "-o", os.devnull, f"{server.address}/v1/databases/shop/backup?rate=65536"])
        try:
            expect(page.get_by_role("progressbar", name="Progress of backup")).to_be_visible()
        finally:
            slow.kill()
            slow.wait()
    server.ask("DELETE", "v1/databases/shop/tables/stock/entries/~long")


def tokens_are_created_and_revoked(browser, _):
    server = Server("tokens")
    token = None
    try:
        with Visit(browser, server.address, "#operations?db=default", allowed=("401", "409")) as page:
            page.get_by_role("button", name="New token").click()
            dialog = page.get_by_role("dialog", name="New token")
            dialog.get_by_role("textbox", name="Name").fill("chief")
            dialog.get_by_role("button", name="Create").click()
            shown = page.get_by_role("dialog", name="The token chief").get_by_role("textbox", name="The token")
            expect(shown).to_have_value(re.compile("^pando_[0-9a-f]{64}$"))
            token = shown.input_value()
        server.token = token
        with Visit(browser, server.address, "#operations?db=default", headers={"authorization": f"Bearer {token}"}, allowed=("409",)) as page:
            page.get_by_role("button", name="New token").click()
            dialog = page.get_by_role("dialog", name="New token")
            dialog.get_by_role("textbox", name="Name").fill("reader")
            dialog.get_by_role("combobox", name="In").select_option("default")
            dialog.get_by_role("combobox", name="Valid").select_option("3600")
            dialog.get_by_role("textbox", name="Requests a second").fill("50")
            dialog.get_by_role("button", name="Create").click()
            page.get_by_role("dialog", name="The token reader").get_by_role("button", name="Done").click()
            row = page.get_by_role("region", name="Tokens").get_by_role("row").filter(has_text="reader")
            expect(row).to_contain_text("not since the server started")
            expect(row).to_contain_text("50")
            page.get_by_role("button", name="Revoke chief").click()
            page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
            expect(page.get_by_text("It is the last token")).to_be_visible()
            page.get_by_role("button", name="Revoke reader").click()
            page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
            expect(row).to_have_count(0)
        assert len(json.loads(server.ask("GET", "v1/tokens"))["tokens"]) == 1
    finally:
        server.stop()


def a_saved_entry_keeps_its_date_and_a_long_one_is_compared(browser, server):
    server.ask("PUT", "v1/databases/shop/tables/dated", {"ttl_by_key": True})
    server.ask("PUT", "v1/databases/shop/tables/dated/entries/k?ttl_ms=600000", b"old")
    server.ask("PUT", "v1/databases/shop/tables/dated/entries/long", b"x" * (2 << 20))
    left = lambda: json.loads(server.ask("GET", "v1/databases/shop/tables/dated/expiry/k"))["ttl_ms"]
    with Visit(browser, server.address, "#data?db=shop&table=dated&key=6b", allowed=("412",)) as page:
        page.get_by_role("textbox", name="Value").fill("new")
        page.wait_for_timeout(1500)
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
        assert 500000 < left() < 598600, left()
        assert server.ask("GET", "v1/databases/shop/tables/dated/entries/k") == b"new"
        # What was deleted comes back for the rest of its time.
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        page.wait_for_timeout(1200)
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("k is back.")).to_be_visible()
        assert 500000 < left() < 597500, left()
        # A time that was written counts from now on, and an empty field is for ever.
        page.get_by_role("gridcell", name="k", exact=True).click()
        page.get_by_role("textbox", name="Lives for").fill("900000")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved.").last).to_be_visible()
        page.wait_for_timeout(300)
        assert 890000 < left() <= 900000, left()
        page.get_by_role("textbox", name="Lives for").fill("")
        page.get_by_role("button", name="Save").click()
        page.wait_for_timeout(500)
        assert left() is None
        # A long value that somebody changes is not deleted.
        page.get_by_role("gridcell", name="long", exact=True).click()
        expect(page.get_by_role("link", name="Download it")).to_be_visible()
        server.ask("PUT", "v1/databases/shop/tables/dated/entries/long", b"x" * (2 << 20) + b"!")
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("alert")).to_contain_text("it was not deleted")
        assert len(server.ask("GET", "v1/databases/shop/tables/dated/entries/long")) == (2 << 20) + 1
    server.ask("DELETE", "v1/databases/shop/tables/dated")


TESTS = [the_last_hour_is_there_after_a_reload, changes_come_as_they_are_made, several_records_are_deleted_brought_back_and_exported, readers_of_others_are_ended,
         work_and_backups_are_shown, tokens_are_created_and_revoked, a_saved_entry_keeps_its_date_and_a_long_one_is_compared]
