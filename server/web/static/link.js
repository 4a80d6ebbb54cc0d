// What the terminal's and the screen's page have in common: a socket for which
// a ticket is needed, and somebody around the page who can get another.

const query = new URLSearchParams(location.search);
const path = location.pathname.replace(/\/$/, "");
let ticket = query.get("ticket");
query.delete("ticket");
// The ticket is good once: it has no business in the address, nor in a history.
history.replaceState(null, "", path + (query.size ? "?" + query : ""));

const status = document.getElementById("status");
const framed = parent !== window;

// address is the socket's, with the ticket, which it uses up.
function address() {
  const q = new URLSearchParams(query);
  if (ticket) q.set("ticket", ticket);
  ticket = null;
  return `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}${path}/ws${q.size ? "?" + q : ""}`;
}

export function tell(source, what) {
  if (framed) parent.postMessage({ source, ...what }, "*"); // no secrets
}

// closed says that it is over, and lets the person have it begin again.
export function closed(source, why) {
  const [text, button] = status.children;
  text.textContent = why || "The connection is gone.";
  button.hidden = !framed;
  button.onclick = () => tell(source, { reconnect: true });
  status.hidden = false;
  tell(source, { closed: true, reason: why });
}

// link calls connect with a socket's address now, and again with each ticket
// that the page around this one sends.
export function link(source, connect) {
  addEventListener("message", (e) => {
    if (e.source !== parent || !framed || typeof e.data?.ticket !== "string") return;
    ticket = e.data.ticket;
    status.hidden = true;
    connect(address());
  });
  if (ticket) connect(address());
  else closed(source, "This page's link has been used: ask for a new one.");
  tell(source, { ready: true });
}
