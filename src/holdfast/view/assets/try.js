// A talk with one model, or with two side by side. What is kept stays in this page until it is downloaded.
import { byId, post, say } from "./view.js";
const { all, make, figure } = holdfast;

const form = byId("try-form"), talk = byId("talk"), kept = [];
let histories = [[], []], spoken = ["", ""], stopping = null; // what each column's model has said, and which model that was
const mode = () => form.querySelector("input[name='try-mode']:checked").value;
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
  }
}

const showModes = () => { byId("try-form").querySelector(".overseen-only").hidden = mode() !== "overseen"; };
form.addEventListener("change", showModes);
showModes();

const makeReply = (name) => {
  const reply = make("article", "reply"), heading = make("h3"), sheet = make("div", "sheet alone"), said = make("p", "said"), margin = make("ol", "taken-back"), end = make("p", "caption");
  heading.append(make("bdi", "", name));
  margin.setAttribute("aria-label", "Taken back");
  margin.hidden = true;
  sheet.append(said, margin);
  reply.append(heading, sheet, end);
  return { reply, sheet, said, margin, end };
};

// Text that comes and goes. Lengths are counted in characters, as the server counts them.
const writer = ({ sheet, said, margin }) => {
  let text = [], taking = null; // the mark in the margin that grows while words are being taken back
  return (change) => {
    if (change.event === "insert") { text.push(...change.text); taking = null; }
    else {
      const gone = text.splice(text.length - change.num_chars).join("");
      if (!taking) {
        const item = make("li");
        taking = make("s");
        item.append(taking);
        margin.append(item);
        margin.hidden = false;
        sheet.classList.remove("alone");
      }
      taking.textContent = gone + taking.textContent;
    }
    said.textContent = text.join("");
  };
};

const drawCandidates = (told, { reply, end }) => {
  const list = make("ol", "candidates");
  told.candidates.forEach((candidate, place) => {
    const item = make("li"), facts = make("div", place === told.index ? "chosen" : ""), body = make("details"), text = make("p", "", candidate.text || "(empty)");
    const safe = candidate.safe === true ? "safe" : candidate.safe === false ? "unsafe" : "not judged";
    const parts = [place === told.index ? "chosen" : null, safe, candidate.outcome, candidate.reward === null ? "no reward" : `reward ${figure(candidate.reward)}`, `${candidate.judge}: ${candidate.reason}`];
    facts.textContent = parts.filter(Boolean).join(" · ");
    body.open = candidate.safe === true || place === told.index;
    body.append(make("summary", "", candidate.safe === false ? "The words (called unsafe)" : "The words"), text);
    item.append(facts, body);
    list.append(item);
  });
  reply.insertBefore(list, end);
  reply.insertBefore(make("p", "caption", told.index === null ? `None was chosen: ${told.why}` : `Candidate ${told.index + 1} was chosen: ${told.why}`), end);
};

const keepButton = (messages, place) => {
  const button = make("button", "keep", "Keep");
  button.type = "button";
  button.addEventListener("click", () => {
    kept.push({ messages });
    button.disabled = true;
    button.textContent = "Kept";
    byId("try-download").disabled = false;
    say("try-status", `${kept.length} kept`);
  });
  place.append(button);
};

const answer = async (asked, column, parts, signal) => {
  const write = writer(parts), pace = Number(byId("try-pace").value) || 0, history = histories[column];
  const response = await post("chat", asked, signal);
  for await (const told of events(response)) {
    if (told.event === "error") { parts.end.textContent = told.text; parts.end.classList.add("wrong"); return; }
    if (told.event === "candidates") drawCandidates(told, parts);
    else if (told.event === "finished") {
      if (asked.mode === "overseen") parts.said.textContent = told.text === null ? "" : told.text;
      parts.end.textContent = [told.num_undos ? `${told.num_undos} ${told.num_undos === 1 ? "undo" : "undos"}` : "", `ended: ${told.ended}`].filter(Boolean).join(" · ");
      if (told.text === null) continue;
      history.push({ role: "assistant", content: told.text });
      keepButton([...history], parts.reply);
    } else { write(told); if (pace) await sleep(pace); }
  }
};

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (stopping) { stopping.abort(); return; }
  const text = byId("try-text").value, models = ["try-model", "try-second"].map((id) => byId(id)).filter((select) => select.value);
  const exchange = make("div", "exchange"), beside = make("div", "beside");
  exchange.append(make("p", "", text), beside);
  talk.append(exchange);
  stopping = new AbortController();
  byId("try-send").textContent = "Stop";
  say("try-status", "answering");
  const number = (id) => Number(byId(id).value);
  const work = models.map((select, column) => {
    const parts = makeReply(select.selectedOptions[0].textContent);
    beside.append(parts.reply);
    if (spoken[column] !== select.value) { histories[column] = []; spoken[column] = select.value; }
    histories[column].push({ role: "user", content: text });
    const asked = { model: select.value, messages: histories[column], mode: mode(), prefill: byId("try-prefill").value, seed: number("try-seed"), temperature: number("try-temperature"), max_new_tokens: number("try-tokens") };
    if (asked.mode === "overseen") Object.assign(asked, { n: number("try-n"), judge: byId("try-judge").value, reward: byId("try-reward").value });
    return answer(asked, column, parts, stopping.signal).catch((error) => { parts.end.textContent = error.name === "AbortError" ? "stopped" : error.message; parts.end.classList.add("wrong"); });
  });
  await Promise.all(work);
  for (const history of histories) if (history.length && history[history.length - 1].role === "user") history.pop(); // nothing was said to it
  stopping = null;
  byId("try-send").textContent = "Ask";
  say("try-status", "answered");
});
byId("try-again").addEventListener("click", () => { if (stopping) stopping.abort(); histories = [[], []]; talk.replaceChildren(); say("try-status", ""); });
byId("try-download").addEventListener("click", () => {
  const lines = kept.map((row) => `${JSON.stringify(row)}\n`).join(""), link = make("a");
  link.href = URL.createObjectURL(new Blob([lines], { type: "application/jsonl" }));
  link.download = "kept.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
});
