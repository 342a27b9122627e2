// The list of runs, and the charts of those that are chosen.
import { byId, getPage, nodesOf, numbersTable, oneAtATime, onRuns, runs, say } from "./view.js";
const { all, make, figure, readable } = holdfast;
const MOST = 8, AT_ONCE = 50;

const number = (value) => (value === null ? "" : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : figure(value));
const time = (seconds) => {
  if (seconds === null) return "";
  const minutes = Math.round(seconds / 60);
  return seconds < 90 ? `${Math.round(seconds)} s` : minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
};
const rows = new Map(); // id -> the elements of its row
const chosen = new Set();
let touched = false; // until somebody chooses, the page does

const link = (address, text) => { const element = make("a", "", text); element.href = address; return element; };
const makeRow = (run) => {
  const row = make("tr"), tick = make("input"), name = make("td", "name"), state = make("td"), step = make("td", "number");
  tick.type = "checkbox";
  tick.setAttribute("aria-label", `Chart ${run.name}`);
  tick.addEventListener("change", () => { touched = true; choose(run.id, tick.checked); });
  name.append(link(`runs/${run.id}/report`, run.name));
  name.title = run.name;
  const word = make("span", "state"), note = make("span", "note");
  state.append(word, note);
  const numbers = ["loss", "nll", "kl", "tokens_per_second"].map(() => make("td", "number")), left = make("td", "number");
  const words = [make("td", "words"), make("td", "words")], first = make("td");
  first.append(tick);
  row.append(first, name, state, step, ...numbers, left, ...words);
  return { row, tick, word, note, step, numbers, left, words };
};
const set = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const update = (run) => {
  if (!rows.has(run.id)) {
    const made = makeRow(run), later = [...rows].find(([id]) => runs.has(id) && runs.get(id).name > run.name);
    rows.set(run.id, made);
    made.row.dataset.id = run.id;
    if (later) later[1].row.before(made.row); else byId("run-rows").append(made.row);
  }
  const { row, tick, word, note, step, numbers, left, words } = rows.get(run.id);
  word.className = `state ${run.state}`;
  set(word, run.state);
  set(note, run.reason);
  const at = run.step === null ? "" : run.total ? `${number(run.step)} of ${number(run.total)}` : number(run.step);
  if (run.has_microscope && at) {
    if (!step.firstElementChild) step.replaceChildren(link("", at));
    step.firstElementChild.href = `runs/${run.id}/report#microscope`;
    step.firstElementChild.setAttribute("aria-label", `Token microscope of ${run.name} at step ${at}`);
    set(step.firstElementChild, at);
  } else set(step, at);
  ["loss", "nll", "kl", "tokens_per_second"].forEach((key, place) => set(numbers[place], number(run[key])));
  set(left, time(run.seconds_left));
  [run.model, run.objectives].forEach((text, place) => { set(words[place], text); words[place].title = text; });
  tick.disabled = !run.has_steps;
  row.hidden = !fits(run);
};
const fits = (run) => {
  const wanted = byId("runs-find").value.toLowerCase(), state = byId("runs-state").value;
  return (!state || run.state === state) && [run.name, run.model, run.objectives].some((text) => text.toLowerCase().includes(wanted));
};
const filter = () => { for (const [id, { row }] of rows) row.hidden = !fits(runs.get(id)); };
byId("runs-find").addEventListener("input", filter);
byId("runs-state").addEventListener("change", filter);

const choose = (id, wanted) => {
  if (wanted && chosen.size >= MOST) { rows.get(id).tick.checked = false; say("runs-status", `at most ${MOST} runs at once`, true); return; }
  if (wanted) chosen.add(id); else chosen.delete(id);
  say("runs-status", chosen.size > 1 ? `${chosen.size} runs laid over each other` : "");
  drawCharts();
};

// Charts are drawn by the server, as in the report. A picture is exchanged; what is unfolded or read stays so.
let figures = {};
const live = new Map(); // title -> how its picture is read
const fillNumbers = (shown) => {
  const details = shown.querySelector(".numbers"), chart = figures[shown.dataset.key];
  if (!details.open || !chart) return;
  const names = chart.series.map(([name]) => name);
  const lines = chart.x.map((x, place) => [String(x), ...chart.series.map(([, values]) => figure(values[place], chart.percent))]);
  details.querySelector("div").replaceChildren(numbersTable([chart.xName, ...names], lines));
};
const attach = (shown) => {
  live.set(shown.dataset.title, readable(shown.querySelector("svg"), figures[shown.dataset.key]));
  fillNumbers(shown);
};
const drawCharts = oneAtATime(async () => {
  const place = byId("charts");
  if (!chosen.size) { place.replaceChildren(); return; }
  let page;
  try { page = await getPage(`charts?${[...chosen].map((id) => `run=${encodeURIComponent(id)}`).join("&")}`); } catch (error) { say("runs-status", error.message, true); return; }
  figures = JSON.parse(page.querySelector("script").textContent);
  page.querySelector("script").remove();
  const old = all("figure", place), next = [...page.querySelectorAll("figure")];
  if (old.length && old.map((one) => one.dataset.title).join("\n") === next.map((one) => one.dataset.title).join("\n")) {
    old.forEach((shown, index) => {
      const before = shown.querySelector("svg"), focused = document.activeElement === before, reading = live.get(shown.dataset.title);
      const svg = document.importNode(next[index].querySelector("svg"), true), at = focused && reading ? reading.place() : null;
      before.replaceWith(svg);
      shown.dataset.key = next[index].dataset.key;
      attach(shown);
      if (focused) { svg.focus(); if (at !== null) live.get(shown.dataset.title).read(at); }
    });
    return;
  }
  const open = new Set(all("details[open]", place).map((one) => one.parentElement.dataset.title || "more"));
  place.replaceChildren(...nodesOf(page));
  for (const shown of all("figure", place)) {
    const details = shown.querySelector(".numbers");
    details.open = open.has(shown.dataset.title);
    details.addEventListener("toggle", () => fillNumbers(shown));
    attach(shown);
  }
  if (open.has("more") && place.querySelector(".more")) place.querySelector(".more").open = true;
});

// A long list is filled in pieces, so that the page stays responsive.
let waiting = [], scheduled = false;
const fillSome = () => {
  scheduled = false;
  const now = waiting.splice(0, AT_ONCE);
  for (const run of now) if (runs.get(run.id) === run) update(run);
  if (waiting.length) schedule();
};
const schedule = () => { if (!scheduled) { scheduled = true; setTimeout(fillSome); } };
onRuns((changed, gone) => {
  for (const id of gone) { if (rows.has(id)) rows.get(id).row.remove(); rows.delete(id); chosen.delete(id); }
  waiting.push(...changed);
  schedule();
  if (!touched && !chosen.size) {
    const first = changed.find((run) => run.state === "running" && run.has_steps) || changed.find((run) => run.has_steps);
    if (first) setTimeout(() => { if (!touched && !chosen.size && runs.has(first.id)) { update(runs.get(first.id)); rows.get(first.id).tick.checked = true; choose(first.id, true); } });
  }
  if (gone.length || changed.some((run) => chosen.has(run.id))) drawCharts();
});
