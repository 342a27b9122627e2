"use strict";
(() => {
  const { all, make, roving, matrixTable, figure, readable, toldToken, drawAnswer, paintTokens } = holdfast;
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const table of all(".matrix")) matrixTable(table);
  for (const svg of all("svg[data-roving]")) roving(svg);
  for (const svg of all("svg[data-chart]")) readable(svg, data.charts[svg.dataset.chart]);

  // The token microscope.
  const COLUMNS = { weight: 1, kl: 2, gradient_share: 3 };
  if (data.microscope) {
    const { answers, tops } = data.microscope, root = document.getElementById("answers"), section = root.closest("section");
    const drawn = [];
    const groups = new Map(); // answers of a matrix fold by attack
    const groupOf = (name) => {
      if (!name) return root;
      if (!groups.has(name)) {
        const part = make("details"), summary = make("summary");
        summary.append(make("bdi", "", name));
        part.append(summary);
        part.open = groups.size === 0;
        groups.set(name, part);
        root.append(part);
      }
      return groups.get(name);
    };
    for (const answer of answers) {
      const article = drawAnswer(answer, toldToken, drawn);
      groupOf(answer.group).append(article);
      roving(article.querySelector(".tokens"));
    }
    const paint = (name) => {
      const column = COLUMNS[name], top = tops[name];
      // KL and gradient share have long tails: square-root steps keep the small ones apart.
      paintTokens(drawn, (token) => token[column], top, name === "weight" ? (x) => x : Math.sqrt);
      section.classList.toggle("warm", name === "kl");
      const unit = { weight: "", kl: " nats, square-root steps", gradient_share: ", square-root steps" }[name];
      section.querySelector(".scale > span").textContent = top === null ? "" : figure(top, name === "gradient_share") + unit;
    };
    const inputs = all("#figure input");
    for (const input of inputs) input.disabled = tops[input.value] === null;
    // Open with a figure that has something to show: under plain sft every weight is 1.
    const varies = (input) => {
      const values = drawn.slice(0, 200).map(([, token]) => token[COLUMNS[input.value]]).filter((value) => value !== null);
      return Math.max(...values) - Math.min(...values) > 0.2 * tops[input.value];
    };
    const open = inputs.filter((input) => !input.disabled), first = open.find(varies) || open[0];
    if (first) { first.checked = true; paint(first.value); }
    document.getElementById("figure").addEventListener("change", (event) => paint(event.target.value));
  }

  // Paper shows what is folded away.
  let folded = [];
  addEventListener("beforeprint", () => { folded = all("details:not([open])"); for (const part of folded) part.open = true; });
  addEventListener("afterprint", () => { for (const part of folded) part.open = false; });
})();
