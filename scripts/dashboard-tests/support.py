"""What the tests of the dashboard share: servers, windows on them, and what is in them."""
import json, os, re, signal, subprocess, sys, time, urllib.request
from playwright.sync_api import Error, expect

pando, scratch, chromium, axe, screenshots = sys.argv[1:]
expect.set_options(timeout=15000)
HOSTILE = "<img src=x onerror=document.title='taken'>\u202egnp.exe"
SERVER = re.compile(rb"http://(\S+:\d+)")


class Server:
    """A server of a directory of its own."""

    def __init__(self, name, *options, port=0):
        self.dir = f"{scratch}/{name}"
        command = [pando, "serve", self.dir, "--listen", f"127.0.0.1:{port}", "--durability", "lazy", "--slow", "1", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = b""
        while not SERVER.search(line):
            line = self.process.stdout.readline() or sys.exit("the server does not start")
        self.address = "http://" + SERVER.search(line)[1].decode()
        self.port = int(self.address.rsplit(":", 1)[1])
        self.token = None

    def ask(self, method, path, body=None):
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}/{path}", data, headers, method=method)
        with urllib.request.urlopen(request) as response:
            return response.read()

    def sql(self, text, database="shop"):
        return self.ask("POST", f"v1/databases/{database}/sql", {"sql": text})

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Visit:
    """A window on a server. Complaints of the browser fail the test, but for those that it expects."""

    def __init__(self, browser, address, place="", scheme="light", width=1280, headers=None, allowed=(), clock=None):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme,
                                           accept_downloads=True, extra_http_headers=headers or {})
        self.page, self.complaints, self.allowed, self.bytes, self.data_bytes = self.context.new_page(), [], allowed, 0, 0
        # Through the debugger, as the policy of the page lets no other script in.
        self.context.add_init_script("self.longTasks = []; new PerformanceObserver(list => longTasks.push(...list.getEntries().map(one => one.duration))).observe({ type: 'longtask', buffered: true })")
        if clock:
            self.page.clock.set_fixed_time(clock)
        self.page.on("console", self.complain)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfinished", self.count)
        self.page.goto(f"{address}/{place}")
        self.page.wait_for_selector("body[data-ready]")

    def complain(self, message):
        if message.type in ("error", "warning") and not any(part in message.text for part in self.allowed):
            self.complaints.append(message.text)

    def count(self, request):
        try:
            size = request.sizes()["responseBodySize"]
            self.bytes += size
            if re.search("/(entries|documents|explain|changes)", request.url):
                self.data_bytes += size
        except Error:
            # The window was closed meanwhile, and nobody asks for the number any more.
            pass

    def longest_task(self):
        """The longest time for which the page could not react, in milliseconds."""
        self.page.wait_for_timeout(300)
        return max(self.page.evaluate("longTasks"), default=0)

    def __enter__(self):
        return self.page

    def __exit__(self, kind, *_):
        if kind is None:
            assert not self.complaints, self.complaints
        self.context.close()


class Held:
    """Requests that are kept back until `release`, so that a test can go on meanwhile."""

    def __init__(self, page, address, method="GET"):
        self.page, self.routes, self.is_over = page, [], False
        self.keep = lambda route: self.routes.append(route) if route.request.method == method and not self.is_over else route.continue_()
        page.route(address, self.keep)

    def wait(self):
        begun = time.time()
        while not self.routes:
            assert time.time() - begun < 15, "nothing was asked"
            self.page.wait_for_timeout(20)

    def release(self):
        self.is_over = True
        for route in self.routes:
            route.continue_()
        self.page.wait_for_timeout(500)


def filled(browser_server):
    server = browser_server
    server.ask("PUT", "v1/databases/shop")
    server.sql("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL, photo BLOB);"
               "INSERT INTO fruit VALUES (1, 'apple', 1.5, x'00ff'), (2, '<b>lemon</b>', 1.0, NULL), (9007199254740993, NULL, -2.5e300, NULL);"
               "CREATE TABLE many(town TEXT, id INTEGER, note TEXT, PRIMARY KEY(town, id));"
               "INSERT INTO many WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1020) SELECT 'town' || (i % 7), i, 'note ' || i FROM n;")
    server.ask("PUT", "v1/databases/shop/tables/stock")
    lines = "".join(json.dumps({"key": f"item{n:04}", "value": f"{n} pieces"}) + "\n" for n in range(230))
    server.ask("POST", "v1/databases/shop/tables/stock/entries", lines.encode())
    return server


def keys(page, label):
    return [cell for cell in page.get_by_role("grid", name=label).locator("[role=rowgroup] [role=row] > [role=gridcell]:nth-child(2)").all_inner_texts()]
