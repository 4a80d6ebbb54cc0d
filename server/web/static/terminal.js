import { Terminal } from "/web/modules/xterm/xterm.mjs";
import { FitAddon } from "/web/modules/xterm/addon-fit.mjs";
import { WebLinksAddon } from "/web/modules/xterm/addon-web-links.mjs";
import { link, closed } from "/web/static/link.js";

const source = "hanzo-term";
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => dark.matches
  ? { background: "#16181a", foreground: "#e6e6e6", cursor: "#e6e6e6", selectionBackground: "#4a6a8a" }
  : { background: "#fdfdfd", foreground: "#1d1f21", cursor: "#1d1f21", selectionBackground: "#b5d5ff",
      yellow: "#8a6d00", brightYellow: "#a07f00", brightWhite: "#555", white: "#777", green: "#2a7a2a", brightGreen: "#2f8f2f" };

const term = new Terminal({
  theme: theme(), fontFamily: "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace", fontSize: 14, lineHeight: 1.15,
  scrollback: 10000, cursorBlink: true, screenReaderMode: query("reader"), minimumContrastRatio: 4.5, macOptionIsMeta: true,
});
const fit = new FitAddon();
term.loadAddon(fit);
term.loadAddon(new WebLinksAddon((_, uri) => open(uri, "_blank", "noopener,noreferrer")));
term.open(document.getElementById("view"));
dark.addEventListener("change", () => { term.options.theme = theme(); });

function query(name) { return new URLSearchParams(location.search).has(name); }

let socket;
const send = (data) => { if (socket?.readyState === WebSocket.OPEN) socket.send(data); };
const bytes = new TextEncoder();
const size = () => {
  document.body.dataset.size = `${term.rows} ${term.cols}`; // for who tests this page
  send(JSON.stringify({ resize: { cols: term.cols, rows: term.rows } }));
};

// Keystrokes go as bytes, so that none are taken for a size; long pastes in
// parts, as a message has its limit.
function type(b) {
  for (let i = 0; i < b.length; i += 32768) send(b.subarray(i, i + 32768));
}
term.onData((text) => type(bytes.encode(text)));
term.onBinary((text) => type(Uint8Array.from(text, (c) => c.charCodeAt(0))));
term.onResize(size);
term.onTitleChange((title) => { document.title = title || "Terminal"; });
// Control-C copies what is selected, and otherwise is for the program.
term.attachCustomKeyEventHandler((e) => !(e.type === "keydown" && e.ctrlKey && e.key === "c" && term.hasSelection() && copy()));
function copy() { document.execCommand("copy"); term.clearSelection(); return true; }

new ResizeObserver(() => fit.fit()).observe(document.getElementById("view"));

link(source, (address) => {
  term.reset();
  const s = new WebSocket(address);
  socket = s;
  s.binaryType = "arraybuffer";
  s.onopen = () => { fit.fit(); size(); term.focus(); };
  s.onmessage = (e) => term.write(new Uint8Array(e.data));
  s.onclose = (e) => { if (socket === s) closed(source, e.reason); };
});
