// The matrix of a run, filled cell by cell while `holdfast attack` runs; a cell opens below it.
import { byId, getPage, nodesOf, oneAtATime, onRuns, runs, say } from "./view.js";
const { all, make, matrixTable } = holdfast;

const select = byId("matrix-run"), view = byId("matrix-view"), opened = byId("cell");
let shown = null, measure = "asr"; // the cell that is open: [defence, attack]

const placeOf = (face) => {
  const cell = face.closest("td"), row = cell.parentElement, attack = face.closest("table").tHead.rows[0].cells[cell.cellIndex];
  return [row.cells[0].textContent, attack.classList.contains("worst") ? null : attack.textContent];
};
const openCell = async (place, requests = false) => {
  const [defence, attack] = place, query = new URLSearchParams({ defence, attack, ...(requests ? { requests: "1" } : {}) });
  let page;
  try { page = await getPage(`matrix/${select.value}/cell?${query}`); } catch (error) { say("matrix-status", error.message, true); return; }
  shown = place;
  opened.replaceChildren(...nodesOf(page));
  opened.hidden = false;
  opened.querySelector(".close").addEventListener("click", closeCell);
  const ask = opened.querySelector(".show-requests");
  if (ask) ask.addEventListener("click", () => openCell(place, true));
  opened.querySelector("h3").focus();
};
const closeCell = () => {
  opened.hidden = true;
  const face = shown && all(".face", view).find((one) => String(placeOf(one)) === String(shown) && one.getClientRects().length);
  shown = null;
  if (face) face.focus();
};
opened.addEventListener("keydown", (event) => { if (event.key === "Escape") closeCell(); });

const draw = oneAtATime(async () => {
  const run = select.value;
  if (!run) return;
  let page;
  try { page = await getPage(`matrix/${run}`); } catch (error) { say("matrix-status", error.message, true); return; }
  const focused = document.activeElement && document.activeElement.closest(".matrix .face") ? placeOf(document.activeElement) : null;
  view.replaceChildren(...nodesOf(page));
  const table = view.querySelector(".matrix");
  if (!table) return;
  matrixTable(table);
  const choice = view.querySelector(`#measure input[value="${measure}"]`);
  choice.checked = true;
  choice.dispatchEvent(new Event("change", { bubbles: true }));
  for (const face of all(".face", table)) {
    const place = placeOf(face);
    if (place[1] === null) continue;
    face.setAttribute("role", "button");
    face.addEventListener("click", () => openCell(place));
    face.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); openCell(place); } });
  }
  if (focused) { const again = all(".face", table).find((face) => String(placeOf(face)) === String(focused) && face.getClientRects().length); if (again) again.focus(); }
  const told = runs.get(run);
  say("matrix-status", told ? told.state : "");
});
view.addEventListener("change", (event) => { if (event.target.name === "measure") measure = event.target.value; });
select.addEventListener("change", () => { opened.hidden = true; shown = null; draw(); });
onRuns((changed) => {
  const own = [...runs.values()].filter((run) => run.has_matrix), before = select.value;
  if (own.map((run) => run.id).join() !== [...select.options].map((option) => option.value).join()) {
    select.replaceChildren(...own.map((run) => { const option = make("option", "", run.name); option.value = run.id; return option; }));
    if (own.some((run) => run.id === before)) select.value = before;
  }
  if (select.value && (select.value !== before || changed.some((run) => run.id === select.value))) draw();
});
