"""Drives the dashboard by roles and names. Called by scripts/dashboard: PANDO SCRATCH CHROMIUM AXE SCREENSHOTS.

ONLY=part of a name runs the tests with it.
"""
import os, sys, time
from playwright.sync_api import sync_playwright
import hard, looks, operating, tasks
from support import Server, chromium, filled

TESTS = [*tasks.TESTS, *operating.TESTS, *hard.TESTS, *looks.TESTS]

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    server, failed = filled(Server("data")), []
    wanted = os.environ.get("ONLY", "").split(",")
    for test in TESTS:
        if not any(part in test.__name__ for part in wanted):
            continue
        begun = time.time()
        try:
            test(browser, server)
            print(f"ok {test.__name__} ({time.time() - begun:.1f} s)", flush=True)
        except Exception as error:
            failed.append(test.__name__)
            print(f"FAILED {test.__name__}: {type(error).__name__}: {error}", flush=True)
    browser.close()
    server.stop()
sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
