"""A page in headless Chromium, driven over its debugging pipe: real clicks, real keys, screenshots.

Commands are those of the DevTools protocol, one JSON message after the other with a zero byte behind each; nothing but
the browser is needed.
"""

import json
import os
import shutil
import subprocess
from base64 import b64decode
from io import BytesIO
from select import select
from time import monotonic

from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--remote-debugging-pipe", "--force-color-profile=srgb"),
)
PATIENCE = 120
KEYS = {
    **{f"Arrow{name}": code for name, code in (("Left", 37), ("Up", 38), ("Right", 39), ("Down", 40))},
    **{"Enter": 13, "Escape": 27, "Tab": 9, "Home": 36, "End": 35},
}


class Browser:
    """One page of one browser.

    Args:
        folder: Where the browser keeps its profile.
    """

    def __init__(self, folder):
        command, self._into = os.pipe()
        self._out, answer = os.pipe()
        # The browser reads its commands from descriptor 3 and answers on 4, wherever ours are.
        wired = f'exec "$0" "$@" 3</proc/self/fd/{command} 4>/proc/self/fd/{answer}'
        self._process = subprocess.Popen(
            ["sh", "-c", wired, CHROMIUM, *FLAGS, f"--user-data-dir={folder}"],
            pass_fds=(command, answer),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command)
        os.close(answer)
        self._number, self._rest, self._session = 0, b"", None
        #: What the page said: errors and warnings of its console, exceptions, and the addresses that it asked for.
        self.errors, self.requests = [], []
        self._loaded = False
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self):
        """End the browser."""
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._into)
        os.close(self._out)

    def send(self, method, **parameters):
        """A command's answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._heard(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _next(self):
        end = monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select([self._out], [], [], max(0, end - monotonic()))
            assert ready, "the browser does not answer"
            held = os.read(self._out, 1 << 20)
            assert held, "the browser has ended"
            self._rest += held
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _heard(self, event):
        method, given = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(given["exceptionDetails"].get("exception", {}).get("description", str(given)))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.errors.append(str(given["args"]))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    def open(self, file):
        """Load a file and wait until it is there."""
        self._loaded = False
        self.errors.clear()
        self.requests.clear()
        self.send("Page.navigate", url=file.as_uri())
        while not self._loaded:
            self._heard(self._next())
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, code):
        """The value of an expression in the page."""
        given = self.send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in given, given["exceptionDetails"]
        return given["result"].get("value")

    def size(self, width, height, *, phone=False):
        """The size of the window, in CSS pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def look(self, media="", dark=False):
        """The medium that a page is made for, ``"print"`` or the screen, and its colours."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def middle(self, selector, x=0.5, y=0.5):
        """The place of an element on the screen, scrolled to; by default its middle."""
        code = f"""(() => {{
            const one = document.querySelector({json.dumps(selector)});
            one.scrollIntoView({{block: "center"}});
            const box = one.getBoundingClientRect();
            return [box.left + box.width * {x}, box.top + box.height * {y}];
        }})()"""
        return self.run(code)

    def move(self, selector, x=0.5, y=0.5):
        """Put the mouse over an element."""
        across, down = self.middle(selector, x, y)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=across, y=down)
        return across, down

    def click(self, selector, x=0.5, y=0.5):
        """Click an element with the mouse."""
        across, down = self.move(selector, x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=across, y=down, button="left", clickCount=1)

    def tap(self, selector, x=0.5, y=0.5):
        """Touch an element with a finger."""
        across, down = self.middle(selector, x, y)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": across, "y": down}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key):
        """Press and let go of a key."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            own = text if kind == "keyDown" else {}
            code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
            self.send("Input.dispatchKeyEvent", type=kind, **code, **own)

    def picture(self, selector=None):
        """What the page looks like: the window, or one element."""
        clip = {}
        if selector is not None:
            self.middle(selector)
            code = f"""(() => {{
                const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
                return [box.left + scrollX, box.top + scrollY, box.width, box.height];
            }})()"""
            x, y, width, height = self.run(code)
            clip = {"clip": {"x": x, "y": y, "width": width, "height": height, "scale": 1}}
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=bool(clip), **clip)
        return Image.open(BytesIO(b64decode(shot["data"]))).convert("RGB")

    def printed(self):
        """The page as a PDF file's bytes."""
        return b64decode(self.send("Page.printToPDF", printBackground=True)["data"])
