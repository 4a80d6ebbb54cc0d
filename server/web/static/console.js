// A small console: what the API has, for a person. The key stays in this tab.

const $ = (id) => document.getElementById(id);
const make = (tag, props = {}, ...children) => { const e = Object.assign(document.createElement(tag), props); e.append(...children); return e; };
const say = (text = "") => { $("say").textContent = text; };

let key = sessionStorage.getItem("key") || "";
let rows = [], chosen = "", view = "", frame = null;

async function call(method, path, body, raw) {
  const headers = { Authorization: "Bearer " + key };
  if (body !== undefined && !raw) headers["Content-Type"] = "application/json";
  const r = await fetch(path, { method, headers, body: raw ? body : body && JSON.stringify(body), credentials: "omit", cache: "no-store" });
  if (r.ok) return raw === "read" ? r : r.status === 204 ? null : r.json();
  const problem = await r.json().catch(() => ({}));
  throw Object.assign(new Error(problem.detail || r.statusText), { status: r.status });
}
const at = (id, rest = "") => `/v1/sandbox/${encodeURIComponent(id)}${rest}`;

// act does what a button is for, and says what went wrong.
const act = (f) => async (e) => {
  e?.preventDefault?.();
  say();
  try { await f(e); } catch (err) { say(err.message); if (err.status === 401) leave(); }
};

function leave() {
  key = ""; sessionStorage.removeItem("key");
  choose("");
  $("main").hidden = $("leave").hidden = true; $("enter").hidden = false;
}

async function refresh() {
  rows = (await call("GET", "/v1/sandbox")).sandboxes;
  $("main").hidden = $("leave").hidden = false; $("enter").hidden = true;
  draw();
}

const left = (row) => {
  if (!row.expiresAt) return "";
  const s = Math.max(0, row.expiresAt - Date.now() / 1000);
  return s < 90 ? `, ${Math.round(s)} s left` : s < 5400 ? `, ${Math.round(s / 60)} min left` : `, ${Math.round(s / 3600)} h left`;
};

// draw keeps the buttons that are there, and the focus with them.
function draw() {
  const list = $("rows"), have = new Map([...list.children].map((li) => [li.dataset.id, li]));
  for (const row of rows) {
    let li = have.get(row.id);
    have.delete(row.id);
    if (!li) {
      li = make("li", {}, make("button", { type: "button", onclick: () => choose(row.id) }, make("code"), make("small", { className: "status" })));
      li.dataset.id = row.id;
    }
    const [code, small] = li.firstChild.children;
    code.textContent = row.id;
    small.dataset.status = row.status;
    const text = `${row.status}, ${row.class}${row.project ? " " + row.project : ""}${left(row)}`;
    if (small.textContent !== text) small.textContent = text;
    li.firstChild.setAttribute("aria-current", row.id === chosen);
    list.append(li);
  }
  for (const li of have.values()) li.remove();
  const row = rows.find((r) => r.id === chosen);
  if (chosen && !row) { choose(""); return; }
  if (!row) return;
  $("about").textContent = row.status + left(row);
  $("pause").textContent = row.status === "parked" ? "Resume" : "Pause";
  $("pause").hidden = !row.volume;
}

function choose(id) {
  chosen = id;
  $("one").hidden = !id;
  if (id) {
    const row = rows.find((r) => r.id === id);
    document.querySelector("[data-view=screen]").hidden = row?.class !== "desktop";
    show(row?.class === "desktop" ? "screen" : "terminal");
    draw();
  } else show("");
}

const views = { terminal: framed("terminal", "&arg=console"), screen: framed("screen", ""), ports, files };

function show(name) {
  view = name; frame = null;
  for (const tab of document.querySelectorAll("#tabs [role=tab]")) tab.setAttribute("aria-selected", tab.dataset.view === name);
  $("view").replaceChildren();
  if (name) act(() => views[name](chosen, $("view")))();
}

// A terminal or screen is a page of its own, which asks this one for tickets.
function framed(door, more) {
  return async (id, box) => {
    const { url } = await call("POST", at(id, `/${door}/ticket`));
    if (id !== chosen || door !== view) return;
    frame = make("iframe", { src: url + more, title: door, allow: "clipboard-read; clipboard-write" });
    frame.door = door;
    box.replaceChildren(frame);
  };
}
addEventListener("message", act(async (e) => {
  if (!frame || e.source !== frame.contentWindow || e.origin !== location.origin) return;
  const lost = e.data?.closed && !e.data.reason; // no good end: the network's doing
  if (lost) await new Promise((done) => setTimeout(done, 1000));
  if (!frame || e.source !== frame.contentWindow || !(lost || e.data?.reconnect)) return;
  const { ticket } = await call("POST", at(chosen, `/${frame.door}/ticket`));
  frame.contentWindow.postMessage({ ticket }, location.origin);
}));

async function ports(id, box) {
  const { ports: list } = await call("GET", at(id, "/ports"));
  if (id !== chosen || view !== "ports") return;
  const preview = (port) => act(async () => {
    const tab = open("", "_blank"); // before anything is waited for, else it is a pop-up
    const { url } = await call("POST", at(id, "/preview"), { port });
    if (!tab) throw new Error("the browser opened no tab");
    tab.opener = null;
    tab.location = url;
  });
  const number = make("input", { type: "number", min: 1, max: 65535, required: true, ariaLabel: "Port" });
  box.replaceChildren(make("div", {},
    make("p", { textContent: list.length ? "Ports that programs listen on:" : "No program listens on a port." }),
    make("table", {}, ...list.map(({ port, host }) => make("tr", {},
      make("td", {}, make("button", { type: "button", textContent: port, onclick: preview(port) })), make("td", { textContent: host })))),
    make("p", {}, make("button", { type: "button", textContent: "Look again", onclick: act(() => ports(id, box)) })),
    make("form", { onsubmit: (e) => preview(number.valueAsNumber)(e) }, number, " ", make("button", { textContent: "Open" }))));
}

const size = (n) => n < 1e3 ? n + " B" : n < 1e6 ? (n / 1e3).toFixed(1) + " kB" : (n / 1e6).toFixed(1) + " MB";

async function files(id, box, path = "") {
  const dir = await call("POST", "/v1/sandbox/read", { id, path });
  if (id !== chosen || view !== "files") return;
  const again = (to) => act(() => files(id, box, to));
  const inside = (name) => (path ? path + "/" : "") + name;
  const fs = (name) => at(id, "/fs?path=" + encodeURIComponent(inside(name)));
  const save = (name) => act(async () => {
    const r = await call("GET", fs(name), undefined, "read");
    const url = URL.createObjectURL(await r.blob());
    make("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  });
  const upload = make("input", { type: "file", multiple: true, ariaLabel: "Upload" });
  upload.onchange = act(async () => {
    for (const f of upload.files) await call("POST", fs(f.name), f, "write");
    await files(id, box, path);
  });
  const line = (s) => make("tr", {},
    make("td", {}, make("button", { type: "button", textContent: s.name + (s.type === "directory" ? "/" : ""), onclick: s.type === "directory" ? again(inside(s.name)) : save(s.name) })),
    make("td", { textContent: s.type === "file" ? size(s.size) : s.type }));
  const up = path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
  box.replaceChildren(make("div", {},
    make("p", {}, make("code", { textContent: dir.path }), " ", ...(path ? [make("button", { type: "button", textContent: "Up", onclick: again(up) })] : [])),
    make("table", {}, ...(dir.stats || dir.entries.map((name) => ({ name, type: "file", size: 0 }))).map(line)),
    make("p", {}, make("label", {}, "Upload: ", upload))));
}

$("enter").onsubmit = act(async () => {
  key = $("key").value.trim(); $("key").value = "";
  await refresh();
  sessionStorage.setItem("key", key);
});
$("leave").onclick = leave;
$("lease").onsubmit = act(async (e) => {
  const form = e.target, button = form.querySelector("button");
  button.disabled = true;
  try {
    const row = await call("POST", "/v1/sandbox", { class: form.class.value, project: form.project.value });
    await refresh();
    choose(row.id);
  } finally { button.disabled = false; }
});
for (const tab of document.querySelectorAll("#tabs [role=tab]")) tab.onclick = () => show(tab.dataset.view);
$("pause").onclick = act(async () => {
  await call("POST", at(chosen, rows.find((r) => r.id === chosen).status === "parked" ? "/resume" : "/pause"));
  await refresh();
  choose(chosen);
});
$("end").onclick = act(async () => {
  if (!confirm("End this sandbox? Files that are not on a project's volume are lost.")) return;
  await call("DELETE", at(chosen));
  await refresh();
});

setInterval(() => { if (key && !document.hidden && !$("main").hidden) refresh().catch((e) => say(e.message)); }, 3000);
if (key) act(refresh)(); else leave();
