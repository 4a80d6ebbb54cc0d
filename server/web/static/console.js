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
  $("key").focus();
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

// draw keeps the buttons that are there where they are, and the focus with
// them: what is moved loses it.
function draw() {
  const list = $("rows"), ids = new Set(rows.map((row) => row.id));
  for (const li of [...list.children]) if (!ids.has(li.dataset.id)) li.remove();
  const have = new Map([...list.children].map((li) => [li.dataset.id, li]));
  for (const [i, row] of rows.entries()) {
    let li = have.get(row.id);
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
    if (list.children[i] !== li) list.insertBefore(li, list.children[i]);
  }
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
  for (const tab of document.querySelectorAll("#tabs [role=tab]")) {
    tab.setAttribute("aria-selected", tab.dataset.view === name);
    if (tab.dataset.view === name) $("view").ariaLabel = tab.textContent;
  }
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
  const number = make("input", { type: "number", min: 1, max: 65535, required: true });
  box.replaceChildren(make("div", {},
    make("p", { textContent: list.length ? "Ports that programs listen on:" : "No program listens on a port." }),
    make("table", {}, ...list.map(({ port, host }) => make("tr", {},
      make("td", {}, make("button", { type: "button", textContent: port, onclick: preview(port) })), make("td", { textContent: host })))),
    make("p", {}, make("button", { type: "button", textContent: "Look again", onclick: act(() => ports(id, box)) })),
    make("form", { onsubmit: (e) => preview(number.valueAsNumber)(e) }, make("label", {}, "Another port: ", number), " ", make("button", { textContent: "Open" }))));
}

const size = (n) => n < 1e3 ? n + " B" : n < 1e6 ? (n / 1e3).toFixed(1) + " kB" : (n / 1e6).toFixed(1) + " MB";

// coded is a file's name in an address. One that is no text is sent by its bytes.
const coded = (s) => s.base64 ? [...atob(s.base64)].map((c) => "%" + c.charCodeAt(0).toString(16).padStart(2, "0")).join("") : encodeURIComponent(s.name);

// files shows a directory, which is named by what is on the way to it.
async function files(id, box, path = []) {
  const fs = (...more) => at(id, "/fs?verbatim=1&path=" + [...path, ...more].map(coded).join("/"));
  const { stats } = await call("GET", fs() + "&stat=list");
  if (id !== chosen || view !== "files") return;
  const again = (to) => act(() => files(id, box, to));
  const save = (s) => act(async () => {
    const r = await call("GET", fs(s), undefined, "read");
    const url = URL.createObjectURL(await r.blob());
    make("a", { href: url, download: s.name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  });
  const upload = make("input", { type: "file", multiple: true, ariaLabel: "Upload" });
  upload.onchange = act(async () => {
    for (const f of upload.files) await call("POST", fs(f), f, "write");
    await files(id, box, path);
  });
  const line = (s) => make("tr", {},
    make("td", {}, make("button", { type: "button", textContent: s.name + (s.type === "directory" ? "/" : ""), onclick: s.type === "directory" ? again([...path, s]) : save(s) })),
    make("td", { textContent: s.type === "file" ? size(s.size) : s.type }));
  box.replaceChildren(make("div", {},
    make("p", {}, make("code", { textContent: [rows.find((row) => row.id === id)?.workdir, ...path.map((s) => s.name)].join("/") }), " ",
      ...(path.length ? [make("button", { type: "button", textContent: "Up", onclick: again(path.slice(0, -1)) })] : [])),
    make("table", {}, ...stats.map(line)),
    make("p", {}, make("label", {}, "Upload: ", upload))));
}

$("enter").onsubmit = act(async () => {
  key = $("key").value.trim(); $("key").value = "";
  await refresh();
  sessionStorage.setItem("key", key);
  $("lease").elements[0].focus();
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

let lost = false; // the server is not reached, as has been said
setInterval(async () => {
  if (!key || document.hidden || $("main").hidden) return;
  try {
    await refresh();
    if (lost) say();
    lost = false;
  } catch (err) {
    say(err.message);
    lost = true;
    if (err.status === 401) leave();
  }
}, 3000);
if (key) act(refresh)(); else leave();
