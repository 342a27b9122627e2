// What every panel uses: the server's answers, the stream of changes, and which panel is shown.
const { all, make } = holdfast;

export const byId = (id) => document.getElementById(id);

// Charts and tables come as documents that the server has escaped. Scripts in such a document never run.
export const getPage = (path) => new Promise((resolve, reject) => {
  const request = new XMLHttpRequest();
  request.open("GET", path);
  request.responseType = "document";
  request.onload = () => (request.status === 200 && request.response ? resolve(request.response) : reject(new Error(`the server answered ${request.status}`)));
  request.onerror = () => reject(new Error("the server does not answer"));
  request.send();
});
export const nodesOf = (page) => [...page.body.children].map((node) => document.importNode(node, true));

export const post = async (path, body, signal) => {
  const response = await fetch(path, { method: "POST", body: JSON.stringify(body), signal });
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error || `the server answered ${response.status}`);
  return response;
};

export const say = (id, text, wrong = false) => {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("wrong", wrong);
};

// A call while one is under way is made once, after it: however many changes come, one answer is waited for.
export const oneAtATime = (work) => {
  let busy = false, again = false;
  const call = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try { await work(); } finally {
      busy = false;
      if (again) { again = false; call(); }
    }
  };
  return call;
};

export const numbersTable = (heads, rows) => {
  const table = make("table", "plain"), head = make("tr"), body = make("tbody");
  for (const name of heads) { const cell = make("th", "", name); cell.scope = "col"; head.append(cell); }
  for (const row of rows) {
    const line = make("tr");
    row.forEach((value, place) => { const cell = make(place ? "td" : "th", "", value); if (!place) cell.scope = "row"; line.append(cell); });
    body.append(line);
  }
  table.append(make("thead"), body);
  table.tHead.append(head);
  return table;
};

// Runs by id, kept up to date by the server.
export const runs = new Map();
const listeners = [];
export const onRuns = (listener) => { listeners.push(listener); if (runs.size) listener([...runs.values()], []); };
let fresh = true;
const source = new EventSource("events");
source.onopen = () => { fresh = true; say("connection", "connected"); };
source.onerror = () => say("connection", "connection lost; trying again", true);
source.onmessage = (event) => {
  const told = JSON.parse(event.data);
  let gone = told.gone;
  if (fresh) { const here = new Set(told.runs.map((run) => run.id)); gone = [...runs.keys()].filter((id) => !here.has(id)); fresh = false; }
  for (const id of gone) runs.delete(id);
  for (const run of told.runs) runs.set(run.id, run);
  say("connection", `${runs.size.toLocaleString("en")} ${runs.size === 1 ? "run" : "runs"}, ${[...runs.values()].filter((run) => run.state === "running").length} running`);
  for (const listener of listeners) listener(told.runs, gone);
};

// Models that may be asked: the list changes when a run has made one.
let known = "";
export const fillModels = async () => {
  const models = await (await fetch("models")).json();
  for (const select of all("select.models")) {
    const before = select.value || select.dataset.first;
    const options = [...(select.dataset.none ? [{ id: "", name: select.dataset.none }] : []), ...models].map(({ id, name }) => { const option = make("option", "", name); option.value = id; return option; });
    select.replaceChildren(...options);
    if (options.some((option) => option.value === before)) select.value = before;
  }
  document.dispatchEvent(new Event("models"));
};
onRuns(() => {
  const now = [...runs.values()].filter((run) => run.has_model).map((run) => run.id).sort().join();
  if (now !== known) { known = now; fillModels(); }
});
fillModels();

// One panel at a time, named by the address.
const panels = all(".panel"), links = all("nav a");
const show = () => {
  const wanted = panels.find((panel) => `#${panel.id}` === location.hash) || panels.find((panel) => !panel.hidden) || panels[0];
  for (const panel of panels) panel.hidden = panel !== wanted;
  for (const link of links) { if (link.hash === `#${wanted.id}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current"); }
};
addEventListener("hashchange", () => { show(); scrollTo(0, 0); });
show();
