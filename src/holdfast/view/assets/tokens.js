// A conversation token by token, read again after every edit.
import { byId, numbersTable, post, say } from "./view.js";
const { make, drawAnswer, figure, paintTokens, roving, toldToken } = holdfast;

const fields = ["tokens-text", "tokens-model", "tokens-anchor"].map(byId), colour = byId("tokens-colour"), numbers = byId("tokens-numbers");
const PLAIN = { logp: "how unlikely: −log p", logp_ref: "how unlikely to the anchor", kl: "KL to the anchor" };
let drawn = [], told = null, asking = null, timer = null;

const valueOf = (token) => {
  const [kind, place] = colour.value.split(":"), own = token[7];
  if (!own) return null;
  return kind === "weight" ? own.weights[place] : kind === "share" ? own.shares[place] : kind === "kl" ? own.kl : -own[kind];
};
const paint = () => {
  const values = drawn.map(([, token]) => valueOf(token)).filter((value) => value !== null);
  paintTokens(drawn, valueOf, Math.max(0, ...values), colour.value.startsWith("weight") ? (x) => x : Math.sqrt);
  byId("token-rows").classList.toggle("warm", colour.value === "kl");
};
const tipOf = (token, role) => {
  const own = token[7], lines = [toldToken(token, role)];
  if (own) {
    lines.push(`log p: model ${figure(own.logp)}, anchor ${figure(own.logp_ref)}`);
    told.objectives.forEach((name, place) => lines.push(`${name}: weight ${figure(own.weights[place])}, gradient share ${figure(own.shares[place], true)}`));
  }
  return lines.join("\n");
};
const choices = () => {
  const before = colour.value, option = (value, text) => { const one = make("option", "", text); one.value = value; return one; };
  const pairs = Object.entries(PLAIN);
  told.objectives.forEach((name, place) => pairs.push([`weight:${place}`, `weight under ${name}`], [`share:${place}`, `gradient share under ${name}`]));
  colour.replaceChildren(...pairs.map(([value, text]) => option(value, text)));
  if (pairs.some(([value]) => value === before)) colour.value = before;
};
const fillNumbers = () => {
  if (!numbers.open || !told) return;
  const heads = ["token", "role", "log p", "log p, anchor", "KL", ...told.objectives.map((name) => `weight, ${name}`), ...told.objectives.map((name) => `share, ${name}`)];
  const rows = told.rows.flatMap((row) => row.tokens.filter((token) => token[7]).map((token) => { // a prompt has no figures
    const own = token[7];
    return [token[0], row.roles[token[5]], figure(own.logp), figure(own.logp_ref), figure(own.kl), ...own.weights.map((w) => figure(w)), ...own.shares.map((share) => figure(share, true))];
  }));
  numbers.querySelector("div").replaceChildren(numbersTable(heads, rows));
};
const read = async () => {
  if (asking) asking.abort();
  asking = new AbortController();
  const [conversation, model, anchor] = fields.map((field) => field.value);
  if (!conversation.trim() || !model) return;
  say("tokens-status", "reading");
  try { told = await (await post("tokens", { conversation, model, anchor }, asking.signal)).json(); } catch (error) {
    if (error.name !== "AbortError") say("tokens-status", error.message, true);
    return;
  }
  say("tokens-status", told.note || `${told.rows.reduce((sum, row) => sum + row.tokens.length, 0)} tokens`);
  drawn = [];
  choices();
  const articles = told.rows.map((row) => {
    const article = drawAnswer(row, tipOf, drawn), counts = make("p", "caption role-legend");
    row.roles.forEach((role, place) => counts.append(make("b", "", role), `${row.tokens.filter((token) => token[5] === place).length} tokens `));
    for (const [element, token] of drawn) if (row.roles[token[5]] === "prompt") element.classList.add("prompt");
    article.append(counts);
    return article;
  });
  byId("token-rows").replaceChildren(...articles);
  for (const article of articles) roving(article.querySelector(".tokens"));
  numbers.hidden = false;
  paint();
  fillNumbers();
};
const soon = () => { clearTimeout(timer); timer = setTimeout(read, 400); };
fields[0].addEventListener("input", soon);
for (const select of fields.slice(1)) select.addEventListener("change", read);
colour.addEventListener("change", paint);
numbers.addEventListener("toggle", fillNumbers);
const panel = byId("tokens");
const whenShown = () => { if (!panel.hidden && !told && fields[1].value) read(); };
document.addEventListener("models", whenShown);
addEventListener("hashchange", () => setTimeout(whenShown));
