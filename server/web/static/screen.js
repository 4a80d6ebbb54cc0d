import RFB from "/web/modules/novnc/core/rfb.js";
import { link, closed } from "/web/static/link.js";

const source = "hanzo-screen";
const view = document.getElementById("view");
let rfb;

link(source, (address) => {
  rfb?.disconnect();
  // Its own socket, to learn why it closes.
  const socket = new WebSocket(address, "binary");
  let why = "";
  socket.addEventListener("close", (e) => { why = e.reason; });
  const r = new RFB(view, socket, { shared: true });
  rfb = r;
  r.scaleViewport = true;
  r.resizeSession = false;
  r.focusOnClick = true;
  r.background = "transparent";
  r.addEventListener("connect", () => { document.body.dataset.state = "connected"; r.focus(); });
  r.addEventListener("desktopname", (e) => { document.title = e.detail.name; });
  r.addEventListener("clipboard", (e) => navigator.clipboard?.writeText(e.detail.text).catch(() => {}));
  r.addEventListener("disconnect", () => { if (rfb === r) closed(source, why); });
});

// What has been copied elsewhere is there to be pasted: it is fetched when the
// keys for that are pressed, which then go on to the screen.
addEventListener("keydown", async (e) => {
  if (!(e.ctrlKey || e.metaKey) || e.key.toLowerCase() !== "v" || !rfb || !navigator.clipboard?.readText) return;
  e.stopPropagation();
  e.preventDefault();
  const text = await navigator.clipboard.readText().catch(() => "");
  if (text) rfb.clipboardPasteFrom(text);
  rfb.sendKey(e.key.codePointAt(0), "KeyV");
}, true);
